//! The laboratory of gpool, for its evaluation and development: the costs of gpool, its behaviour
//! under faults, and its decisions on traces, scenarios and recorded states. `gpool bench`,
//! `gpool replay` and `gpool simulate packing`, `queue` and `scenarios` run it.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries all that is said about it, and failing is no hot path"
)]

mod bench;
mod cli;
mod render;
mod simulate;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use gpool_cli::exit::Exit;
use gpool_cli::program::{self, ended};
use gpool_cli::session::Session;

use cli::Cli;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some(bench::STAMP_ARGUMENT) => match words.get(2).map(Path::new) {
            Some(path) if bench::write_stamp(path).is_ok() => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        _ => run(words).into(),
    }
}

/// Runs a command line; the first word is the program's name.
fn run(words: Vec<OsString>) -> Exit {
    let early = program::early_screen(&words);
    let words = match program::text(words) {
        Ok(words) => words,
        Err(failure) => return ended(Err(failure), &early),
    };
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let is_verb = |word: &str| Cli::command().find_subcommand(word).is_some();
            return program::not_parsed(&error, &words, is_verb, &early);
        }
    };
    let session = Session::new(program::screen(&cli.global), cli.global.clone());
    ended(cli.verb.run(&session), &session.screen)
}
