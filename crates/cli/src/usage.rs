//! Turns errors of the command-line parser into gpool's messages.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use gpool_wire::catalogue;

use crate::errors;
use crate::failure::Failure;

/// The failure for an invalid command line. `verb` names the verb for errors without one. Requests
/// for help are not errors and never get here.
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
                Failure::new(errors::USAGE, format!("unexpected argument {word:?}"))
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
                format!("{value:?} is not a value of {}", bare(&flag)),
            );
            match list(error, ContextKind::ValidValue) {
                values if values.is_empty() => failure,
                values => failure.why(format!("the values are {}", values.join(", "))),
            }
        }
        ErrorKind::InvalidValue | ErrorKind::NoEquals => {
            let flag = argument.unwrap_or_default();
            Failure::new(catalogue::INVALID, format!("{} needs a value: {flag}", bare(&flag)))
        }
        ErrorKind::MissingRequiredArgument => missing(&list(error, ContextKind::InvalidArg), error),
        ErrorKind::ArgumentConflict => {
            let other = list(error, ContextKind::PriorArg).join(", ");
            let flag = argument.unwrap_or_default();
            Failure::new(errors::USAGE, format!("{flag} and {other} can't be given together"))
        }
        _ => Failure::new(errors::USAGE, first_line(error)),
    };
    with_way_out(failure, error, verb)
}

fn missing(arguments: &[String], error: &clap::Error) -> Failure {
    let verb = verb_of(error);
    match (arguments, &verb) {
        ([only], Some(verb)) if only.starts_with("<JOB") => {
            Failure::new(errors::USAGE, "which job?").tip(format!("{verb} 17"))
        }
        ([only], _) => {
            let name = only.trim_end_matches('.');
            Failure::new(errors::USAGE, format!("{name} is missing"))
        }
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|it| it.trim_end_matches('.')).collect();
            Failure::new(errors::USAGE, format!("{} are missing", names.join(" and ")))
        }
    }
}

fn invalid_value(error: &clap::Error, argument: Option<String>, value: Option<String>) -> Failure {
    let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let why = why.replace(" is not in ", " is not from ").replace("..=", " to ");
    let flag = argument.unwrap_or_default();
    // The name of an argument does not help the user; the name of a flag does.
    if flag.starts_with('<') || flag.starts_with('[') {
        return Failure::new(catalogue::INVALID, why);
    }
    // Most messages begin with the value; the others need it added.
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
    // Short aliases are not useful suggestions.
    near.retain(|word| word.len() > 2);
    if !near.is_empty() {
        failure = failure.why(format!("did you mean {}?", near.join(", ")));
    }
    match (verb_of(error), verb) {
        (Some(verb), _) => failure.tip(format!("{verb} --help")),
        (None, Some(verb)) => failure.tip(format!("gpool {verb} --help")),
        (None, None) => failure.tip("gpool --help"),
    }
}

/// The verb in the usage line of an error.
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

/// The flag alone: `--gpus` of `--gpus <GPUS>`, `--watch` of `--watch[=<EVERY>]`.
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
