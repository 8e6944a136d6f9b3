//! `gpool completion`: prints a script that completes command lines in a shell.

use clap::{Args, ValueEnum};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::complete;

/// Print a script that completes command lines in a shell
///
/// It asks gpool each time, so it also completes jobs, nodes and GPUs.
/// bash: source <(gpool completion bash), in ~/.bashrc.
/// zsh: source <(gpool completion zsh), in ~/.zshrc after compinit.
/// fish: gpool completion fish | source, in ~/.config/fish/config.fish.
#[derive(Debug, Clone, Copy, Args)]
#[command(verbatim_doc_comment)]
pub struct CompletionArgs {
    /// Shell to complete for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// The supported shells.
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
///
/// # Errors
/// The output can't be written.
pub fn run(args: CompletionArgs, session: &Session) -> Result {
    let shell = match args.shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Zsh => "zsh",
    };
    let script = complete::script(shell)
        .ok_or_else(|| Failure::new(errors::INTERNAL, format!("there is no script for {shell}")))?;
    session.screen.raw(&script)?;
    Ok(Exit::OK)
}
