//! The type of another scheduler's command, and the shared parts of these commands.

use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::{ParseOutcome, ParsedArgs, Spoken};
use gpool_cli::session::Session;
use gpool_cli::watch;
use gpool_model::Millis;
use gpool_wire::json::nearest;

/// The scheduler of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Slurm,
    Gflow,
    Valohai,
}

/// A command of another scheduler.
pub struct Shim {
    pub name: &'static str,
    /// The scheduler that it belongs to.
    pub family: Family,
    /// The function that runs it, with the words after its name.
    pub run: fn(&[String], &Session) -> Result,
    /// Its flags, or the flags of each of its subcommands.
    pub spoken: &'static [&'static Spoken],
}

/// Runs a gpool command line.
pub fn gpool(words: &[String], session: &Session) -> Result {
    session.verb(words)
}

/// Runs a gpool command line from literals.
pub fn gpool_line(line: &[&str], session: &Session) -> Result {
    gpool(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), session)
}

/// The version of Slurm that the output of its commands follows.
pub const SLURM: [&str; 3] = ["24", "11", "5"];

/// The version that a command prints. Clients read that of Slurm from its beginning.
#[must_use]
pub fn version(command: &str) -> String {
    let ours = env!("CARGO_PKG_VERSION");
    match command.starts_with('g') {
        true => format!("gpool {ours}, called as {command}"),
        false => format!("slurm {} (gpool {ours})", SLURM.join(".")),
    }
}

/// Parses a command line. Prints help and the version itself and returns `None` then.
pub fn read(spoken: &Spoken, words: &[String], session: &Session) -> Result<Option<ParsedArgs>> {
    match spoken.read(words)? {
        ParseOutcome::Help(text) => {
            session.screen.data(&text)?;
            Ok(None)
        }
        ParseOutcome::Args(said) if said.has("version") => {
            session.screen.data(&format!("{}\n", version(spoken.name)))?;
            Ok(None)
        }
        ParseOutcome::Args(said) => Ok(Some(said)),
    }
}

/// Warns of flags without an effect.
pub fn say_ignored(args: &ParsedArgs, session: &Session) {
    let ignored = args.ignored();
    if !ignored.is_empty() {
        session.screen.warn(&format!("ignored: {} (gpool help compat)", ignored.join(", ")));
    }
}

/// The same for a command that takes `n` words; it also warns of flags without an effect.
///
/// # Errors
/// A flag is not valid, or there are more or fewer words.
pub fn read_words(
    spoken: &Spoken,
    words: &[String],
    n: usize,
    session: &Session,
) -> Result<Option<ParsedArgs>> {
    let Some(args) = read(spoken, words, session)? else { return Ok(None) };
    say_ignored(&args, session);
    if args.words.len() != n {
        let what = match n {
            0 => format!("{} has only flags, no arguments", spoken.name),
            n => format!("{} takes {n} words: {}", spoken.name, spoken.words),
        };
        return Err(Failure::new(errors::USAGE, what));
    }
    Ok(Some(args))
}

/// The subcommand: `log` of `gjob log 7`, with the words after it.
///
/// # Errors
/// There is no such subcommand; the text lists the existing ones.
pub fn below<'w>(
    name: &str,
    words: &'w [String],
    subcommands: &[&'static str],
) -> Result<(&'w str, &'w [String])> {
    let failure = |what: String| {
        let is_word = |word: &&&str| word.len() > 1 && !word.starts_with('-');
        let known: Vec<&str> = subcommands.iter().filter(is_word).copied().collect();
        Failure::new(errors::NO_SUCH_VERB, what)
            .why(format!("the choices are {}", known.join(", ")))
            .why("gpool help compat lists the supported commands and flags")
    };
    let Some((word, rest)) = words.split_first() else {
        return Err(failure(format!("{name}: the command is missing")));
    };
    if subcommands.contains(&word.as_str()) {
        return Ok((word, rest));
    }
    let failure = failure(format!("{name} has no command {word:?}"));
    Err(match nearest(word, subcommands.iter().copied()) {
        Some(near) => failure.tip(format!("{name} {near}")),
        None => failure,
    })
}

/// Prints a text as the whole output.
pub fn print(text: &str, session: &Session) -> Result {
    session.screen.data(text)?;
    Ok(Exit::OK)
}

/// Prints a text once, or repeatedly until the user or the reader leaves: in place on a terminal,
/// otherwise one after another.
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

/// Parses an interval in seconds.
///
/// # Errors
/// It is not a number of at least 1.
pub fn interval(given: &str, flag: &str) -> Result<Millis> {
    match given.trim().parse::<u32>() {
        Ok(seconds @ 1..) => Ok(Millis::from_secs(seconds)),
        _ => Err(Failure::new(
            errors::INVALID,
            format!("{flag}: {given:?} is not a number of seconds"),
        )
        .tip(format!("{flag}=5"))),
    }
}
