//! Turns what the parser of the command line refuses into our own words.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use gpool_wire::catalogue;

use crate::errors;
use crate::failure::Failure;

/// What a user is told when the command line is not understood. `verb` is what was to be done, for
/// errors that do not say. Requests for help are no failure and are not asked here.
#[must_use]
pub fn failure(error: &clap::Error, verb: Option<&str>) -> Failure {
    let argument = text(error, ContextKind::InvalidArg);
    let value = text(error, ContextKind::InvalidValue);
    let failure = match error.kind() {
        ErrorKind::UnknownArgument => {
            let word = argument.unwrap_or_default();
            if word.starts_with('-') {
                Failure::new(errors::NO_SUCH_FLAG, format!("there is no flag {word}"))
            } else {
                Failure::new(errors::USAGE, format!("{word:?} is one word too many"))
            }
        }
        ErrorKind::InvalidSubcommand => {
            let verb = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            Failure::new(errors::NO_SUCH_VERB, format!("there is no command {verb:?}"))
        }
        ErrorKind::ValueValidation => invalid_value(error, argument, value),
        ErrorKind::InvalidValue if value.as_deref().is_some_and(|value| !value.is_empty()) => {
            let flag = argument.unwrap_or_default();
            let value = value.unwrap_or_default();
            let failure = Failure::new(
                catalogue::INVALID,
                format!("{value:?} is no value of {}", bare(&flag)),
            );
            match list(error, ContextKind::ValidValue) {
                values if values.is_empty() => failure,
                values => failure.why(format!("it takes {}", values.join(", "))),
            }
        }
        ErrorKind::InvalidValue | ErrorKind::NoEquals => {
            let flag = argument.unwrap_or_default();
            Failure::new(catalogue::INVALID, format!("{} needs a value: {flag}", bare(&flag)))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = list(error, ContextKind::InvalidArg).join(", ");
            Failure::new(errors::USAGE, format!("what is missing: {missing}"))
        }
        ErrorKind::ArgumentConflict => {
            let other = list(error, ContextKind::PriorArg).join(", ");
            let flag = argument.unwrap_or_default();
            Failure::new(errors::USAGE, format!("{flag} and {other} can't be given together"))
        }
        _ => Failure::new(errors::USAGE, first_line(error)),
    };
    with_way_out(failure, error, verb)
}

fn invalid_value(error: &clap::Error, argument: Option<String>, value: Option<String>) -> Failure {
    let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let why = why.replace(" is not in ", " is not from ").replace("..=", " to ");
    let flag = argument.unwrap_or_default();
    // The name of a place is of no use to people; that of a flag is.
    if flag.starts_with('<') || flag.starts_with('[') {
        return Failure::new(catalogue::INVALID, why);
    }
    // Most messages begin with the value; the others need it.
    if why.starts_with('"') {
        return Failure::new(catalogue::INVALID, format!("{}: {why}", bare(&flag)));
    }
    Failure::new(
        catalogue::INVALID,
        format!("{}: {:?}: {why}", bare(&flag), value.unwrap_or_default()),
    )
}

fn with_way_out(mut failure: Failure, error: &clap::Error, verb: Option<&str>) -> Failure {
    let mut near = Vec::new();
    for kind in
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
    {
        near.extend(list(error, kind));
    }
    // Short names of verbs are for fingers, not for messages.
    near.retain(|word| word.len() > 2);
    if !near.is_empty() {
        failure = failure.why(format!("the nearest there is: {}", near.join(", ")));
    }
    match (verb_of(error), verb) {
        (Some(verb), _) => failure.tip(format!("{verb} --help")),
        (None, Some(verb)) => failure.tip(format!("gpool {verb} --help")),
        (None, None) => failure.tip("gpool --help"),
    }
}

/// The verb that was being read, from the line of its usage.
fn verb_of(error: &clap::Error) -> Option<String> {
    let usage = match error.get(ContextKind::Usage)? {
        ContextValue::StyledStr(usage) => usage.to_string(),
        _ => return None,
    };
    let usage = usage.trim().strip_prefix("Usage:")?.trim().to_owned();
    let words: Vec<&str> = usage
        .split_whitespace()
        .take_while(|w| w.starts_with(|c: char| c.is_lowercase()))
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// `--gpus` of `--gpus <GPUS>`, `--watch` of `--watch[=<EVERY>]`.
fn bare(flag: &str) -> &str {
    flag.split([' ', '=', '[']).next().unwrap_or(flag)
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

fn list(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
