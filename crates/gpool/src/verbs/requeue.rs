//! `gpool requeue`: stops jobs that run and puts them back, to be run again as their next attempt.

use clap::Args;
use gpool_cli::act::on_jobs;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::resolve::Scope;
use gpool_cli::session::Session;
use gpool_model::job::JobState;

/// Only what runs can be put back.
const SCOPE: Scope = Scope::In(&[JobState::Starting, JobState::Running, JobState::Paused]);

/// Stop jobs that run, and run them again later
#[derive(Debug, Clone, Args)]
pub struct RequeueArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Keep them held then, until they are released
    #[arg(long)]
    hold: bool,
    /// Do not ask before touching jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs it.
///
/// # Errors
/// There are no such jobs, or the server refuses some of them.
pub fn run(args: &RequeueArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, "requeue", SCOPE, args.yes, session, |client, ids| {
        client.requeue(ids, args.hold)
    })
}
