//! Programs beside gpool that run some of its verbs, with libraries that gpool does not need. They
//! parse the whole command line again.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::program;

/// Replaces this process by a program with the same command line. `folder` is its folder in a
/// checkout.
pub(crate) fn run(name: &str, folder: &str) -> Result {
    let Some(program) = program::find(name) else {
        return Err(Failure::new(errors::NO_PROGRAM, format!("there is no program {name}"))
            .why("it is not in the folder of gpool, and not in PATH")
            .tip(format!("cargo install --locked --path {folder}   (from a checkout of gpool)"))
            .tip(format!("cargo build --package {name}   (beside a gpool that was built there)")));
    };
    let error = Command::new(&program).args(std::env::args_os().skip(1)).exec();
    let what = format!("can't run {}: {error}", program.display());
    Err(Failure::new(errors::NO_PROGRAM, what))
}
