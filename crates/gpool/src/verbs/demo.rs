//! `gpool demo`: everything at once, in a temporary folder.

use clap::Args;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::demo;

/// Run a mixed load on a cluster of its own, and show who gets what and why
#[derive(Debug, Clone, Default, Args)]
pub struct DemoArgs {
    /// Leave the cluster running
    #[arg(long)]
    keep: bool,
    /// Devices instead of this machine's: sim:8xH100-80G, a TOML file, nvml
    #[arg(long, value_name = "DEVICES")]
    devices: Option<String>,
}

/// Runs it.
///
/// # Errors
/// The cluster can't be started, or a job that should succeed did not.
pub fn run(args: DemoArgs, session: &Session) -> Result {
    let DemoArgs { keep, devices } = args;
    demo::run(&demo::Options { keep, devices }, &session.screen)
}
