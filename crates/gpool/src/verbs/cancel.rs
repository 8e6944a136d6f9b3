//! `gpool cancel`: ends jobs, or takes them off the queue.

use clap::Args;

use super::act::on_jobs;
use crate::args::jobs::Jobs;
use crate::failure::Result;
use crate::resolve::Scope;
use crate::session::Session;

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
    on_jobs(&args.jobs, "cancel", Scope::Living, args.yes, session, |client, ids| {
        client.cancel(ids)
    })
}
