//! `gpool cancel`: ends jobs or removes them from the queue.

use clap::Args;
use gpool_cli::act::on_jobs_saying;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::render::words::state;
use gpool_cli::resolve::Scope;
use gpool_cli::session::Session;
use gpool_model::job::JobState;
use gpool_wire::JobChanged;

/// End jobs or remove them from the queue
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before cancelling jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
///
/// # Errors
/// There are no such jobs, or the server refuses some of them.
pub fn run(args: &CancelArgs, session: &Session) -> Result {
    let verb = ("cancel", &says as &dyn Fn(&JobChanged) -> String);
    on_jobs_saying(&args.jobs, verb, Scope::Living, args.yes, session, |client, ids| {
        client.cancel(ids)
    })
}

/// The new state of a cancelled job. An array is stopping until its last element has stopped.
fn says(job: &JobChanged) -> String {
    match job.state.is_end() {
        true => state(job.state.as_str()),
        false => state(JobState::Stopping.as_str()),
    }
}
