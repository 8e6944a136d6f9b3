//! `gpool hold`: keeps jobs from starting until they are released.

use clap::Args;
use gpool_cli::act::on_jobs;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::resolve::Scope;
use gpool_cli::session::Session;
use gpool_model::job::JobState;

/// Only what has not started can be kept from it.
const SCOPE: Scope =
    Scope::In(&[JobState::Held, JobState::Waiting, JobState::Pending, JobState::Paused]);

/// Keep jobs from starting until they are released
#[derive(Debug, Clone, Args)]
pub struct HoldArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before touching jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs it.
///
/// # Errors
/// There are no such jobs, or the server refuses some of them.
pub fn run(args: &HoldArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, "hold", SCOPE, args.yes, session, |client, ids| client.hold(ids))
}
