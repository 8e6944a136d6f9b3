//! `gpool simulate`: the effect of changes on the live cluster. `gpool-lab` runs the simulations
//! that need no server.

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use super::simulate_if::{self, SupposeArgs};
use crate::lab::{self, LabArgs};

const AFTER_HELP: &str = "Changes:
  project red guaranteed=8     settings of a project, as in gpool project edit
  drain n3, undrain n3         nodes, or GPUs: n3:0
  add 2 nodes x 8 h100         nodes like the existing ones
  policy preset=fifo           settings of the policy
  cancel 7, hold 7, release 7  jobs
  priority 7 10                a job's priority
  submit gpus=2 n=4            new jobs, with keys of the API: project, time

With gpool-lab, which is a program of its own: gpool simulate queue, packing and
scenarios run past jobs and tests without a server.";

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: Option<SimulateAction>,
    #[command(flatten)]
    suppose: SupposeArgs,
}

#[derive(Debug, Clone, Subcommand)]
enum SimulateAction {
    /// Play scenarios of clusters with quotas, and compare with the results of KAI
    #[command(hide = true)]
    Scenarios(LabArgs),
    /// Fill a cluster with tasks under several policies, and report its utilization
    #[command(hide = true)]
    Packing(LabArgs),
    /// Run the jobs of a trace on a cluster under several policies, and report waiting times
    #[command(hide = true)]
    Queue(LabArgs),
}

/// Runs the verb.
///
/// # Errors
/// A change is not valid, or no server answers; or `gpool-lab` is missing.
pub fn run(args: &SimulateArgs, session: &Session) -> Result {
    match &args.what {
        None => simulate_if::run(&args.suppose, session),
        Some(
            SimulateAction::Scenarios(_) | SimulateAction::Packing(_) | SimulateAction::Queue(_),
        ) => lab::run(),
    }
}
