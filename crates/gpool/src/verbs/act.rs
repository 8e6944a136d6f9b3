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
use crate::reference::Reference;
use crate::render::json;
use crate::render::safe::safe;
use crate::render::words::{count, state};
use crate::resolve::{self, Scope};
use crate::session::Session;

/// Most ids of one request, which may have 1 MB.
const IDS_MAX: usize = 50_000;

/// How often jobs are looked for again when some of them ended between the look and the deed.
const TRIES: usize = 20;

/// Does something to the jobs that are meant: all or none of those that were named; of a range or
/// of `all`, those in the states of the scope.
///
/// # Errors
/// There are no such jobs, the user does not confirm, or the server refuses.
pub fn on_jobs(
    jobs: &Jobs,
    verb: &str,
    scope: Scope,
    yes: bool,
    session: &Session,
    act: impl Fn(&Client, &[String]) -> std::result::Result<List<JobChanged>, Error>,
) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let several = jobs.references().any(Reference::is_several);
    let mut asked = yes;
    let mut tries = 0;
    let mut at_once = IDS_MAX;
    let mut changed = Vec::new();
    loop {
        let found = resolve::jobs(&client, jobs.references(), user, session.me(), scope);
        let found = match found {
            // All that a range meant has ended since the first try.
            Err(_) if !changed.is_empty() => return report(changed, BTreeMap::new(), session),
            found => found?,
        };
        if found.ids.is_empty() && changed.is_empty() {
            if !found.passed_over.is_empty() {
                return Err(none_to(verb, &found.passed_over));
            }
            // `all` of nothing is done; a script that clears up must not fail on a clear queue.
            session.screen.note(&format!("there is no job to {verb}"));
            return Ok(Exit::OK);
        }
        if found.n_of_others > 1 && !asked {
            confirm(verb, found.n_of_others)?;
            asked = true;
        }
        tries += 1;
        let mut missed = false;
        // The last first: those at the front start and end while the others are worked through.
        for ids in found.ids.rchunks(at_once) {
            match act(&client, ids) {
                Ok(answer) => changed.extend(answer.items),
                Err(error) if several && has_moved(&error) && tries < TRIES => missed = true,
                Err(error) => return Err(error.into()),
            }
        }
        if !missed {
            return report(changed, found.passed_over, session);
        }
        // Where jobs end quickly, fewer at once leave them less time for it.
        at_once = (at_once / 4).max(1);
    }
}

/// Whether a job had ended, or gone on to another state, before it could be changed.
fn has_moved(error: &Error) -> bool {
    let code = error.problem().code;
    let codes = [catalogue::ALREADY_ENDED, catalogue::NO_SUCH_JOB, catalogue::WRONG_STATE];
    codes.iter().any(|moved| moved.to_string() == code)
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

/// Says what became of each job, once and by number: a job may have been met in several tries.
fn report(
    changed: Vec<JobChanged>,
    mut passed_over: BTreeMap<String, JobState>,
    session: &Session,
) -> Result {
    // What was done in an earlier try put them into another state.
    for job in &changed {
        passed_over.remove(&job.id);
    }
    let by_number = |job: JobChanged| (job.id.parse::<JobId>().ok(), job);
    let changed: Vec<JobChanged> =
        changed.into_iter().map(by_number).collect::<BTreeMap<_, _>>().into_values().collect();
    if session.global.json {
        session.screen.data(&json::list(&changed))?;
    } else if !session.screen.quiet {
        let line =
            |job: &JobChanged| format!("job {} {}\n", safe(&job.id), state(job.state.as_str()));
        session.screen.data(&changed.iter().map(line).collect::<String>())?;
    }
    if !passed_over.is_empty() {
        let n = u64::try_from(passed_over.len()).unwrap_or(u64::MAX);
        let states = in_states(passed_over.values());
        session.screen.note(&format!("{} passed over: {states}", count(n, "job")));
    }
    Ok(Exit::OK)
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
