//! The command line of `gpool-lab`. Users write `gpool bench`, and so its messages say that too.

use clap::{Parser, Subcommand};
use gpool_cli::args::Global;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

use crate::simulate;
use crate::verbs::{bench, replay};

/// Measures gpool, provokes faults, and plays traces and recorded decisions
#[derive(Debug, Clone, Parser)]
#[command(name = "gpool-lab", bin_name = "gpool", version, disable_help_subcommand = true)]
#[command(disable_version_flag = true, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// Flags that every verb has.
    #[command(flatten)]
    pub global: Global,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Measure what starting jobs costs, on a cluster of its own
    Bench(bench::BenchArgs),
    /// Make decisions again from a dump or a journal, and compare
    Replay(replay::ReplayArgs),
    /// Play situations, traces and fillings of a cluster
    Simulate(simulate::SimulateArgs),
}

impl Verb {
    /// Runs the verb.
    ///
    /// # Errors
    /// What the verb meets.
    pub fn run(self, session: &Session) -> Result {
        match self {
            Self::Bench(args) => bench::run(args, session),
            Self::Replay(args) => replay::run(&args, session),
            Self::Simulate(args) => simulate::run(&args, session),
        }
    }
}
