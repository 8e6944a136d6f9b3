//! Requests for retries and for a signal before the end of a job; the earlier attempts in answers.

use gpool_model::job::{Again, PastAttempt};
use gpool_model::job::{EndCause, ExitStatus};
use gpool_model::life::{OnUnmet, Retry, RetryOn, Warned, Warning};
use gpool_model::unit::Millis;
use gpool_model::{Dependency, DependencyKind, Exit, JobRequest, OnNodeLost, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::cause::{cause_word, cause_words};
use crate::check::{invalid, span};
use crate::signal;
use crate::time::Time;
use gpool_texts::words::nearest;

/// Maximum number of retries. A larger number is probably a typo.
const RETRIES_MAX: u32 = 1000;
const BACKOFF_MAX: Millis = Millis::from_hours(24);
const WARNING_MAX: Millis = Millis::from_hours(24);
const USR1: i32 = 10;

/// When the server retries a failed job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"most": 3, "on": ["fail", "timeout"], "exits": [33], "backoff": "30s"}))]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub most: u32,
    /// Outcomes to retry after: `fail`, `timeout`, `oom`, `lost`. Default if `exits` is empty too:
    /// all but `oom`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Exit codes to retry after, in addition to `on`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<i32>,
    /// Delay before the first retry: seconds, or text. The delay doubles with each retry, up to an
    /// hour. Default: no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Quantity>,
}

impl RetryPolicy {
    /// Checks the request and returns the retry settings of a job.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the error and a valid example.
    pub fn check(&self) -> Result<Retry, Refusal> {
        if self.most > RETRIES_MAX {
            let why = format!(
                "{} is more than the maximum of {RETRIES_MAX}; write, for example, 3",
                self.most
            );
            return Err(invalid("retry", &why));
        }
        let on = self.on.iter().map(|word| retry_on(word)).collect::<Result<_, _>>()?;
        if let Some(code) = self.exits.iter().find(|code| !(1..=255).contains(*code)) {
            let why = format!("{code} is not an exit code for retries; these are 1 to 255");
            return Err(invalid("retry_exit", &why));
        }
        let backoff = self.backoff.as_ref().map(|text| span("backoff", text)).transpose()?;
        let backoff = backoff.unwrap_or_default();
        if backoff > BACKOFF_MAX {
            return Err(invalid(
                "backoff",
                &format!("{backoff} is more than the maximum of one day; write 30s"),
            ));
        }
        Ok(Retry { most: self.most, on, exits: self.exits.iter().copied().collect(), backoff })
    }
}

impl From<&Retry> for RetryPolicy {
    fn from(retry: &Retry) -> Self {
        let word =
            |on: &RetryOn| RetryOn::ALL.iter().find(|(_, it)| it == on).map(|(word, _)| *word);
        Self {
            most: retry.most,
            on: retry.on.iter().filter_map(word).map(str::to_owned).collect(),
            exits: retry.exits.iter().copied().collect(),
            backoff: (!retry.backoff.is_zero()).then(|| Quantity::Text(span_flag(retry.backoff))),
        }
    }
}

fn retry_on(word: &str) -> Result<RetryOn, Refusal> {
    let found = RetryOn::ALL.iter().find(|(known, _)| *known == word.to_ascii_lowercase());
    found.map(|(_, on)| *on).ok_or_else(|| {
        let known = RetryOn::ALL.map(|(word, _)| word);
        let near = nearest(word, known.iter().copied()).unwrap_or("fail");
        let shown: String = word.chars().take(32).collect();
        let why =
            format!("{shown:?} is not one of fail, timeout, oom and lost; did you mean {near}?");
        invalid("retry_on", &why)
    })
}

/// Formats a time span in whole milliseconds, as flags accept it.
pub(crate) fn span_flag(span: Millis) -> String {
    match span.get() {
        millis if millis % 1000 != 0 => format!("{millis}ms"),
        millis => format!("{}s", millis / 1000),
    }
}

/// Checks that a job with a warning signal has a known end.
///
/// # Errors
/// [`Refusal::Invalid`] if the job has no known end, or the signal would come before the start.
pub(crate) fn check_warning(request: &JobRequest) -> Result<(), Refusal> {
    let Some(Warning { before, .. }) = *request.life.warning else { return Ok(()) };
    let why = match (request.time_limit, request.life.deadline) {
        (None, None) => {
            "a signal before the end needs a time limit or deadline; add --time or --deadline"
                .to_owned()
        }
        (Some(limit), _) if before >= limit => {
            format!("{before} before the end is before the start: the time limit is {limit}")
        }
        _ => return Ok(()),
    };
    Err(invalid("signal_before", &why))
}

/// Reads `cancel` or `keep`.
///
/// # Errors
/// [`Refusal::Invalid`] if it is neither.
pub fn on_unmet(word: &str) -> Result<OnUnmet, Refusal> {
    match word {
        "cancel" => Ok(OnUnmet::Cancel),
        "keep" => Ok(OnUnmet::Keep),
        _ => {
            let shown: String = word.chars().take(32).collect();
            Err(invalid("on_unmet", &format!("{shown:?} is neither cancel nor keep")))
        }
    }
}

