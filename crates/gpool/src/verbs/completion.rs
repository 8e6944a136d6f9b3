//! `gpool completion`: a script that completes the command line in a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Result;
use crate::session::Session;

/// Print a script that completes the command line in a shell
#[derive(Debug, Clone, Copy, Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Runs it.
///
/// # Errors
/// The output can't be written.
pub fn run(args: CompletionArgs, session: &Session) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gpool", &mut script);
    session.screen.raw(&script)?;
    Ok(Exit::OK)
}
