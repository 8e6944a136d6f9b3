//! The laboratory of gpool, for its evaluation and development: the costs of gpool, its behaviour
//! under faults, and its decisions on traces, scenarios and recorded states. `gpool bench`,
//! `gpool replay` and `gpool simulate packing`, `queue` and `scenarios` run it.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

pub mod bench;
pub mod cli;
mod examples;
pub mod kai;
pub mod render;
pub mod simulate;
pub mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _};
use gpool_cli::examples::with_examples;
use gpool_cli::exit::Exit;
use gpool_cli::program::{self, ended};
use gpool_cli::session::Session;

use cli::Cli;

/// Runs a command line; the first word is the program's name.
#[must_use]
pub fn main(words: Vec<OsString>) -> ExitCode {
    match words.get(1).and_then(|word| word.to_str()) {
        Some(bench::STAMP_ARGUMENT) => match words.get(2).map(Path::new) {
            Some(path) if bench::write_stamp(path).is_ok() => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        Some(bench::SERVER_ARGUMENT) => {
            let port = words.get(2).and_then(|port| port.to_str()?.parse().ok());
            match port.map(bench::serve_http) {
                Some(Ok(())) => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        _ => run(words).into(),
    }
}

/// The parser of the command line.
#[must_use]
pub fn command() -> Command {
    with_examples(Cli::command(), "", &[examples::EXAMPLES])
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
        Err(error) => {
            let is_verb = |word: &str| command().find_subcommand(word).is_some();
            return program::not_parsed(&error, &words, is_verb, &early);
        }
    };
    let session = Session::new(program::screen(&cli.global), cli.global.clone());
    ended(cli.verb.run(&session), &session.screen)
}
