//! Actions that the user confirms.

use gpool_cli::render::safe::safe;
use gpool_cli::render::words::{count, state};
use gpool_model::JobVerb;
use gpool_wire::Job;

use crate::data::Process;
use crate::input::{SIGNALS, TopCommand, VERBS};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirmation {
    /// The action, as text.
    pub(crate) text: String,
    /// The request if the user agrees.
    pub(crate) ask: TopCommand,
}

/// The question for a key about jobs; `None` if the key has no action.
///
/// # Errors
/// The action applies to none of the jobs; the text says why.
pub(crate) fn of_jobs(letter: char, jobs: &[&Job]) -> Result<Option<Confirmation>, String> {
    match VERBS.iter().find(|(key, _)| *key == letter) {
        Some((_, verb)) => on_jobs(*verb, jobs).map(Some),
        None => Ok(None),
    }
}

/// The question for a key about a process; `None` if the key has no action.
///
/// # Errors
/// There is no process.
pub(crate) fn of_process(
    letter: char,
    process: Option<&Process>,
) -> Result<Option<Confirmation>, String> {
    let Some((_, signal, word)) = SIGNALS.iter().find(|(key, ..)| *key == letter) else {
        return Ok(None);
    };
    let it = process.ok_or("there is no process")?;
    let text = format!("{word} process {} ({})", it.pid, safe(&it.command));
    let ask = TopCommand::Signal { pid: it.pid, started: it.started, signal: *signal };
    Ok(Some(Confirmation { text, ask }))
}

fn on_jobs(verb: JobVerb, jobs: &[&Job]) -> Result<Confirmation, String> {
    let name = verb.name();
    let fit: Vec<&&Job> = jobs.iter().filter(|job| verb.applies_in(job.state)).collect();
    let text = match (jobs, fit.as_slice()) {
        ([], _) => return Err(format!("there is no job to {name}")),
        ([job], []) => {
            let state = state(job.state.as_str());
            return Err(format!("can't {name} job {}: it is {state}", job.id));
        }
        (_, []) => return Err(format!("can't {name} any of the tagged jobs")),
        (_, [job]) => {
            format!("{name} job {} ({}, of {})", job.id, safe(&job.name), safe(&job.user))
        }
        (_, fit) => format!("{name} {}", count(fit.len() as u64, "job")),
    };
    let jobs = fit.iter().map(|job| job.id.clone()).collect();
    Ok(Confirmation { text, ask: TopCommand::Act { verb, jobs } })
}
