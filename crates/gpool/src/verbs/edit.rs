//! `gpool edit`: changes what can still change of a job. `prio` and `note` are short for it.

use clap::Args;
use gpool_wire::JobPatch;

use crate::args::jobs::Jobs;
use crate::args::values;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::resolve::{self, Scope};
use crate::session::Session;

/// Change a job's priority or note
#[derive(Debug, Clone, Args)]
pub struct EditArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// New priority, -1000 to 1000; higher goes first
    #[arg(long, visible_alias = "prio", value_name = "N", value_parser = values::priority)]
    #[arg(allow_hyphen_values = true)]
    priority: Option<i32>,
    /// New note; an empty one removes it
    #[arg(long, value_name = "TEXT", value_parser = values::note)]
    note: Option<String>,
    /// Most elements of an array that run at once; 0 is any number
    #[arg(long, value_name = "N")]
    max_parallel: Option<u32>,
    /// Cancel the rest of an array after more failures than this
    #[arg(long, value_name = "N")]
    max_fails: Option<u32>,
}

/// Runs it.
///
/// # Errors
/// Nothing is to be changed, there is no such job, or the server refuses.
pub fn run(args: &EditArgs, session: &Session) -> Result {
    let patch = JobPatch {
        priority: args.priority,
        note: args.note.clone(),
        max_parallel: args.max_parallel,
        max_fails: args.max_fails,
        ..JobPatch::default()
    };
    if patch == JobPatch::default() {
        return Err(Failure::new(errors::USAGE, "nothing is to be changed")
            .tip("gpool edit JOB --priority -10")
            .tip("gpool edit JOB --note 'after the demo'"));
    }
    apply(&args.jobs, &patch, session)
}

/// Makes the same change to each of the jobs.
///
/// # Errors
/// There is no such job, or the server refuses; jobs before that one are changed.
pub fn apply(jobs: &Jobs, patch: &JobPatch, session: &Session) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let found = resolve::jobs(&client, jobs.references(), user, session.me(), Scope::Living)?;
    if found.ids.is_empty() {
        session.screen.note("there is no job to change");
    }
    for id in &found.ids {
        let job = client.edit(id, patch, None)?;
        let told = job.notify.iter().map(|rule| format!(" · tells {rule}")).collect::<String>();
        let note = job.note.as_deref().map(|note| format!(" · note {note:?}")).unwrap_or_default();
        let text = format!("job {} priority {}{note}{told}", job.id, job.priority);
        session.screen.note(&crate::render::safe::safe(&text));
    }
    Ok(Exit::OK)
}
