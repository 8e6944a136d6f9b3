//! A table of the flags of another scheduler's command: how they are written and how gpool treats
//! them. The table drives the parsing of command lines and directives, `--help`, and
//! `docs/using/compat.md`, so these always agree.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::errors;
use crate::failure::{Failure, Result};
use crate::usage;

#[derive(Debug, PartialEq, Eq)]
pub struct Flag {
    /// The long name, without dashes.
    pub long: &'static str,
    /// The short name, or `\0`.
    pub short: char,
    /// Other names; a name of one letter is written with one dash.
    pub also: &'static [&'static str],
    pub takes: Takes,
    pub standing: FlagSupport,
    /// Its gpool counterpart, why it is ignored, or what to use instead.
    pub note: &'static str,
}

/// Whether a flag takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Value,
    /// An optional value after `=`.
    Maybe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagSupport {
    /// It has the same effect.
    Covered,
    Approximated,
    /// It has no effect; a note names it.
    Ignored,
    /// It is refused with an alternative.
    Instead,
}

impl FlagSupport {
    /// The word in documents.
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

/// A flag without other names.
pub const fn row(
    long: &'static str,
    short: char,
    takes: Takes,
    standing: FlagSupport,
    note: &'static str,
) -> Flag {
    Flag { long, short, also: &[], takes, standing, note }
}

impl Flag {
    /// Adds other names to the flag.
    pub const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    /// The flag as written: `--time`.
    #[must_use]
    pub fn spelling(&self) -> String {
        format!("--{}", self.long)
    }
}

/// A command of another scheduler, or its directives.
#[derive(Debug, Clone, Copy)]
pub struct Spoken {
    pub name: &'static str,
    /// The purpose in gpool, in one line.
    pub about: &'static str,
    /// The flags, in several tables.
    pub flags: &'static [&'static [Flag]],
    /// The name of the words after the flags, or nothing.
    pub words: &'static str,
}

/// Whether the words are a command or a script with its own flags.
fn runs_words(words: &str) -> bool {
    words.contains("COMMAND") || words.contains("SCRIPT")
}

/// A flag on a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedFlag {
    pub flag: &'static Flag,
    /// Its value; empty if it has none.
    pub value: String,
    /// Its place in a script: `train.sh:3`.
    pub place: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedArgs {
    pub flags: Vec<PassedFlag>,
    /// The words after the flags.
    pub words: Vec<String>,
}

/// A parsed command line, or text to print instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseOutcome {
    Args(ParsedArgs),
    Help(String),
}

const WORDS: &str = "WORDS";

impl Spoken {
    pub fn rows(&self) -> impl Iterator<Item = &'static Flag> {
        self.flags.iter().flat_map(|table| table.iter())
    }

    /// Parses a command line without the command's name.
    ///
    /// # Errors
    /// The command has no such flag; or gpool has no counterpart, and the failure names an
    /// alternative.
    pub fn read(&self, words: &[String]) -> Result<ParseOutcome> {
        let matches = match self.parser().try_get_matches_from(words) {
            Ok(matches) => matches,
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                return Ok(ParseOutcome::Help(error.to_string()));
            }
            Err(error) => {
                let failure = usage::failure(&error, None);
                let code = failure.code().unwrap_or(errors::USAGE);
                return Err(failure
                    .moved(code, |what| format!("{}: {what}", self.name))
                    .why("gpool help compat lists the supported flags"));
            }
        };
        let args = ParsedArgs { flags: self.passed_flags(&matches), words: last_words(&matches) };
        match args.flags.iter().find(|given| given.flag.standing == FlagSupport::Instead) {
            Some(given) => Err(self.instead(given)),
            None => Ok(ParseOutcome::Args(args)),
        }
    }

    /// Parses the words of one directive.
    ///
    /// # Errors
    /// As for [`Spoken::read`]; or a word belongs to no flag.
    pub fn read_directive(&self, words: &[String], place: &str) -> Result<Vec<PassedFlag>> {
        match self.read(words)? {
            ParseOutcome::Help(_) => {
                Err(Failure::new(errors::BAD_DIRECTIVE, "--help is not a directive"))
            }
            ParseOutcome::Args(said) => match said.words.first() {
                Some(word) => {
                    let what = format!("unexpected argument {word:?}");
                    Err(Failure::new(errors::BAD_DIRECTIVE, what))
                }
                None => Ok(said
                    .flags
                    .into_iter()
                    .map(|given| PassedFlag { place: Some(place.to_owned()), ..given })
                    .collect()),
            },
        }
    }

    fn instead(&self, given: &PassedFlag) -> Failure {
        let what = format!("{} has no {}", self.name, given.flag.spelling());
        Failure::new(errors::NO_SUCH_FLAG, what)
            .why("gpool help compat lists the supported flags")
            .tip(given.flag.note)
    }

    fn passed_flags(&self, matches: &ArgMatches) -> Vec<PassedFlag> {
        let mut given: Vec<(usize, PassedFlag)> = Vec::new();
        for flag in self.rows() {
            let values = matches.get_many::<String>(flag.long).unwrap_or_default();
            let places = matches.indices_of(flag.long).into_iter().flatten();
            given.extend(
                places.zip(values).map(|(at, value)| {
                    (at, PassedFlag { flag, value: value.clone(), place: None })
                }),
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
    // The parser of a command without words has no such argument.
    match matches.try_get_many::<String>(WORDS) {
        Ok(Some(words)) => words.cloned().collect(),
        _ => Vec::new(),
    }
}

impl ParsedArgs {
    #[must_use]
    pub fn has(&self, long: &str) -> bool {
        self.flags.iter().any(|given| given.flag.long == long)
    }

    /// The last value of the flag.
    #[must_use]
    pub fn value(&self, long: &str) -> Option<&str> {
        self.flags.iter().rev().find(|given| given.flag.long == long).map(|given| &*given.value)
    }

    /// All values of the flag, split at commas.
    pub fn list<'s>(&'s self, long: &'s str) -> impl Iterator<Item = &'s str> {
        let all = self.flags.iter().filter(move |given| given.flag.long == long);
        all.flat_map(|given| given.value.split(',')).map(str::trim).filter(|part| !part.is_empty())
    }

    /// The ignored flags, each once.
    #[must_use]
    pub fn ignored(&self) -> Vec<String> {
        ignored(&self.flags)
    }
}

/// The ignored flags, each once.
#[must_use]
pub fn ignored(given: &[PassedFlag]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for given in given.iter().filter(|given| given.flag.standing == FlagSupport::Ignored) {
        let name = given.flag.spelling();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The failure for an invalid value of a flag.
#[must_use]
pub fn invalid(given: &PassedFlag, why: &str) -> Failure {
    let place = given.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let code = if given.place.is_some() { errors::BAD_DIRECTIVE } else { errors::INVALID };
    Failure::new(code, format!("{place}{}: {:?} {why}", given.flag.spelling(), given.value))
}
