//! Actions that the user confirms.

use gpool_cli::render::safe::safe;
use gpool_cli::render::words::{count, state};
use gpool_model::JobVerb;
use gpool_wire::Job;

use crate::input::{Ask, SIGNALS, VERBS};
use crate::state::{Lists, Top};

/// A question before an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The action, as text.
    pub(crate) text: String,
    /// The request if the user agrees.
    pub(crate) ask: Ask,
}

/// The question for a key; `None` if the key has no action.
///
/// # Errors
/// The action does not apply to the selected row; the text says why.
pub(crate) fn question(top: &Top, letter: char) -> Result<Option<Question>, String> {
    match &top.lists {
        Lists::Cluster { jobs, .. } => {
            let Some((_, verb)) = VERBS.iter().find(|(key, _)| *key == letter) else {
                return Ok(None);
            };
            let chosen = jobs.chosen();
            let of_gpu = top.wants();
            let chosen = if chosen.len() > 1 { chosen } else { of_gpu.into_iter().collect() };
            on_jobs(*verb, &chosen).map(Some)
        }
        Lists::Machine { processes, .. } => {
            let Some((_, signal, word)) = SIGNALS.iter().find(|(key, ..)| *key == letter) else {
                return Ok(None);
            };
            let it = processes.selected().ok_or("there is no process")?;
            let text = format!("{word} process {} ({})", it.pid, safe(&it.command));
            let ask = Ask::Signal { pid: it.pid, started: it.started, signal: *signal };
            Ok(Some(Question { text, ask }))
        }
    }
}

fn on_jobs(verb: JobVerb, jobs: &[&Job]) -> Result<Question, String> {
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
    Ok(Question { text, ask: Ask::Act { verb, jobs } })
}
