//! What the verbs that change jobs share: find them, ask where it is wise, do it, say what became
//! of them.

use std::io::{BufRead as _, IsTerminal as _};

use gpool_client::Client;
use gpool_wire::{JobChanged, List};

use crate::args::jobs::Jobs;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::json;
use crate::render::safe::safe;
use crate::render::words::{count, state};
use crate::resolve::{self, Scope};
use crate::session::Session;

/// Does something to the jobs that are meant, all or none.
///
/// # Errors
/// There are no such jobs, the user does not confirm, or the server refuses.
pub fn on_jobs(
    jobs: &Jobs,
    verb: &str,
    yes: bool,
    session: &Session,
    act: impl FnOnce(&Client, &[String]) -> std::result::Result<List<JobChanged>, gpool_client::Error>,
) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let found = resolve::jobs(&client, jobs.references(), user, session.me(), Scope::Living)?;
    if found.ids.is_empty() {
        // `all` of nothing is done; a script that clears up must not fail on a clear queue.
        session.screen.note(&format!("there is no job to {verb}"));
        return Ok(Exit::OK);
    }
    if found.n_of_others > 1 && !yes {
        confirm(verb, found.n_of_others)?;
    }
    let answer = act(&client, &found.ids)?;
    report(&answer.items, session)
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
