//! What the verbs that change jobs share: find them, ask where it is wise, do it, say what became
//! of them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _};

use gpool_client::{Client, Error};
use gpool_model::JobId;
use gpool_model::job::JobState;
use gpool_wire::{JobChanged, List, catalogue};

use crate::args::jobs::Jobs;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::json;
use crate::render::safe::safe;
use crate::render::words::{count, state};
use crate::resolve::{self, Found, Scope};
use crate::session::Session;

/// Most ids of one request, which may have 1 MB.
const IDS_MAX: usize = 50_000;

/// Does something to each of the jobs that are meant. One that is refused keeps none of the others
/// from it; of a range or of `all`, those in the states of the scope are meant.
///
/// # Errors
/// There are no such jobs, the user does not confirm, or the server refuses some; the others are
/// changed, and the output says which.
pub fn on_jobs(
    jobs: &Jobs,
    verb: &str,
    scope: Scope,
    yes: bool,
    session: &Session,
    act: impl Fn(&Client, &[String]) -> Acted,
) -> Result {
    on_jobs_saying(jobs, (verb, &state_of), scope, yes, session, act)
}

/// The state of a job, as most verbs report it.
fn state_of(job: &JobChanged) -> String {
    state(job.state.as_str())
}

/// The same with words of the verb's own for what became of a job: `time limit +30m`.
///
/// # Errors
/// As [`on_jobs`].
pub fn on_jobs_saying(
    jobs: &Jobs,
    (verb, says): (&str, &dyn Fn(&JobChanged) -> String),
    scope: Scope,
    yes: bool,
    session: &Session,
    act: impl Fn(&Client, &[String]) -> Acted,
) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let mut found = resolve::each(&client, jobs.references(), user, session.me(), scope)?;
    if found.ids.is_empty() && found.refused.is_empty() {
        if !found.passed_over.is_empty() {
            return Err(none_to(verb, &found.passed_over));
        }
        // `all` of nothing is done; a script that clears up must not fail on a clear queue.
        session.screen.note(&format!("there is no job to {verb}"));
        return Ok(Exit::OK);
    }
    if found.n_of_others > 1 && !yes {
        confirm(verb, found.n_of_others)?;
    }
    let mut each = Each::of(&mut found);
    let mut tried = try_all(&found.ids, |ids| act(&client, ids));
    let mut n_moved = 0;
    for (id, failure) in tried.refused.drain(..) {
        // Those of a range were looked up a moment ago, and may have ended since.
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
    let moved = (n_moved > 0).then(|| format!("{n_moved} changed meanwhile"));
    let parts: Vec<String> = states.into_iter().chain(moved).collect();
    if !parts.is_empty() {
        let n = u64::try_from(found.passed_over.len()).unwrap_or(u64::MAX).saturating_add(n_moved);
        session.screen.note(&format!("{} passed over: {}", count(n, "job"), parts.join(", ")));
    }
    tried.stopped?;
    each.end(verb, Exit::OK)
}

/// What the server answers to a change of several jobs.
pub type Acted = std::result::Result<List<JobChanged>, Error>;

/// What became of jobs that were tried.
#[derive(Debug)]
pub struct Tried {
    /// Those that were changed.
    pub changed: Vec<JobChanged>,
    /// Those that were refused, in the order given, each with the reason.
    pub refused: Vec<(String, Failure)>,
    /// Why the rest was not tried, if it was not.
    pub stopped: Result<()>,
}

/// Tries to change jobs, each by itself. The server takes all jobs of a request or none, so a list
/// that it refuses is cut in halves until the jobs stand alone that it refuses.
pub fn try_all(ids: &[String], act: impl Fn(&[String]) -> Acted) -> Tried {
    let mut tried = Tried { changed: Vec::new(), refused: Vec::new(), stopped: Ok(()) };
    // Jobs at the end first: those at the front start and end during the work on the others.
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

/// The jobs that a verb is for; it tries each of them.
#[derive(Debug)]
pub struct Each {
    n_jobs: usize,
    /// Why jobs were refused.
    pub refused: Vec<Failure>,
}

impl Each {
    /// Those that were found, with those that were not.
    #[must_use]
    pub fn of(found: &mut Found) -> Self {
        let refused = std::mem::take(&mut found.refused);
        Self { n_jobs: found.ids.len() + refused.len(), refused }
    }

    /// What came of one job; `None` if it was refused.
    ///
    /// # Errors
    /// No job can be tried any more: the server can't be reached, or the output not be written.
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

    /// How the verb ends after all jobs were tried.
    ///
    /// # Errors
    /// One of them was refused.
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

/// Whether a job had ended, or gone on to another state, before it could be changed.
fn has_moved(failure: &Failure) -> bool {
    let codes = [catalogue::ALREADY_ENDED, catalogue::NO_SUCH_JOB, catalogue::WRONG_STATE];
    failure.code().is_some_and(|code| codes.contains(&code))
}

/// There are jobs, and this can be done to none of them.
fn none_to(verb: &str, jobs: &BTreeMap<String, JobState>) -> Failure {
    Failure::new(catalogue::WRONG_STATE, format!("there is no job to {verb}"))
        .why(format!("of those meant, {}", in_states(jobs.values())))
        .tip("gpool queue")
}

/// How many are in which state: `3 running, 1 held`.
fn in_states<'s>(states: impl Iterator<Item = &'s JobState>) -> String {
    let mut counts: BTreeMap<JobState, usize> = BTreeMap::new();
    states.for_each(|state| *counts.entry(*state).or_default() += 1);
    let part = |(of, n): (JobState, usize)| format!("{n} {}", state(of.as_str()));
    counts.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Says what became of each job, by number.
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
        Failure::new(errors::USAGE, format!("{jobs} of other users would be touched"))
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
