//! `gpool simulate packing`, `queue` and `scenarios`: simulations of the scheduler without a
//! server, in virtual time.

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

pub mod compare;
pub mod figures;
pub mod history;
pub mod packing;
pub mod policy;
pub mod progress;
pub mod queue;
mod scenarios;

/// The arguments of `gpool simulate`.
#[derive(Debug, Clone, Args)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Play scenarios of clusters with quotas, and compare with the results of KAI
    Scenarios(scenarios::ScenariosArgs),
    Packing(packing::PackingArgs),
    Queue(queue::QueueArgs),
}

/// Runs the verb.
///
/// # Errors
/// The errors of the simulation.
pub fn run(args: &SimulateArgs, session: &Session) -> Result {
    match &args.what {
        What::Scenarios(args) => scenarios::run(args, session),
        What::Packing(args) => packing::run(args, session),
        What::Queue(args) => queue::run(args, session),
    }
}

/// The output format of a simulation's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ResultFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
    /// Comma-separated values with a header.
    Csv,
}

impl ResultFormat {
    /// The format; `--json` means `-o json`.
    #[must_use]
    pub fn or_json(self, json: bool) -> Self {
        if json && self == Self::Text { Self::Json } else { self }
    }
}
