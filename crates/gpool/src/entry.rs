//! From the words of the command line to an exit code.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use gpool_cli::args::Global;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::screen::{ColorWhen, Screen};
use gpool_cli::session::Session;
use gpool_cli::usage;
use gpool_wire::catalogue;

use crate::away;
use crate::cli::Cli;
use crate::complete;

/// Runs what the command line says; the first word is the program's own name.
#[must_use]
pub fn main(words: Vec<OsString>) -> Exit {
    // Before flags are read, errors go out as the words themselves seem to want them.
    let json = words.iter().any(|word| word == "--json");
    if complete::answered(&words) {
        return Exit::OK;
    }
    let early = || Screen::detect(ColorWhen::Auto, false, false, json, None);
    let words = match text(words) {
        Ok(words) => words,
        Err(failure) => return ended(Err(failure), &early()),
    };
    if let Some(shim) = words.first().and_then(|word| gpool_compat::called_as(word.as_ref())) {
        let session = Session::new(early(), Global::default()).with_verbs(verb_of);
        let result = (shim.run)(&words[1..], &session);
        let result = result.map_err(|failure| away::told(failure, &session));
        return ended(result, &session.screen);
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return ended(not_read(&error, verb(&words), &early()), &early()),
    };
    let global = cli.global.clone();
    let screen =
        Screen::detect(global.color, global.ascii, global.quiet, global.json, global.zone());
    let session = Session::new(screen, global);
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

/// All that is sent is JSON, which is UTF-8.
fn text(words: Vec<OsString>) -> Result<Vec<String>> {
    let word = |(place, word): (usize, OsString)| {
        word.into_string().map_err(|word| {
            let shown = word.to_string_lossy().into_owned();
            Failure::new(catalogue::NOT_UTF8, format!("word {place} is not UTF-8: {shown:?}"))
                .why("commands, names and paths are sent as UTF-8")
                .tip("put it into a script, which may hold any bytes: gpool submit script.sh")
        })
    };
    words.into_iter().enumerate().map(word).collect()
}

/// What the parser refused; help and version are no failures, but text to print.
fn not_read(error: &clap::Error, verb: Option<&str>, screen: &Screen) -> Result {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            screen.data(&error.to_string())?;
            Ok(Exit::OK)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            screen.note(error.to_string().trim_end());
            Ok(Exit(catalogue::EXIT_USAGE))
        }
        _ => Err(usage::failure(error, verb)),
    }
}

/// The verb of a command line that was not understood.
fn verb(words: &[String]) -> Option<&str> {
    let command = Cli::command();
    let first = words.iter().skip(1).find(|word| !word.starts_with('-'))?;
    command.find_subcommand(first).map(|_| first.as_str())
}

/// Whether two dashes stand before the last words; the parser does not tell.
fn stands_after_dashes(words: &[String], last: &[String]) -> bool {
    let n_before = words.len().saturating_sub(last.len());
    !last.is_empty() && n_before > 0 && words[n_before - 1] == "--"
}

fn ended(result: Result, screen: &Screen) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(failure) => {
            screen.fail(&failure);
            failure.exit()
        }
    }
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