/// Returns the word that [`on_unmet`] reads.
pub(crate) fn on_unmet_word(on_unmet: OnUnmet) -> &'static str {
    match on_unmet {
        OnUnmet::Cancel => "cancel",
        OnUnmet::Keep => "keep",
    }
}

/// Reads `wait`, `requeue` or `end`.
///
/// # Errors
/// [`Refusal::Invalid`] if it is none of them.
pub(crate) fn on_node_lost(word: &str) -> Result<OnNodeLost, Refusal> {
    let all = OnNodeLost::WORDS.iter();
    all.clone().find(|(name, _)| *name == word).map(|(_, value)| *value).ok_or_else(|| {
        let shown: String = word.chars().take(32).collect();
        invalid("on_node_lost", &format!("{shown:?} is not one of wait, requeue and end"))
    })
}

/// Formats dependencies as the API writes them: `ok:17`.
pub(crate) fn dependency_words(all: &[Dependency]) -> Vec<String> {
    let kind = |kind: DependencyKind| match kind {
        DependencyKind::Ok => "ok",
        DependencyKind::Fail => "fail",
        DependencyKind::End => "end",
        DependencyKind::Each => "each",
        DependencyKind::Start => "start",
    };
    let delay = |it: &Dependency| it.delay.map(|delay| format!("+{delay}")).unwrap_or_default();
    all.iter().map(|it| format!("{}:{}{}", kind(it.kind), it.job, delay(it))).collect()
}

/// Reads a signal and its time before the end: `90s`, `USR1@90s`, `B:USR1@90s`.
///
/// # Errors
/// [`Refusal::Invalid`] with an example.
pub fn warning(text: &str) -> Result<Warning, Refusal> {
    let field = "signal_before";
    let (to, text) = match text.split_once(':') {
        None => (Warned::Group, text),
        Some(("B", text)) => (Warned::Command, text),
        Some(("S", text)) => (Warned::Others, text),
        Some(_) => {
            let why = "B: signals only the command, S: all other processes; write, for example, \
                       B:USR1@90s";
            return Err(invalid(field, why));
        }
    };
    let (signal, time) = match text.split_once('@') {
        None => (USR1, text),
        Some((word, time)) => (signal::number_of(field, word)?, time),
    };
    let before = span(field, &Quantity::from(time))?;
    if before.is_zero() || before > WARNING_MAX {
        let why = format!("{before} is not between 1ms and a day; write, for example, USR1@90s");
        return Err(invalid(field, &why));
    }
    Ok(Warning { signal, before, to })
}

/// Formats a warning as [`warning`] reads it.
pub(crate) fn warning_text(warning: &Warning) -> String {
    let before = span_flag(warning.before);
    let to = warning.to.letter().map(|letter| format!("{letter}:")).unwrap_or_default();
    format!("{to}{}@{before}", signal::word(warning.signal))
}

/// An earlier attempt of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempted {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Outcome of the attempt: a stable code.
    pub outcome: String,
    /// Cause of the outcome: a stable code.
    pub cause: Option<String>,
    /// Cause of the outcome as a sentence.
    pub cause_text: Option<String>,
    /// Exit code, or 128 + the number of the signal that ended the attempt.
    pub exit_code: Option<i32>,
    /// Time at which the attempt started. `null` if it did not start.
    pub started_at: Option<Time>,
    /// Time at which the attempt ended.
    pub ended_at: Time,
    /// Why the job ran again: `retry`, `node_failed`, `requeued`, `taken_back`, `checkpointed`,
    /// `task_refused`.
    pub again: String,
}

impl From<&PastAttempt> for Attempted {
    fn from(past: &PastAttempt) -> Self {
        let again = match &past.again {
            Again::Retry => "retry",
            Again::NodeFailed => "node_failed",
            Again::Requeued { .. } => "requeued",
            Again::TakenBack { exit: Exit::Checkpoint, .. } => "checkpointed",
            Again::TakenBack { .. } => "taken_back",
            Again::TaskRefused { .. } => "task_refused",
        };
        // Without another cause, the victim's end names the job that got its devices.
        let cause = past.cause.clone().or(match &past.again {
            Again::TakenBack { why, beneficiary, .. } => {
                Some(EndCause::TakenBack { why: *why, beneficiary: *beneficiary })
            }
            Again::TaskRefused { rank } => Some(EndCause::TaskRefused { rank: *rank }),
            Again::Retry | Again::NodeFailed | Again::Requeued { .. } => None,
        });
        Self {
            attempt: past.attempt.0,
            outcome: past.outcome.state().as_str().to_owned(),
            cause: cause.as_ref().map(|cause| cause_word(cause).to_owned()),
            cause_text: cause.as_ref().map(cause_words),
            exit_code: past.exit.map(ExitStatus::shell_code),
            started_at: past.started_at.map(Time),
            ended_at: past.ended_at.into(),
            again: again.to_owned(),
        }
    }
}
