//! `gpool bench`: what gpool costs on this machine, beside what it should cost.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::bench::faults::{self, Fault};
use crate::bench::{self, Options, Part};

/// Measure what gpool costs on this machine, on clusters of its own
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Only these parts
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Less of everything: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Submissions that are timed one by one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    starts: Option<u32>,
    /// Jobs that are drained
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: Option<u32>,
    /// Jobs that clients submit one by one, as fast as they can
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    submissions: Option<u32>,
    /// Seconds for which an idle server is watched
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Jobs that wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500_000))]
    pending: Option<u32>,
    /// Nodes of the large cluster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    nodes: Option<u32>,
    /// Devices of clusters that are started
    #[arg(long, value_name = "DEVICES", default_value = "sim:8xH100-80G")]
    devices: String,
}

/// What is measured instead of costs.
#[derive(Debug, Clone, Subcommand)]
enum Other {
    /// Provoke faults on clusters of its own, and print what came of them beside their bars
    #[command(after_help = FAULTS)]
    Faults(FaultsArgs),
}

#[derive(Debug, Clone, Args)]
struct FaultsArgs {
    /// Only these
    #[arg(value_name = "FAULT", value_enum)]
    faults: Vec<Fault>,
    /// Less of everything: a few minutes become one
    #[arg(long)]
    quick: bool,
    /// State folder of an earlier version for 'upgrade', or an archive of one; a copy is used
    #[arg(long, value_name = "PATH")]
    kept: Option<PathBuf>,
}

const FAULTS: &str = "\
Everything happens in a temporary folder, with real processes. Nothing of the machine is changed: \
GPUs are simulated, the clock is moved for these processes alone. What this machine or this user \
can't show is skipped, and it is said why; root can show most. Lost and doubled jobs are counted \
by what the jobs themselves wrote. The exit code is 1 if a bar is missed. Ctrl-C cleans up.";

/// Runs it.
///
/// # Errors
/// A cluster can't be started, or a job does not succeed.
pub fn run(args: BenchArgs, session: &Session) -> Result {
    if let Some(Other::Faults(args)) = args.other {
        let FaultsArgs { faults, quick, kept } = args;
        return faults::run(&faults::Options { faults, quick, kept }, &session.screen);
    }
    let usual = if args.quick { Options::quick() } else { Options::full() };
    let options = Options {
        parts: if args.only.is_empty() { usual.parts } else { args.only },
        starts: args.starts.unwrap_or(usual.starts),
        jobs: args.jobs.unwrap_or(usual.jobs),
        submissions: args.submissions.unwrap_or(usual.submissions),
        idle_s: args.seconds.unwrap_or(usual.idle_s),
        pending: args.pending.unwrap_or(usual.pending),
        nodes: args.nodes.unwrap_or(usual.nodes),
        devices: args.devices,
        ..usual
    };
    bench::run(&options, &session.screen)
}
