//! `gpool demo`: a demonstration in a temporary folder.

use clap::Args;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::demo;

#[derive(Debug, Clone, Default, Args)]
pub struct DemoArgs {
    /// Leave the cluster running
    #[arg(long)]
    keep: bool,
    /// Devices to use, e.g. nvml, sim:8xH100-80G or a .toml file
    #[arg(long, value_name = "DEVICES")]
    devices: Option<String>,
}

/// Runs the verb.
pub fn run(args: DemoArgs, session: &Session) -> Result {
    let DemoArgs { keep, devices } = args;
    demo::run(&demo::DemoOptions { keep, devices }, &session.screen)
}
