//! `gpool hold`: holds jobs until they are released.

use clap::Args;
use gpool_cli::act::on_jobs;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::resolve::Scope;
use gpool_cli::session::Session;
use gpool_model::job::JobState;

/// A running job can't be held.
const SCOPE: Scope =
    Scope::In(&[JobState::Held, JobState::Waiting, JobState::Pending, JobState::Paused]);

/// Hold jobs in the queue until they are released
#[derive(Debug, Clone, Args)]
pub struct HoldArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before holding jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
///
/// # Errors
/// There are no such jobs, or the server refuses some of them.
pub fn run(args: &HoldArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, "hold", SCOPE, args.yes, session, |client, ids| client.hold(ids))
}
