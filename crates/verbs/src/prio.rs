//! `gpool prio`: changes the priority of jobs.

use clap::Args;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::values;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_wire::{JobCreate, JobPatch};

use super::edit::apply;

#[derive(Debug, Clone, Args)]
pub struct PrioArgs {
    /// New priority, -1000 to 1000; higher goes first
    #[arg(value_name = "N", value_parser = values::priority, allow_negative_numbers = true)]
    priority: i32,
    #[command(flatten)]
    jobs: Jobs,
}

/// Runs the verb.
pub fn run(args: &PrioArgs, session: &Session) -> Result {
    let patch = JobPatch::from(JobCreate { priority: Some(args.priority), ..JobCreate::default() });
    apply(&args.jobs, &patch, session)
}
