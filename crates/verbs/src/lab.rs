//! Verbs of `gpool-lab`: measuring, injecting faults, and replaying traces and recorded decisions
//! serve the evaluation of gpool. gpool passes their words on without parsing them, and `gpool-lab`
//! parses the whole command line again.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::program;

const PROGRAM: &str = "gpool-lab";

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
    let Some(program) = program::find(PROGRAM) else {
        return Err(Failure::new(errors::NO_LAB, format!("there is no program {PROGRAM}"))
            .why("it is not in the folder of gpool, and not in PATH")
            .tip("cargo install --locked --path testing/lab   (from a checkout of gpool)")
            .tip("cargo build --package gpool-lab   (beside a gpool that was built there)"));
    };
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    let what = format!("can't run {}: {error}", program.display());
    Err(Failure::new(errors::NO_LAB, what))
}
