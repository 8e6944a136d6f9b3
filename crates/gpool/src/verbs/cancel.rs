//! `gpool cancel`: ends jobs, or takes them off the queue.

use clap::Args;
use gpool_cli::act::on_jobs_saying;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::render::words::state;
use gpool_cli::resolve::Scope;
use gpool_cli::session::Session;
use gpool_model::job::JobState;
use gpool_wire::JobChanged;

/// End jobs, or take them off the queue
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
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
pub fn run(args: &CancelArgs, session: &Session) -> Result {
    let verb = ("cancel", &says as &dyn Fn(&JobChanged) -> String);
    on_jobs_saying(&args.jobs, verb, Scope::Living, args.yes, session, |client, ids| {
        client.cancel(ids)
    })
}

/// What became of a cancelled job. An array runs until the last of its elements has stopped.
fn says(job: &JobChanged) -> String {
    match job.state.is_end() {
        true => state(job.state.as_str()),
        false => state(JobState::Stopping.as_str()),
    }
}
