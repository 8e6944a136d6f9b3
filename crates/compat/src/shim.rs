//! A command of another scheduler: its type, and what all of them share.

use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::{Read, Said, Spoken};
use gpool_cli::session::Session;
use gpool_cli::watch;
use gpool_model::Millis;
use gpool_wire::json::nearest;

/// Whose commands these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Slurm's.
    Slurm,
    /// gflow's.
    Gflow,
}

/// A command of another scheduler.
pub struct Shim {
    /// What it is called.
    pub name: &'static str,
    /// Whose it is.
    pub family: Family,
    /// What runs it, given the words after its name.
    pub run: fn(&[String], &Session) -> Result,
    /// Its flags; those of each command below it, if it has such.
    pub spoken: &'static [&'static Spoken],
}

/// Runs a command of gpool, as if it had been written so.
///
/// # Errors
/// What it meets.
pub fn gpool(words: &[String], session: &Session) -> Result {
    session.verb(words)
}

/// Runs a command of gpool that is written in text.
///
/// # Errors
/// What it meets.
pub fn gpool_line(line: &[&str], session: &Session) -> Result {
    gpool(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), session)
}

/// Reads a command line; help and version are printed, and nothing is left to do.
///
/// # Errors
/// A flag is not understood.
pub fn read(spoken: &Spoken, words: &[String], session: &Session) -> Result<Option<Said>> {
    match spoken.read(words)? {
        Read::Help(text) => {
            session.screen.data(&text)?;
            Ok(None)
        }
        Read::Said(said) if said.has("version") => {
            let version = env!("CARGO_PKG_VERSION");
            session.screen.data(&format!("gpool {version}, called as {}\n", spoken.name))?;
            Ok(None)
        }
        Read::Said(said) => Ok(Some(said)),
    }
}

/// Names the flags that do nothing, once.
pub fn say_ignored(said: &Said, session: &Session) {
    let ignored = said.ignored();
    if !ignored.is_empty() {
        session.screen.warn(&format!("ignored: {} (docs/using/compat.md)", ignored.join(", ")));
    }
}

/// The command below a command: `log` of `gjob log 7`, with the words after it.
///
/// # Errors
/// There is none, or not that one; the text names those that there are.
pub fn below<'w>(
    name: &str,
    words: &'w [String],
    known: &[&'static str],
) -> Result<(&'w str, &'w [String])> {
    let failure = |what: String| {
        let is_word = |word: &&&str| word.len() > 1 && !word.starts_with('-');
        let known: Vec<&str> = known.iter().filter(is_word).copied().collect();
        Failure::new(errors::NO_SUCH_VERB, what)
            .why(format!("there are {}", known.join(", ")))
            .why("docs/using/compat.md lists what is understood")
    };
    let Some((word, rest)) = words.split_first() else {
        return Err(failure(format!("{name}: what to do is missing")));
    };
    if known.contains(&word.as_str()) {
        return Ok((word, rest));
    }
    let failure = failure(format!("{name} has no command {word:?}"));
    Err(match nearest(word, known.iter().copied()) {
        Some(near) => failure.tip(format!("{name} {near}")),
        None => failure,
    })
}

/// Text as the whole output.
///
/// # Errors
/// It can't be written.
pub fn print(text: &str, session: &Session) -> Result {
    session.screen.data(text)?;
    Ok(Exit::OK)
}

/// Prints a text, once or at an interval until the user or the reader leaves: on a terminal in
/// place, elsewhere one after another.
///
/// # Errors
/// What `text` meets, or it can't be written.
pub fn print_every(
    every: Option<Millis>,
    session: &Session,
    mut text: impl FnMut() -> Result<String> + Send,
) -> Result {
    let Some(every) = every else { return print(&text()?, session) };
    if session.screen.is_terminal() {
        return watch::on_terminal(every, session, text, |text, _| Ok(text.clone()));
    }
    loop {
        print(&text()?, session)?;
        std::thread::sleep(Duration::from_millis(every.get()));
    }
}

/// How often something is repeated, from a number of seconds.
///
/// # Errors
/// It is no number from 1 on.
pub fn interval(given: &str, flag: &str) -> Result<Millis> {
    match given.trim().parse::<u32>() {
        Ok(seconds @ 1..) => Ok(Millis::from_secs(seconds)),
        _ => {
            Err(Failure::new(errors::INVALID, format!("{flag}: {given:?} is no number of seconds"))
                .tip(format!("{flag}=5")))
        }
    }
}
