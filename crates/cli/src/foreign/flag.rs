//! A table of the flags of somebody else's command: how they are written, and what becomes of
//! them here. The table is what command lines and directives are read by, what `--help` shows and
//! what `docs/using/compat.md` is written from, so that none of these can say something else.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::errors;
use crate::failure::{Failure, Result};
use crate::usage;

/// One flag of another scheduler.
#[derive(Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without its dashes; it is called by this.
    pub long: &'static str,
    /// One letter, or `\0`.
    pub short: char,
    /// Other names of it; one of a single letter is written with one dash.
    pub also: &'static [&'static str],
    /// What follows it.
    pub takes: Takes,
    /// What becomes of it.
    pub standing: Standing,
    /// The same in words: what it is here, why it is ignored, or what to use.
    pub note: &'static str,
}

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A value.
    Value,
    /// A value after `=`, or nothing.
    Maybe,
}

/// What becomes of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does here what it does there.
    Covered,
    /// It does something near to it.
    Approximated,
    /// It does nothing, and is named when it is given.
    Ignored,
    /// It is refused, with what to use.
    Instead,
}

impl Standing {
    /// As documents write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Covered => "covered",
            Self::Approximated => "approximated",
            Self::Ignored => "ignored",
            Self::Instead => "use instead",
        }
    }
}

/// A row without other names.
pub const fn row(
    long: &'static str,
    short: char,
    takes: Takes,
    standing: Standing,
    note: &'static str,
) -> Flag {
    Flag { long, short, also: &[], takes, standing, note }
}

impl Flag {
    /// The same flag, with other names.
    pub const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    /// As it is written: `--time`.
    #[must_use]
    pub fn written(&self) -> String {
        format!("--{}", self.long)
    }
}

/// A command of another scheduler, or its directives.
#[derive(Debug, Clone, Copy)]
pub struct Spoken {
    /// What it is called.
    pub name: &'static str,
    /// What it is for here, in a line.
    pub about: &'static str,
    /// Its flags, in several tables.
    pub flags: &'static [&'static [Flag]],
    /// What follows them: the name of the words, or nothing.
    pub words: &'static str,
}

/// Whether the words are a command or a script with flags of its own.
fn runs_words(words: &str) -> bool {
    words.contains("COMMAND") || words.contains("SCRIPT")
}

/// A flag that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Which.
    pub flag: &'static Flag,
    /// What followed it; empty if nothing did.
    pub value: String,
    /// Where, if in a script: `train.sh:3`.
    pub place: Option<String>,
}

/// What a command line said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Its flags, in the order given.
    pub flags: Vec<Given>,
    /// What follows them.
    pub words: Vec<String>,
}

/// A command line that was read, or text to show in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// What it said.
    Said(Said),
    /// Help.
    Help(String),
}

const WORDS: &str = "WORDS";

impl Spoken {
    /// Each flag.
    pub fn rows(&self) -> impl Iterator<Item = &'static Flag> {
        self.flags.iter().flat_map(|table| table.iter())
    }

    /// Reads a command line without the command's name.
    ///
    /// # Errors
    /// A flag that the command does not have; or one that has no counterpart, with what to use.
    pub fn read(&self, words: &[String]) -> Result<Read> {
        let matches = match self.parser().try_get_matches_from(words) {
            Ok(matches) => matches,
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                return Ok(Read::Help(error.to_string()));
            }
            Err(error) => {
                let failure = usage::failure(&error, None);
                let code = failure.code().unwrap_or(errors::USAGE);
                return Err(failure
                    .moved(code, |what| format!("{}: {what}", self.name))
                    .why("docs/using/compat.md lists what is understood"));
            }
        };
        let said = Said { flags: self.given(&matches), words: last_words(&matches) };
        match said.flags.iter().find(|given| given.flag.standing == Standing::Instead) {
            Some(given) => Err(self.instead(given)),
            None => Ok(Read::Said(said)),
        }
    }

    /// Reads the words of one directive.
    ///
    /// # Errors
    /// As for [`Spoken::read`]; or words that belong to no flag.
    pub fn read_directive(&self, words: &[String], place: &str) -> Result<Vec<Given>> {
        match self.read(words)? {
            Read::Help(_) => Err(Failure::new(errors::BAD_DIRECTIVE, "--help is no directive")),
            Read::Said(said) => match said.words.first() {
                Some(word) => {
                    let what = format!("{word:?} is one word too many");
                    Err(Failure::new(errors::BAD_DIRECTIVE, what))
                }
                None => Ok(said
                    .flags
                    .into_iter()
                    .map(|given| Given { place: Some(place.to_owned()), ..given })
                    .collect()),
            },
        }
    }

    fn instead(&self, given: &Given) -> Failure {
        let what = format!("{} has no {}", self.name, given.flag.written());
        Failure::new(errors::NO_SUCH_FLAG, what)
            .why("docs/using/compat.md lists what is understood")
            .tip(given.flag.note)
    }

    fn given(&self, matches: &ArgMatches) -> Vec<Given> {
        let mut given: Vec<(usize, Given)> = Vec::new();
        for flag in self.rows() {
            let values = matches.get_many::<String>(flag.long).unwrap_or_default();
            let places = matches.indices_of(flag.long).into_iter().flatten();
            given.extend(
                places
                    .zip(values)
                    .map(|(at, value)| (at, Given { flag, value: value.clone(), place: None })),
            );
        }
        given.sort_by_key(|(at, _)| *at);
        given.into_iter().map(|(_, given)| given).collect()
    }

    fn parser(&self) -> Command {
        let mut parser = Command::new(self.name)
            .about(self.about)
            .no_binary_name(true)
            .disable_help_flag(true)
            .infer_long_args(true)
            .max_term_width(100)
            .args(self.rows().map(argument))
            .arg(help(self.rows().all(|flag| flag.short != 'h')));
        if !self.words.is_empty() {
            let words = Arg::new(WORDS).value_name(self.words).num_args(0..);
            parser = parser.arg(words.trailing_var_arg(runs_words(self.words)));
        }
        parser
    }
}

