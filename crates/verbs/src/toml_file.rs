//! Reads TOML files of users with the checks for JSON. An error names its line.

use gpool_model::escape::repeated;
use gpool_wire::{Problem, json, strict};
use serde::de::DeserializeOwned;

/// An error in a file.
pub struct Misfit {
    /// The line, from 1.
    pub line: usize,
    /// The message of the parser.
    pub message: String,
    pub problem: Problem,
}

/// Reads a whole file.
///
/// # Errors
/// The first [`Misfit`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Box<Misfit>> {
    let misfit = |error: toml::de::Error, place: Option<strict::ErrorLocation>| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().next().unwrap_or_default();
        let problem = match place {
            Some(place) => json::misfit(&place, message, "the file", ""),
            None => Problem::new(gpool_wire::catalogue::INVALID, repeated(message)),
        };
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        Box::new(Misfit { line, message: message.to_owned(), problem })
    };
    let reader = toml::Deserializer::parse(text).map_err(|error| misfit(error, None))?;
    strict::read(reader).map_err(|(error, place)| misfit(error, Some(place)))
}
