//! `gpool release`: lets held jobs start.

use clap::Args;
use gpool_model::job::JobState;

use super::act::on_jobs;
use crate::args::jobs::Jobs;
use crate::failure::Result;
use crate::resolve::Scope;
use crate::session::Session;

/// Only what is held can be released.
const SCOPE: Scope = Scope::In(&[JobState::Held]);

/// Let held jobs start
#[derive(Debug, Clone, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Do not ask before touching jobs of other users
    #[arg(long)]
    yes: bool,
}

/// Runs it.
///
/// # Errors
/// There are no such jobs, or the server refuses; then none is released.
pub fn run(args: &ReleaseArgs, session: &Session) -> Result {
    on_jobs(&args.jobs, "release", SCOPE, args.yes, session, |client, ids| client.release(ids))
}
