//! Verbs of `gpool-lab`: measuring, injecting faults, and replaying traces and recorded decisions
//! serve the evaluation of gpool. gpool passes their words on without parsing them, and `gpool-lab`
//! parses the whole command line again.

use std::ffi::OsString;

use clap::Args;
use gpool_cli::failure::Result;

use crate::other_program;

/// The words after a verb of `gpool-lab`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    disable_help_flag = true,
    after_help = "gpool-lab runs this verb; its --help lists the flags."
)]
pub struct LabArgs {
    /// Flags and arguments for gpool-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// Replaces this process by `gpool-lab` with the same command line.
pub fn run() -> Result {
    other_program::run("gpool-lab", "testing/lab")
}
