//! Reads JSON from clients and returns errors that users can act on.

use gpool_model::escape::{REPEATED_MAX, repeated, unknown_name};
pub use gpool_texts::words::nearest;
use serde::de::DeserializeOwned;

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
