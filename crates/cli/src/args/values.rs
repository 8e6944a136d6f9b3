//! Parsers of single values, with their own messages.

use gpool_model::{Millis, parse};
use gpool_wire::catalogue;
pub use gpool_wire::field::validate::{filled, node_list, note, notify, time_span};

use crate::failure::{self, Failure};
use crate::reference::Reference;

/// The range of priorities; the server decides which of them a user may request.
pub const PRIORITY_MAX: i32 = 1000;

/// More devices than any node has.
const DEVICES_MAX: usize = 4096;

/// Joins two lists; the own values come last, since later values win.
pub(super) fn join_lists<T>(mut other: Vec<T>, mut own: Vec<T>) -> Vec<T> {
    other.append(&mut own);
    other
}

/// Parses a number of retries.
///
/// # Errors
/// It is not a number, or larger than 1000.
pub fn retries(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|n| *n <= 1000);
    number.ok_or_else(|| format!("{text:?} is not a number of retries; write 0 to 1000"))
}

/// Parses the interval of a repetition.
///
/// # Errors
/// It is not a time, or so short that it would overload the server.
pub fn interval(text: &str) -> Result<Millis, String> {
    // A plain number means seconds here, as in `watch`.
    let is_bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let seconds = if is_bare { format!("{text}s") } else { text.to_owned() };
    let span = parse::span(&seconds).map_err(|error| error.to_string())?;
    if span.get() < 100 {
        return Err(format!("{text:?} is too short; write, for example, 2s"));
    }
    Ok(span)
}

/// Parses a priority.
///
/// # Errors
/// It is not a whole number from -1000 to 1000.
pub fn priority(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|n: &i32| n.abs() <= PRIORITY_MAX);
    number.ok_or_else(|| {
        format!(
            "{text:?} is not a priority; write a whole number from -1000 to 1000, higher goes first"
        )
    })
}

/// Parses a parameter with its values: `lr=0.1,0.01`, or `lr=["a,b","c"]` for values with commas.
///
/// # Errors
/// It has no name or no value.
pub fn param(text: &str) -> Result<gpool_wire::Param, String> {
    let shown: String = text.chars().take(80).collect();
    let Some((name, values)) = text.split_once('=') else {
        return Err(format!("{shown:?} has no '='; write, for example, lr=0.1,0.01"));
    };
    if !gpool_model::placeholder::is_name(name) {
        return Err(format!(
            "{shown:?} needs a name of letters, digits and '_' before '=': lr=0.1,0.01"
        ));
    }
    if values.is_empty() {
        return Err(format!("{shown:?} has no value; write, for example, {name}=1,2"));
    }
    let listed = serde_json::from_str::<Vec<serde_json::Value>>(values).ok();
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    let values = match listed {
        Some(listed) => listed.into_iter().map(text).collect(),
        None => values.split(',').map(str::to_owned).collect(),
    };
    Ok(gpool_wire::Param { name: name.to_owned(), values })
}

/// Parses a note that is not the value of a flag.
pub fn note_alone(text: &str) -> Result<String, String> {
    note(text).map_err(|why| format!("the note: {why}"))
}

/// Parses references to jobs: one argument, separated by commas.
pub fn references(text: &str) -> Result<References, String> {
    Reference::list(text).map(References).map_err(|error| error.to_string())
}

/// The references of one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct References(pub Vec<Reference>);

/// Parses GPUs of a node by index or UUID and expands ranges: `0-3`, `0,2`; or `all`.
///
/// # Errors
/// It names none, or more than a node can have.
pub fn devices(text: &str) -> failure::Result<Vec<String>> {
    let invalid = |what| Failure::new(catalogue::INVALID, format!("--gpus: {what}"));
    let is_word = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let parts: Vec<&str> = text.split(',').collect();
    if !parts.iter().all(is_word) {
        let failure = invalid(format!("{:?} is not a list of GPUs", beginning(text)));
        return Err(failure.tip("--gpus 0-3, 0,2 or all"));
    }
    let mut devices = Vec::new();
    for part in parts {
        match part.split_once('-').map(|(a, b)| (a.parse::<u32>(), b.parse::<u32>())) {
            Some((Ok(first), Ok(last))) if first <= last && last - first < 1024 => {
                devices.extend((first..=last).map(|index| index.to_string()));
            }
            Some((Ok(_), Ok(_))) => {
                let failure = invalid(format!("{:?} is not a range of GPUs", beginning(part)));
                return Err(failure.tip("--gpus 0-3"));
            }
            // A UUID contains dashes too.
            _ => devices.push(part.to_owned()),
        }
        if devices.len() > DEVICES_MAX {
            let what = format!("{:?} has more than {DEVICES_MAX} GPUs", beginning(text));
            return Err(invalid(what).tip("--gpus all"));
        }
    }
    Ok(devices)
}

/// The part of a bad value that a message repeats.
fn beginning(text: &str) -> String {
    text.chars().take(80).collect()
}
