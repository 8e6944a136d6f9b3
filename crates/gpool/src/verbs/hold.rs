//! `gpool hold`: keeps jobs from starting until they are released.

use clap::Args;

use super::act::on_jobs;
use crate::args::jobs::Jobs;
use crate::failure::Result;
use crate::session::Session;

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
/// There are no such jobs, or the server refuses; then none is held.
pub fn run(args: &HoldArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, "hold", args.yes, session, |client, ids| client.hold(ids))
}
