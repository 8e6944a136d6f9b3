//! `gpool bench`: the costs of gpool on this machine against their targets.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::bench::faults::{self, Fault};
use crate::bench::history;
use crate::bench::{self, Options, Part};

/// The arguments of `gpool bench`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Parts to measure (default: all)
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Measure less: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Number of job starts to time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    starts: Option<u32>,
    /// Number of jobs to drain
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: Option<u32>,
    /// Number of jobs that clients submit one by one, as fast as possible
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    submissions: Option<u32>,
    /// Seconds to measure an idle server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Number of waiting jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500_000))]
    pending: Option<u32>,
    /// Number of nodes of the large cluster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    nodes: Option<u32>,
    /// Number of machines for `agents`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    agents: Option<u32>,
    /// Number of kinds of requests for `attack`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    floods: Option<u32>,
    /// Number of changes of a service for `gateway`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    changes: Option<u32>,
    /// Devices of the temporary clusters
    #[arg(long, value_name = "DEVICES", default_value = "sim:8xH100-80G")]
    devices: String,
}

/// Other measurements.
#[derive(Debug, Clone, Subcommand)]
enum Other {
    /// Provoke faults on temporary clusters, and print the results against the targets
    #[command(after_help = FAULTS)]
    Faults(FaultsArgs),
    /// Measure the store of utilization history: size, writing, charts and reports
    #[command(after_help = HISTORY)]
    History(HistoryArgs),
}

#[derive(Debug, Clone, Args)]
struct FaultsArgs {
    /// Faults to provoke (default: all)
    #[arg(value_name = "FAULT", value_enum)]
    faults: Vec<Fault>,
    /// Provoke less: one minute instead of a few
    #[arg(long)]
    quick: bool,
    /// State folder of an earlier version for upgrade, or an archive of one; a copy is used
    #[arg(long, value_name = "PATH")]
    kept: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct HistoryArgs {
    /// Nodes with eight GPUs each
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    nodes: u32,
    /// Hours to write
    #[arg(long, value_name = "N", default_value_t = 24,
          value_parser = clap::value_parser!(u32).range(1..=720))]
    hours: u32,
}

const HISTORY: &str = "\
The values come from a generator: 15 % of the GPUs are idle, 60 % train, and 25 % have bursts. A \
quarter has no SM, tensor and memory activity. Files are in a temporary folder ($TMPDIR), and \
reads find them in memory. Figures for longer ranges are multiples of the written hours, and \
their lines give the factor.";

const FAULTS: &str = "\
Everything happens in a temporary folder, with real processes. Nothing on the machine changes: \
GPUs are simulated, and the clock is moved for these processes only. Faults that are impossible on \
this machine or for this user are skipped with the reason; root can provoke most. Lost and \
duplicate jobs are counted by the files that the jobs wrote. The exit code is 1 if a target is \
missed. Ctrl-C cleans up.";

/// Runs the verb.
///
/// # Errors
/// A cluster can't be started, or a job does not succeed.
pub fn run(args: BenchArgs, session: &Session) -> Result {
    match args.other {
        Some(Other::Faults(FaultsArgs { faults, quick, kept })) => {
            return faults::run(&faults::Options { faults, quick, kept }, &session.screen);
        }
        Some(Other::History(HistoryArgs { nodes, hours })) => {
            return history::run(&history::Options { nodes, hours }, &session.screen);
        }
        None => {}
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
        agents: args.agents.unwrap_or(usual.agents),
        floods: args.floods.unwrap_or(usual.floods),
        gateway_rounds: usual.gateway_rounds,
        gateway_changes: args.changes.unwrap_or(usual.gateway_changes),
        devices: args.devices,
        ..usual
    };
    bench::run(&options, &session.screen)
}
