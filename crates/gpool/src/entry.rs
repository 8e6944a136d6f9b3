//! Runs a command line and returns the exit code.

use std::ffi::OsString;

use gpool_cli::args::Global;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::program::{self, ended};
use gpool_cli::session::Session;
use gpool_cli::usage;

use crate::away;
use crate::cli::{self, CommandLine};
use crate::complete;
use crate::verbs::VERBS;

/// Runs the command line; its first word is the name of the program.
#[must_use]
pub fn main(words: Vec<OsString>) -> Exit {
    if complete::answered(VERBS, &words) {
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
        let result = result.map_err(|failure| away::with_running_jobs(failure, &session));
        return ended(result, &session.screen);
    }
    let parsed = match cli::parse(VERBS, &words) {
        Ok(parsed) => parsed,
        Err(error) => {
            let is_verb = |word: &str| cli::find(VERBS, word).is_some();
            return program::not_parsed(&error, &words, is_verb, &early);
        }
    };
    let session = Session::new(program::screen(&parsed.global), parsed.global.clone());
    let session = session.with_verbs(verb_of);
    let result = parsed.run(&CommandLine { words: &words, session: &session });
    let result = result.map_err(|failure| away::with_running_jobs(failure, &session));
    ended(result, &session.screen)
}

/// Runs another command line in the same session; `words` are without the program's name.
fn verb_of(words: &[String], session: &Session) -> Result {
    let mut line = vec!["gpool".to_owned()];
    line.extend_from_slice(words);
    let parsed = cli::parse(VERBS, &line).map_err(|error| usage::failure(&error, None))?;
    parsed.run(&CommandLine { words: &line, session })
}
