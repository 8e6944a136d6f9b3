//! `gpool simulate packing`, `queue` and `scenarios`: what the scheduler does without a server, in
//! virtual time.

use clap::{Args, Subcommand};
use gpool_cli::failure::Result;
use gpool_cli::session::Session;

mod history;
mod packing;
mod page;
mod policy;
mod progress;
mod queue;
mod scenarios;
mod watch;

/// The version that pages name.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Play situations, traces and fillings of a cluster
#[derive(Debug, Clone, Args)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Play cases of clusters with quotas, and compare with what is expected of each
    Scenarios(scenarios::ScenariosArgs),
    Packing(packing::PackingArgs),
    Queue(queue::QueueArgs),
}

/// Runs it.
///
/// # Errors
/// As what is simulated.
pub fn run(args: &SimulateArgs, session: &Session) -> Result {
    match &args.what {
        What::Scenarios(args) => scenarios::run(args, session),
        What::Packing(args) => packing::run(args, session),
        What::Queue(args) => queue::run(args, session),
    }
}

/// In which form what came of a simulation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ResultFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
    /// Values with commas, below a line of names.
    Csv,
    /// A page with tables and pictures, in one file.
    Html,
}

impl ResultFormat {
    /// The form, with `--json` meaning `-o json`.
    #[must_use]
    pub fn or_json(self, json: bool) -> Self {
        if json && self == Self::Text { Self::Json } else { self }
    }
}
