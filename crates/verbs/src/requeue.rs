//! `gpool requeue`: stops running jobs and queues their next attempt.

use clap::Args;
use gpool_cli::act::on_jobs;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_model::JobVerb;

#[derive(Debug, Clone, Args)]
pub struct RequeueArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Hold the jobs until they are released
    #[arg(long)]
    hold: bool,
    /// Do not ask before requeueing jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs the verb.
pub fn run(args: &RequeueArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, JobVerb::Requeue { hold: args.hold }, args.yes, session)
}
