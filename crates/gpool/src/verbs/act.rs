//! What the verbs that change jobs share: find them, ask where it is wise, do it, say what became
//! of them.

use std::io::{BufRead as _, IsTerminal as _};

use gpool_client::{Client, Error};
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
/// of `all`, those that have not ended.
///
/// # Errors
/// There are no such jobs, the user does not confirm, or the server refuses.
pub fn on_jobs(
    jobs: &Jobs,
    verb: &str,
    yes: bool,
    session: &Session,
    act: impl Fn(&Client, &[String]) -> std::result::Result<List<JobChanged>, Error>,
) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let several = jobs.references().any(Reference::is_several);
    let mut asked = yes;
    let mut tries = 0;
    loop {
        let found = resolve::jobs(&client, jobs.references(), user, session.me(), Scope::Living)?;
        if found.ids.is_empty() {
            // `all` of nothing is done; a script that clears up must not fail on a clear queue.
            session.screen.note(&format!("there is no job to {verb}"));
            return Ok(Exit::OK);
        }
        if found.n_of_others > 1 && !asked {
            confirm(verb, found.n_of_others)?;
            asked = true;
        }
        let mut changed = Vec::with_capacity(found.ids.len());
        let mut done = Ok(());
        for ids in found.ids.chunks(IDS_MAX) {
            match act(&client, ids) {
                Ok(answer) => changed.extend(answer.items),
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        tries += 1;
        match done {
            Ok(()) => return report(&changed, session),
            Err(error) if several && has_ended(&error) && tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a job had ended before it could be changed.
fn has_ended(error: &Error) -> bool {
    let code = error.problem().code;
    [catalogue::ALREADY_ENDED, catalogue::NO_SUCH_JOB].iter().any(|ended| ended.to_string() == code)
}

fn report(changed: &[JobChanged], session: &Session) -> Result {
    if session.global.json {
        session.screen.data(&json::list(changed))?;
    } else if !session.screen.quiet {
        let line =
            |job: &JobChanged| format!("job {} {}\n", safe(&job.id), state(job.state.as_str()));
        session.screen.data(&changed.iter().map(line).collect::<String>())?;
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
