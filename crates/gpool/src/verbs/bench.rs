//! `gpool bench`: what starting jobs costs on this machine.

use clap::Args;

use crate::bench;
use crate::failure::Result;
use crate::session::Session;

/// Measure what starting jobs costs, on a cluster of its own
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Submissions that are timed one by one
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    starts: u32,
    /// Jobs that are drained
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,
    /// Devices of the cluster
    #[arg(long, value_name = "DEVICES", default_value = "sim:8xH100-80G")]
    devices: String,
}

/// Runs it.
///
/// # Errors
/// The cluster can't be started, or a job does not succeed.
pub fn run(args: BenchArgs, session: &Session) -> Result {
    let BenchArgs { starts, jobs, devices } = args;
    bench::run(&bench::Options { starts, jobs, devices }, &session.screen)
}