fn argument(flag: &'static Flag) -> Arg {
    let note = format!("{}: {}", flag.standing.as_str(), flag.note);
    let arg = Arg::new(flag.long).long(flag.long).action(ArgAction::Append).help(note);
    let arg = if flag.short == '\0' { arg } else { arg.short(flag.short) };
    let letter = |name: &str| name.chars().next().filter(|_| name.len() == 1);
    let arg = arg.aliases(flag.also.iter().copied().filter(|name| letter(name).is_none()));
    let arg = arg.short_aliases(flag.also.iter().filter_map(|name| letter(name)));
    match flag.takes {
        Takes::Nothing => arg.num_args(0).default_missing_value(""),
        Takes::Value => arg.num_args(1).allow_hyphen_values(true).value_name("VALUE"),
        Takes::Maybe => {
            arg.num_args(0..=1).require_equals(true).default_missing_value("").value_name("VALUE")
        }
    }
}

fn help(with_short: bool) -> Arg {
    let help = Arg::new("help").long("help").action(ArgAction::Help).help("Print help");
    if with_short { help.short('h') } else { help }
}

fn last_words(matches: &ArgMatches) -> Vec<String> {
    // A command without words has no such argument.
    match matches.try_get_many::<String>(WORDS) {
        Ok(Some(words)) => words.cloned().collect(),
        _ => Vec::new(),
    }
}

impl Said {
    /// Whether that flag was given.
    #[must_use]
    pub fn has(&self, long: &str) -> bool {
        self.flags.iter().any(|given| given.flag.long == long)
    }

    /// What followed that flag the last time that it was given.
    #[must_use]
    pub fn value(&self, long: &str) -> Option<&str> {
        self.flags.iter().rev().find(|given| given.flag.long == long).map(|given| &*given.value)
    }

    /// What followed that flag each time, split at commas.
    pub fn list<'s>(&'s self, long: &'s str) -> impl Iterator<Item = &'s str> {
        let all = self.flags.iter().filter(move |given| given.flag.long == long);
        all.flat_map(|given| given.value.split(',')).map(str::trim).filter(|part| !part.is_empty())
    }

    /// The flags that do nothing, each once.
    #[must_use]
    pub fn ignored(&self) -> Vec<String> {
        ignored(&self.flags)
    }
}

/// The flags that do nothing, each once.
#[must_use]
pub fn ignored(given: &[Given]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for given in given.iter().filter(|given| given.flag.standing == Standing::Ignored) {
        let name = given.flag.written();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A refusal of the value of a flag.
#[must_use]
pub fn invalid(given: &Given, why: &str) -> Failure {
    let place = given.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let code = if given.place.is_some() { errors::BAD_DIRECTIVE } else { errors::INVALID };
    Failure::new(code, format!("{place}{}: {:?} {why}", given.flag.written(), given.value))
}
