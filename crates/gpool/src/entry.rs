//! From the words of the command line to an exit code.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};
use gpool_cli::args::Global;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::program::{self, ended};
use gpool_cli::session::Session;
use gpool_cli::usage;

use crate::away;
use crate::cli::Cli;
use crate::complete;

/// Runs what the command line says; the first word is the program's own name.
#[must_use]
pub fn main(words: Vec<OsString>) -> Exit {
    if complete::answered(&words) {
        return Exit::OK;
    }
    let early = program::early_screen(&words);
    let words = match program::text(words) {
        Ok(words) => words,
        Err(failure) => return ended(Err(failure), &early),
    };
    if let Some(shim) = words.first().and_then(|word| gpool_compat::called_as(word.as_ref())) {
        let session = Session::new(early, Global::default()).with_verbs(verb_of);
        let result = (shim.run)(&words[1..], &session);
        let result = result.map_err(|failure| away::told(failure, &session));
        return ended(result, &session.screen);
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return program::not_parsed(&error, &words, &Cli::command(), &early),
    };
    let session = Session::new(program::screen(&cli.global), cli.global.clone());
    let session = session.with_verbs(verb_of);
    let is_command = stands_after_dashes(&words, cli.verb.last_words());
    let result = cli.verb.run(is_command, &session);
    let result = result.map_err(|failure| away::told(failure, &session));
    ended(result, &session.screen)
}

/// Runs one command line more, in the same session.
fn verb_of(words: &[String], session: &Session) -> Result {
    let all = std::iter::once("gpool").chain(words.iter().map(String::as_str));
    let cli = Cli::try_parse_from(all).map_err(|error| usage::failure(&error, None))?;
    let is_command = words.iter().any(|word| word == "--");
    cli.verb.run(is_command, session)
}

/// Whether two dashes stand before the last words; the parser does not tell.
fn stands_after_dashes(words: &[String], last: &[String]) -> bool {
    let n_before = words.len().saturating_sub(last.len());
    !last.is_empty() && n_before > 0 && words[n_before - 1] == "--"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_dashes_are_told_from_words() {
        let is = |line: &str, n_last: usize| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let last = words[words.len() - n_last..].to_vec();
            stands_after_dashes(&words, &last)
        };
        assert!(is("gpool submit -- a b", 2));
        assert!(is("gpool submit -- -- b", 2));
        assert!(!is("gpool submit a -- b", 3));
        assert!(!is("gpool submit", 0));
    }
}
