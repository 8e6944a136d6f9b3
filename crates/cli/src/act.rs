//! Shared steps of the verbs that change jobs: find the jobs, ask for confirmation, change them,
//! report the result.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _};

use gpool_client::{Client, Error};
use gpool_model::job::JobState;
use gpool_model::verb::Rules;
use gpool_model::{JobId, JobVerb};
use gpool_wire::{JobChanged, List, catalogue};

use crate::args::jobs::Jobs;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::json;
use crate::render::safe::safe;
use crate::render::words::{count, state};
use crate::resolve::{self, JobScope, ResolvedJobs};
use crate::session::Session;

/// Most ids in one request, which is limited to 1 MB.
const IDS_MAX: usize = 50_000;

/// Changes each of the referenced jobs. A refused job does not stop the others; a range or `all`
/// covers only the jobs in the states that the verb applies to.
///
/// # Errors
/// There are no such jobs, the user does not confirm, or the server refuses some; the others are
/// changed, and the output shows which.
pub fn on_jobs(jobs: &Jobs, verb: JobVerb, yes: bool, session: &Session) -> Result {
    on_jobs_saying(jobs, verb, &state_of, yes, session)
}

/// The state of a job, as most verbs report it.
fn state_of(job: &JobChanged) -> String {
    state(job.state.as_str())
}

/// Does the same as [`on_jobs`] and describes each result with `says`: `time limit +30m`.
pub fn on_jobs_saying(
    jobs: &Jobs,
    verb: JobVerb,
    says: &dyn Fn(&JobChanged) -> String,
    yes: bool,
    session: &Session,
) -> Result {
    let client = session.client()?;
    let Rules { name, states, .. } = verb.rules();
    let scope = states.map_or(JobScope::Living, JobScope::In);
    let user = jobs.user.as_deref();
    let mut found = resolve::each(&client, jobs.references(), user, session.me(), scope)?;
    if found.ids.is_empty() && found.refused.is_empty() {
        if !found.passed_over.is_empty() {
            return Err(none_to(name, &found.passed_over));
        }
        // With `all`, having no jobs is a success: a cleanup script must not fail on an empty
        // queue.
        session.screen.note(&format!("no job to {name}"));
        return Ok(Exit::OK);
    }
    if found.n_of_others > 1 && !yes {
        confirm(name, found.n_of_others)?;
    }
    let mut each = Each::of(&mut found);
    let mut tried = try_all(&found.ids, |ids| client.act(verb, ids));
    let mut n_moved = 0;
    for (id, failure) in tried.refused.drain(..) {
        // A job of a range may have ended since it was looked up.
        match has_moved(&failure) && !found.named.contains(&id) {
            true => n_moved += 1,
            false => each.refused.push(failure),
        }
    }
    let is_silent = tried.changed.is_empty() && !each.refused.is_empty();
    if !is_silent {
        say_changed(tried.changed, says, session)?;
    }
    let states = in_states(found.passed_over.values());
    let states = Some(states).filter(|it| !it.is_empty());
    let moved = (n_moved > 0).then(|| format!("{n_moved} changed in the meantime"));
    let parts: Vec<String> = states.into_iter().chain(moved).collect();
    if !parts.is_empty() {
        let n = u64::try_from(found.passed_over.len()).unwrap_or(u64::MAX).saturating_add(n_moved);
        session.screen.note(&format!("{} passed over: {}", count(n, "job"), parts.join(", ")));
    }
    tried.stopped?;
    each.end(name, Exit::OK)
}

/// The server's answer to a change of several jobs.
pub type Acted = std::result::Result<List<JobChanged>, Error>;

/// The results of a change, job by job.
#[derive(Debug)]
pub struct Tried {
    pub changed: Vec<JobChanged>,
    /// The refused jobs in the order given, each with the reason.
    pub refused: Vec<(String, Failure)>,
    /// Why the remaining jobs were not tried, if any.
    pub stopped: Result<()>,
}

/// Changes each job that can be changed. The server accepts or refuses a request as a whole, so a
/// refused list is halved until only refused jobs are left alone.
pub fn try_all(ids: &[String], act: impl Fn(&[String]) -> Acted) -> Tried {
    let mut tried = Tried { changed: Vec::new(), refused: Vec::new(), stopped: Ok(()) };
    // Starts with the last jobs: the first ones start and end while the others are processed.
    let mut open: Vec<&[String]> = ids.chunks(IDS_MAX).collect();
    while let Some(ids) = open.pop() {
        let failure = match act(ids) {
            Ok(answer) => {
                tried.changed.extend(answer.items);
                continue;
            }
            Err(error) => Failure::from(error),
        };
        match ids {
            _ if !failure.is_about_one() => {
                tried.stopped = Err(failure);
                break;
            }
            [id] => tried.refused.push((id.clone(), failure)),
            ids => open.extend(<[_; 2]>::from(ids.split_at(ids.len() / 2))),
        }
    }
    tried.refused.reverse();
    tried
}

