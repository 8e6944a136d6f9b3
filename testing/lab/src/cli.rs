//! The command line of `gpool-lab`. Users write `gpool bench`, so its messages name gpool.

use clap::{Parser, Subcommand};
use gpool_cli::args::Global;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::simulate;
use crate::verbs::{bench, replay};

/// Measure gpool, provoke faults, and play traces and recorded decisions
#[derive(Debug, Clone, Parser)]
#[command(name = "gpool-lab", bin_name = "gpool", version, disable_help_subcommand = true)]
#[command(disable_version_flag = true, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// The flags of every verb.
    #[command(flatten)]
    pub global: Global,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Measure the overhead of job starts on a temporary cluster
    Bench(bench::BenchArgs),
    /// Repeat recorded decisions and compare
    Replay(replay::ReplayArgs),
    /// Simulate scenarios, traces and the packing of a cluster
    Simulate(simulate::SimulateArgs),
}

impl Verb {
    /// Runs the verb.
    ///
    /// # Errors
    /// The errors of the verb.
    pub fn run(self, session: &Session) -> Result {
        match self {
            Self::Bench(args) => bench::run(args, session),
            Self::Replay(args) => replay::run(&args, session),
            Self::Simulate(args) => simulate::run(&args, session),
        }
    }
}
