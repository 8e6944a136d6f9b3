//! Retries and the signal before the end of a job, as they are asked for; its earlier attempts, as
//! they are shown.

use gpool_model::job::{Again, PastAttempt};
use gpool_model::job::{EndCause, ExitStatus};
use gpool_model::life::{OnUnmet, Retry, RetryOn, Warned, Warning};
use gpool_model::unit::Millis;
use gpool_model::{Dependency, DependencyKind, Exit, JobRequest, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::cause::{cause_word, cause_words};
use crate::check::{invalid, span};
use crate::json::nearest;
use crate::signal;
use crate::time::Time;

/// Retries above this are a slip of the pen.
const RETRIES_MAX: u32 = 1000;
const BACKOFF_MAX: Millis = Millis::from_hours(24);
const WARNING_MAX: Millis = Millis::from_hours(24);
const USR1: i32 = 10;

/// When a job is run again by itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"most": 3, "on": ["fail", "timeout"], "exits": [33], "backoff": "30s"}))]
pub struct RetryAsked {
    /// How often at most.
    pub most: u32,
    /// After which ends: `fail`, `timeout`, `oom`, `lost`. With none and no `exits`: after each but
    /// `oom`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// After which exit codes as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<i32>,
    /// How long it waits before the first: seconds, or text; twice as long each time after, up to
    /// an hour. Absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Written>,
}

impl RetryAsked {
    /// What stands in a job's record.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with what is wrong and an example of what is right.
    pub fn check(&self) -> Result<Retry, Refusal> {
        if self.most > RETRIES_MAX {
            let why = format!("{} is more than {RETRIES_MAX}; write, for example, 3", self.most);
            return Err(invalid("retry", &why));
        }
        let on = self.on.iter().map(|word| retry_on(word)).collect::<Result<_, _>>()?;
        if let Some(code) = self.exits.iter().find(|code| !(1..=255).contains(*code)) {
            let why = format!("{code} is no exit code that can be retried; they are 1 to 255");
            return Err(invalid("retry_exit", &why));
        }
        let backoff = self.backoff.as_ref().map(|text| span("backoff", text)).transpose()?;
        let backoff = backoff.unwrap_or_default();
        if backoff > BACKOFF_MAX {
            return Err(invalid("backoff", &format!("{backoff} is more than a day; write 30s")));
        }
        Ok(Retry { most: self.most, on, exits: self.exits.iter().copied().collect(), backoff })
    }
}

impl From<&Retry> for RetryAsked {
    fn from(retry: &Retry) -> Self {
        let word =
            |on: &RetryOn| RetryOn::ALL.iter().find(|(_, it)| it == on).map(|(word, _)| *word);
        Self {
            most: retry.most,
            on: retry.on.iter().filter_map(word).map(str::to_owned).collect(),
            exits: retry.exits.iter().copied().collect(),
            backoff: (!retry.backoff.is_zero()).then(|| Written::Text(written(retry.backoff))),
        }
    }
}

fn retry_on(word: &str) -> Result<RetryOn, Refusal> {
    let found = RetryOn::ALL.iter().find(|(known, _)| *known == word.to_ascii_lowercase());
    found.map(|(_, on)| *on).ok_or_else(|| {
        let known = RetryOn::ALL.map(|(word, _)| word);
        let near = nearest(word, known.iter().copied()).unwrap_or("fail");
        let shown: String = word.chars().take(32).collect();
        let why = format!("{shown:?} is none of fail, timeout, oom and lost; did you mean {near}?");
        invalid("retry_on", &why)
    })
}

/// A length of time in whole milliseconds, as flags take it.
pub(crate) fn written(span: Millis) -> String {
    match span.get() {
        millis if millis % 1000 != 0 => format!("{millis}ms"),
        millis => format!("{}s", millis / 1000),
    }
}

/// Checks that a job has an end before which it can be signalled.
///
/// # Errors
/// [`Refusal::Invalid`] if it has none, or the signal would come before the start.
pub(crate) fn check_warning(request: &JobRequest) -> Result<(), Refusal> {
    let Some(Warning { before, .. }) = *request.life.warning else { return Ok(()) };
    let why = match (request.time_limit, request.life.deadline) {
        (None, None) => {
            "there is no end to be signalled before; say --time or --deadline too".to_owned()
        }
        (Some(limit), _) if before >= limit => {
            format!("{before} before the end of {limit} is before the start")
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

/// Returns jobs that must have ended, as they are written: `ok:17`.
pub(crate) fn dependencies_shown(all: &[Dependency]) -> Vec<String> {
    let kind = |kind: DependencyKind| match kind {
        DependencyKind::Ok => "ok",
        DependencyKind::Fail => "fail",
        DependencyKind::End => "end",
        DependencyKind::Each => "each",
        DependencyKind::Start => "start",
    };
    all.iter().map(|it| format!("{}:{}", kind(it.kind), it.job)).collect()
}

/// Reads a signal and how long before the end it is sent: `90s`, `USR1@90s`, `B:USR1@90s`.
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
            let why = "B: is its command alone, S: all but that; write, for example, B:USR1@90s";
            return Err(invalid(field, why));
        }
    };
    let (signal, time) = match text.split_once('@') {
        None => (USR1, text),
        Some((signal, time)) => {
            let number =
                signal::number(&Written::from(signal)).map_err(|refusal| match refusal {
                    Refusal::Invalid { why, .. } => invalid(field, &why),
                    other => other,
                })?;
            (number, time)
        }
    };
    let before = span(field, &Written::from(time))?;
    if before.is_zero() || before > WARNING_MAX {
        let why = format!("{before} is not between 1ms and a day; write, for example, USR1@90s");
        return Err(invalid(field, &why));
    }
    Ok(Warning { signal, before, to })
}

/// A signal and how long before, as it is read.
pub(crate) fn warning_text(warning: &Warning) -> String {
    let before = written(warning.before);
    let to = warning.to.letter().map(|letter| format!("{letter}:")).unwrap_or_default();
    match signal::name(warning.signal) {
        Some(name) => format!("{to}{name}@{before}"),
        None => format!("{to}{}@{before}", warning.signal),
    }
}

/// How an earlier attempt of a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempted {
    /// Which, from 1.
    pub attempt: u32,
    /// How it ended, in a word.
    pub outcome: String,
    /// What stands behind that, in a word.
    pub cause: Option<String>,
    /// The same for people.
    pub cause_text: Option<String>,
    /// Its exit code, or 128 + the signal that ended it.
    pub exit_code: Option<i32>,
    /// When it started, if it did.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Time,
    /// Why the job was run again: `retry`, `node_failed`, `requeued`,
    /// `taken_back`, `checkpointed`, `task_refused`.
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
        // For whom it went is said where nothing else stands behind its end.
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
