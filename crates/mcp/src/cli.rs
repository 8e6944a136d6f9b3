//! The command line. Users write `gpool mcp`, so its messages name gpool.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use gpool_cli::args::Global;
use gpool_cli::args::mcp::McpArgs;
use gpool_cli::exit::Exit;
use gpool_cli::program::{self, ended};
use gpool_cli::session::Session;

use crate::server;

#[derive(Debug, Clone, Parser)]
#[command(name = "gpool-mcp", bin_name = "gpool", version, disable_help_subcommand = true)]
#[command(disable_version_flag = true, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// Offer tools to an assistant, by the Model Context Protocol
    Mcp(McpArgs),
}

/// The parser of the command line.
fn command() -> Command {
    Cli::command()
}

/// Runs a command line; the first word is the program's name.
#[must_use]
pub fn main(words: Vec<OsString>) -> ExitCode {
    run(words).into()
}

fn run(words: Vec<OsString>) -> Exit {
    let early = program::early_screen(&words);
    let words = match program::text(words) {
        Ok(words) => words,
        Err(failure) => return ended(Err(failure), &early),
    };
    let found = command().try_get_matches_from(&words);
    let cli = match found.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(error) => return program::not_parsed(&error, &words, |word| word == "mcp", &early),
    };
    let Verb::Mcp(args) = cli.verb;
    let screen = program::screen(&cli.global);
    let session = Session::new(screen.clone(), cli.global);
    ended(server::serve(session, args.allow), &screen)
}
