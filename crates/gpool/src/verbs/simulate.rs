//! `gpool simulate`: what would come of changes on the live cluster. What needs no server,
//! `gpool-lab` plays.

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use super::simulate_if::{self, SupposeArgs};
use crate::lab::{self, LabArgs};

const AFTER_HELP: &str = "What can be supposed:
  project red guaranteed=8     settings of a project, as project edit has them
  drain n3, undrain n3         nodes, or GPUs: n3:0
  add 2 nodes x 8 h100         nodes like those that there are
  policy preset=fifo           settings of the policy
  cancel 7, hold 7, release 7  jobs
  priority 7 10                a job's priority
  submit gpus=2 n=4            jobs, with the keys of the API: project, time

Examples:
  gpool simulate
  gpool simulate --if 'project red guaranteed=8' --if 'drain n3'
  gpool simulate --for 2h --if 'add 2 nodes x 8 h100' -o json";

/// Say what would come of changes, and make none of them
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    suppose: SupposeArgs,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Play cases of clusters with quotas, and compare with what is expected of each
    Scenarios(LabArgs),
    /// Fill a cluster with tasks by one policy and another, and say how full it gets
    Packing(LabArgs),
    /// Let the jobs of a trace come to a cluster, by one policy and another, and say how long they
    /// wait
    Queue(LabArgs),
}

/// Runs it.
///
/// # Errors
/// Something can't be supposed, or no server answers; or `gpool-lab` is not there.
pub fn run(args: &SimulateArgs, session: &Session) -> Result {
    match &args.what {
        None => simulate_if::run(&args.suppose, session),
        Some(What::Scenarios(_) | What::Packing(_) | What::Queue(_)) => lab::run(),
    }
}
