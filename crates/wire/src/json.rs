//! Reading JSON from outside, with refusals that a person can act on.

use gpool_model::said::{REPEATED_MAX, repeated, unknown_name};
use serde::de::DeserializeOwned;

use crate::catalogue;
use crate::misfit;
use crate::problem::Problem;

/// Reads one JSON document.
///
/// # Errors
/// A [`Problem`] that names the position or the field, or the nearest name for an unknown one.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Fields are kept track of only where one is to be named: that costs time.
    serde_json::from_slice(bytes).map_err(|error| refuse::<T>(&error, bytes))
}

fn refuse<T: DeserializeOwned>(error: &serde_json::Error, bytes: &[u8]) -> Problem {
    use serde_json::error::Category;
    let message = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    let what = message.strip_suffix(&at).unwrap_or(&message);
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(catalogue::BAD_JSON, format!("this is not JSON: {}{at}", repeated(what)))
        }
        Category::Data => match unknown_name(what) {
            Some((found, known)) => unknown(found, &known, &at),
            None => misfit::problem(&path::<T>(bytes), what),
        },
    }
}

/// Where in the document the value stands that does not fit; empty for the document itself.
fn path<T: DeserializeOwned>(bytes: &[u8]) -> String {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) if error.path().iter().next().is_some() => error.path().to_string(),
        _ => String::new(),
    }
}

/// A refusal from serde's words for data that does not fit, and where that was.
#[must_use]
pub fn refuse_data(what: &str, at: &str) -> Problem {
    match unknown_name(what) {
        Some((found, known)) => unknown(found, &known, at),
        None => Problem::new(catalogue::INVALID, format!("{}{at}", repeated(what))),
    }
}

fn unknown(found: &str, known: &[&str], at: &str) -> Problem {
    let start: String = found.chars().take(REPEATED_MAX).collect();
    let problem =
        Problem::new(catalogue::UNKNOWN_FIELD, format!("there is no field {start:?}{at}"))
            .because(format!("the fields are {}", known.join(", ")));
    match nearest(found, known.iter().copied()) {
        Some(name) => problem.try_this(format!("{name:?} is the nearest")),
        None => problem,
    }
}

/// Most bytes of a word for which a known one is looked for.
const FOUND_MAX: usize = 100;

/// The known word that is nearest to one that is not known, if one is near enough to be meant.
#[must_use]
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody means a word by so much text, and comparing costs time and memory by its length.
    if found.len() > FOUND_MAX {
        return None;
    }
    let near = |word: &&'a str| {
        let distance = strsim::damerau_levenshtein(found, word);
        let begins = found.len() > 2 && (word.starts_with(found) || found.starts_with(*word));
        (begins || distance <= 1 + word.len() / 4).then_some(distance)
    };
    known
        .into_iter()
        .filter_map(|word| near(&word).map(|distance| (distance, word)))
        .min()
        .map(|(_, word)| word)
}
