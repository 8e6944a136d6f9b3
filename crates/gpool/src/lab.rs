//! Verbs of another program: measuring, provoking faults, and playing traces and recorded
//! decisions are for evaluating gpool, and `gpool-lab` does them. Each of these verbs takes
//! its words here unread; `gpool-lab` reads the whole command line again.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::program;

/// The program.
const PROGRAM: &str = "gpool-lab";

/// What follows a verb of `gpool-lab`.
#[derive(Debug, Clone, Default, Args)]
#[command(disable_help_flag = true, after_help = "gpool-lab does this. --help lists its flags.")]
pub struct LabArgs {
    /// Flags and words for gpool-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// Becomes `gpool-lab` with the words of this command line.
///
/// # Errors
/// It is not there, or can't be run.
pub fn run() -> Result {
    let Some(program) = program::find(PROGRAM) else {
        return Err(Failure::new(errors::NO_LAB, format!("there is no program {PROGRAM}"))
            .why("it lies neither beside gpool nor in a folder of PATH")
            .tip("cargo install --locked --path crates/lab   (from a checkout of gpool)")
            .tip("cargo build --package gpool-lab   (beside a gpool that was built there)"));
    };
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    let what = format!("can't run {}: {error}", program.display());
    Err(Failure::new(errors::NO_LAB, what))
}
