//! `gpool completion`: prints a script that completes command lines in a shell.

use clap::{Args, ValueEnum};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::complete;

#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = "The script asks gpool each time, so it also completes jobs, nodes and \
    GPUs. In zsh, load it after compinit. In fish, use: gpool completion fish | source")]
pub struct CompletionArgs {
    /// Shell to complete for: bash, elvish, fish or zsh
    #[arg(value_enum, value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash.
    Bash,
    /// Elvish.
    Elvish,
    /// Fish.
    Fish,
    /// Z shell.
    Zsh,
}

/// Runs the verb.
pub fn run(args: CompletionArgs, session: &Session) -> Result {
    let shell = match args.shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Zsh => "zsh",
    };
    let script = complete::script(shell).ok_or_else(|| {
        Failure::new(errors::INTERNAL, format!("gpool has no completion script for {shell}"))
    })?;
    session.screen.raw(&script)?;
    Ok(Exit::OK)
}