/// Cancels jobs, except those that have ended meanwhile.
///
/// # Errors
/// A job may not be cancelled by the caller, or the server does not answer.
pub fn cancel_living(client: &Client, ids: &[String]) -> Result<()> {
    let tried = try_all(ids, |ids| client.cancel(ids));
    tried.stopped?;
    let refused = tried.refused.into_iter().map(|(_, failure)| failure);
    refused.filter(|failure| !has_moved(failure)).try_for_each(Err)
}

/// The jobs of a verb, which tries each of them.
#[derive(Debug)]
pub struct Each {
    n_jobs: usize,
    pub refused: Vec<Failure>,
}

impl Each {
    /// Starts with the found jobs and the references that were refused.
    #[must_use]
    pub fn of(found: &mut ResolvedJobs) -> Self {
        let refused = std::mem::take(&mut found.refused);
        Self { n_jobs: found.ids.len() + refused.len(), refused }
    }

    /// Returns the result of one job; `None` if it was refused.
    ///
    /// # Errors
    /// No further job can be tried: the server can't be reached, or the output can't be written.
    pub fn take<T>(&mut self, tried: Result<T>) -> Result<Option<T>> {
        match tried {
            Ok(done) => Ok(Some(done)),
            Err(failure) if failure.is_about_one() => {
                self.refused.push(failure);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns the result of the verb after all jobs were tried.
    ///
    /// # Errors
    /// One of the jobs was refused.
    pub fn end(mut self, verb: &str, exit: Exit) -> Result {
        match (self.refused.len(), self.n_jobs) {
            (0, _) => Ok(exit),
            (1, 1) => Err(self.refused.swap_remove(0)),
            (n, of) => {
                let jobs = count(u64::try_from(of).unwrap_or(u64::MAX), "job");
                Err(Failure::of_several(format!("can't {verb} {n} of {jobs}"), &self.refused))
            }
        }
    }
}

/// Whether the job ended or changed its state before it could be changed.
fn has_moved(failure: &Failure) -> bool {
    let codes = [catalogue::ALREADY_ENDED, catalogue::NO_SUCH_JOB, catalogue::WRONG_STATE];
    failure.code().is_some_and(|code| codes.contains(&code))
}

/// The failure if none of the found jobs can be changed.
fn none_to(verb: &str, jobs: &BTreeMap<String, JobState>) -> Failure {
    Failure::new(catalogue::WRONG_STATE, format!("no job to {verb}"))
        .why(format!("of the given jobs, {}", in_states(jobs.values())))
        .tip("gpool queue")
}

/// The number of jobs in each state: `3 running, 1 held`.
fn in_states<'s>(states: impl Iterator<Item = &'s JobState>) -> String {
    let mut counts: BTreeMap<JobState, usize> = BTreeMap::new();
    states.for_each(|state| *counts.entry(*state).or_default() += 1);
    let part = |(of, n): (JobState, usize)| format!("{n} {}", state(of.as_str()));
    counts.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Prints the result of each job, ordered by id.
fn say_changed(
    mut changed: Vec<JobChanged>,
    says: &dyn Fn(&JobChanged) -> String,
    session: &Session,
) -> Result<()> {
    changed.sort_by_key(|job| job.id.parse::<JobId>().ok());
    if session.global.json {
        return session.screen.data(&json::list(&changed));
    }
    if session.screen.quiet {
        return Ok(());
    }
    let line = |job: &JobChanged| format!("job {} {}\n", safe(&job.id), safe(&says(job)));
    session.screen.data(&changed.iter().map(line).collect::<String>())
}

fn confirm(verb: &str, n_jobs: usize) -> Result<()> {
    let jobs = count(u64::try_from(n_jobs).unwrap_or(u64::MAX), "job");
    let refused = || {
        Failure::new(errors::USAGE, format!("this affects {jobs} of other users"))
            .tip(format!("gpool {verb} … --yes"))
    };
    if !std::io::stdin().is_terminal() {
        return Err(refused());
    }
    eprint!("{verb} {jobs} of other users? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(refused()),
    }
}
