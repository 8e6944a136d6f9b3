//! What the command line says.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use gpool_sim::Bug;

/// The whole of gpool in one thread, with faults and in virtual time, from one seed.
///
/// Each seed draws a cluster, which faults happen in it and how often, and what users ask; after
/// every event everything that was promised is checked, and at the end everything must come to
/// rest. The same seed always does the same.
#[derive(Debug, Parser)]
#[command(name = "gpool-sim", bin_name = "cargo xtask sim")]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// How many seeds to run
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub seeds: u64,
    /// The first of them; from 4294967296 (2^32) on, jobs share devices, and nodes move tasks and
    /// lend memory; from 8589934592 (2^33) on, shares change their size, and tasks are paused; from
    /// 17179869184 (2^34) on, idle tasks are released; from 34359738368 (2^35) on, nodes are other
    /// machines, and agents have leases
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub from: u64,
    /// Run this one alone
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from", "bugs"])]
    pub seed: Option<u64>,
    /// How many things happen in each, instead of as many as the seed draws
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Print what each seed is about; with --seed, all that happens and all that follows from it
    #[arg(long, short)]
    pub verbose: bool,
    /// Plant each known bug in turn, and say after how many seeds it is found, and by what
    #[arg(long)]
    pub bugs: bool,
    /// Plant this one
    #[arg(long, value_name = "BUG", value_parser = bug)]
    pub bug: Option<Bug>,
    /// Where to write a failing run once it is small
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// How many seeds to run at once, instead of one for each core
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Play a scenario file again
    Replay {
        /// The file
        file: PathBuf,
        /// Print all that happens and all that follows from it
        #[arg(long, short)]
        verbose: bool,
        /// Plant this bug
        #[arg(long, value_name = "BUG", value_parser = bug)]
        bug: Option<Bug>,
    },
}

fn bug(text: &str) -> Result<Bug, String> {
    let found = Bug::ALL.iter().copied().find(|bug| format!("{bug:?}") == text);
    let all: Vec<String> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    found.ok_or_else(|| format!("it is none of: {}", all.join(" ")))
}
