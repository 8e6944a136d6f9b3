//! Reads JSON from clients and returns errors that users can act on.

use std::collections::BTreeMap;

use gpool_model::escape::{REPEATED_MAX, repeated, unknown_name};
use serde::de::{self, DeserializeOwned};
use serde_json::Value;

use crate::catalogue;
use crate::misfit;
use crate::problem::Problem;
use crate::strict::{self, ErrorLocation};

/// Reads one JSON document; [`strict`] checks its shape.
///
/// # Errors
/// A [`Problem`] with the position or the field, or the nearest name for an unknown field.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = strict::read(&mut reader).map_err(|(error, place)| refuse(&error, &place))?;
    reader.end().map_err(|error| refuse(&error, &ErrorLocation::default()))?;
    Ok(value)
}

/// Takes a field out of an object, for types that allow unknown fields. Code that serde derives for
/// these types would buffer each value in its own representation.
///
/// # Errors
/// Returns an error if the value has the wrong type. An absent value is `null`.
pub(crate) fn take<T: DeserializeOwned, E: de::Error>(
    fields: &mut BTreeMap<String, Value>,
    name: &str,
) -> Result<T, E> {
    let value = fields.remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| E::custom(format_args!("{name}: {error}")))
}

fn refuse(error: &serde_json::Error, place: &ErrorLocation) -> Problem {
    use serde_json::error::Category;
    let message = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    let what = message.strip_suffix(&at).unwrap_or(&message);
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(catalogue::BAD_JSON, format!("this is not JSON: {}{at}", repeated(what)))
        }
        Category::Data => misfit(place, what, "the document", &at),
    }
}

/// Returns a problem for data of the wrong type, from serde's message and its place. `whole` is the
/// name of the document itself, `at` the position in it.
#[must_use]
pub fn misfit(place: &ErrorLocation, said: &str, whole: &str, at: &str) -> Problem {
    match unknown_name(said) {
        Some((found, known)) => {
            let kind = if said.starts_with("unknown variant") { "value" } else { "field" };
            let within = match &*place.path() {
                "" => String::new(),
                path => format!("{}: ", repeated(path)),
            };
            unknown(kind, found, &known, (&within, at))
        }
        None => misfit::problem(place, said, whole),
    }
}

/// Returns a problem for a name that is none of the known ones, of this kind, in this place: what
/// is before its description, and after it.
#[must_use]
pub fn unknown(kind: &str, found: &str, known: &[&str], (within, at): (&str, &str)) -> Problem {
    let start: String = found.chars().take(REPEATED_MAX).collect();
    let what = format!("{within}there is no {kind} {start:?}{at}");
    let problem = Problem::new(catalogue::UNKNOWN_FIELD, what);
    if known.is_empty() {
        return problem.because(format!("there are no {kind}s"));
    }
    let problem = problem.because(format!("valid {kind}s are {}", known.join(", ")));
    match nearest(found, known.iter().copied()) {
        Some(name) => problem.try_this(format!("did you mean {name:?}?")),
        None => problem,
    }
}

/// Maximum length in bytes of an unknown word: [`nearest`] ignores longer words.
const FOUND_MAX: usize = 100;

/// Returns the known word that is nearest to an unknown one, if it is near enough.
#[must_use]
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text is no typo, and the comparison costs time and memory by length.
    if found.len() > FOUND_MAX {
        return None;
    }
    let near = |word: &&'a str| {
        let distance = strsim::damerau_levenshtein(found, word);
        let begins = found.len() > 2 && (word.starts_with(found) || found.starts_with(*word));
        // `escalte` stands for `escalate_after`.
        let first = word.split('_').next().unwrap_or(word);
        let is_first = first.len() > 4 && strsim::damerau_levenshtein(found, first) <= 2;
        (begins || is_first || distance <= 1 + word.len() / 4).then_some(distance)
    };
    known
        .into_iter()
        .filter_map(|word| near(&word).map(|distance| (distance, word)))
        .min()
        .map(|(_, word)| word)
}
