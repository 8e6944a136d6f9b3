//! Exits, the ways to preempt a job: requests and answers.

use std::collections::BTreeSet;

use gpool_model::job::Holder;
use gpool_model::kind::Yields;
use gpool_model::unit::Millis;
use gpool_model::{Checkpoint, Exit, Job, JobSpec, Phase, Refusal};

use crate::amount::Quantity;
use crate::check::{invalid, span};
use crate::course::span_flag;
use crate::create::JobCreate;
use crate::signal;
use crate::time::Time;
use gpool_texts::words::nearest;

const GRACE_MAX: Millis = Millis::from_hours(24);

/// The exits of a job request.
pub struct Exits {
    /// Whether the job can be preempted, if it says so.
    pub preemptible: Option<bool>,
    /// The allowed ways.
    pub exits: BTreeSet<Exit>,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
}

impl Exits {
    /// Reads the exits of a request.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the error and a valid example.
    pub fn of(job: &JobCreate) -> Result<Self, Refusal> {
        let mut exits = read(&job.exits)?;
        let checkpoint = job.checkpoint.as_deref().map(checkpoint).transpose()?;
        if checkpoint.is_some() {
            exits.insert(Exit::Checkpoint);
        }
        let preemptible = job.preemptible.or((!exits.is_empty()).then_some(true));
        Ok(Self { preemptible, exits, checkpoint })
    }
}

/// Reads the names of exits.
///
/// # Errors
/// [`Refusal::Invalid`] with the nearest name.
pub fn read(words: &[String]) -> Result<BTreeSet<Exit>, Refusal> {
    words.iter().map(|word| exit(word)).collect()
}

/// Reads the name of one exit.
///
/// # Errors
/// [`Refusal::Invalid`] with the nearest name.
pub fn exit(word: &str) -> Result<Exit, Refusal> {
    word.to_ascii_lowercase().parse().map_err(|_| {
        let known = Exit::ALL.map(Exit::as_str);
        let near = nearest(word, known.iter().copied()).unwrap_or("requeue");
        let shown: String = word.chars().take(32).collect();
        let why = format!(
            "{shown:?} is not one of pause, checkpoint, requeue and kill; did you mean {near}?"
        );
        invalid("exits", &why)
    })
}

/// Reads a checkpoint signal and the time to save: `USR1@2m`, `USR1`, `2m` with TERM.
///
/// # Errors
/// [`Refusal::Invalid`] with an example.
pub fn checkpoint(text: &str) -> Result<Checkpoint, Refusal> {
    let field = "checkpoint";
    let number = |word: &str| signal::number_of(field, word);
    let grace = |word: &str| {
        let grace = span(field, &Quantity::from(word))?;
        if grace.is_zero() || grace > GRACE_MAX {
            let why = format!("{grace} is not between 1ms and a day; write, for example, USR1@2m");
            return Err(invalid(field, &why));
        }
        Ok(Some(grace))
    };
    let starts_with_digit = text.starts_with(|letter: char| letter.is_ascii_digit());
    match text.split_once('@') {
        Some((word, time)) => Ok(Checkpoint { signal: number(word)?, grace: grace(time)? }),
        None if starts_with_digit => {
            Ok(Checkpoint { grace: grace(text)?, ..Checkpoint::default() })
        }
        None => Ok(Checkpoint { signal: number(text)?, grace: None }),
    }
}

/// Formats a checkpoint as [`checkpoint`] reads it.
pub fn checkpoint_text(checkpoint: &Checkpoint) -> String {
    let name = signal::word(checkpoint.signal);
    match checkpoint.grace {
        Some(grace) => format!("{name}@{}", span_flag(grace)),
        None => name,
    }
}

/// The word for jobs that read the request from its file, without a signal.
pub const FILE: &str = "file";

/// Reads how a job frees its GPUs itself: `file`, `USR1`, `USR1@60s`.
///
/// # Errors
/// [`Refusal::Invalid`] with an example.
pub fn yields(text: &str) -> Result<Yields, Refusal> {
    let named = |refusal: Refusal| match refusal {
        Refusal::Invalid { why, .. } => invalid("yields", &why),
        other => other,
    };
    let (word, time) = text.split_once('@').map_or((text, None), |(word, at)| (word, Some(at)));
    let asked = match (word, time) {
        (FILE, None) => return Ok(Yields::default()),
        (FILE, Some(time)) => checkpoint(time).map_err(named)?,
        _ => checkpoint(text).map_err(named)?,
    };
    Ok(Yields { signal: Some(asked.signal).filter(|_| word != FILE), within: asked.grace })
}

/// Formats it as [`yields`] reads it.
pub fn yields_text(yields: &Yields) -> String {
    let word = match yields.signal {
        Some(signal) => checkpoint_text(&Checkpoint { signal, grace: None }),
        None => FILE.to_owned(),
    };
    match yields.within {
        Some(within) => format!("{word}@{}", span_flag(within)),
        None => word,
    }
}

/// Returns a note if a victim gets less time to save, or to end, than its request asks for.
pub(crate) fn capped(spec: &JobSpec, job: &Job, most: Option<Millis>) -> Option<String> {
    let most = most.filter(|_| !job.phase.is_ended())?;
    let asked = spec.life.allowed_exits().into_iter().map(|exit| spec.grace_for(exit)).max()?;
    (asked > most).then(|| {
        format!(
            "it asks for {asked} to save its state when it is preempted, and gets {most}, the \
             save_time_max of project {} or of the policy; an admin can raise it",
            spec.project
        )
    })
}

/// Returns the time since which a job is paused.
pub(crate) fn paused_since(phase: &Phase) -> Option<Time> {
    match phase {
        Phase::Paused { since, .. } => Some(Time(*since)),
        _ => None,
    }
}

/// Returns the holder of a job: `user`, `admin`, `scheduler`, `budget` or `idle`.
pub(crate) fn holder_word(job: &gpool_model::Job) -> Option<String> {
    job.holder().map(|holder| match holder {
        Holder::User => "user".to_owned(),
        Holder::Admin => "admin".to_owned(),
        Holder::Idle => "idle".to_owned(),
        Holder::Scheduler => "scheduler".to_owned(),
        Holder::Budget => "budget".to_owned(),
    })
}

/// Returns the name of the admin that holds a job.
pub(crate) fn holder_name(job: &gpool_model::Job) -> Option<String> {
    let hold = job.course.admin_hold.as_ref();
    hold.filter(|_| job.holder() == Some(Holder::Admin)).map(|hold| hold.by.to_string())
}
