//! The JSON that commands print: one document with keys in the order of the API, without characters
//! that control a terminal.

use gpool_wire::{API_VERSION, Document};
use serde::Serialize;

use super::safe::safe_json;

#[derive(Serialize)]
struct Items<'a, T> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    items: &'a [T],
}

/// A list as one document.
#[must_use]
pub fn list<T: Serialize>(items: &[T]) -> String {
    pretty(&Items { api_version: API_VERSION, items })
}

/// An object as one document, with the API version as an additional key.
#[must_use]
pub fn one<T: Serialize>(body: T) -> String {
    pretty(&Document::new(body))
}

#[must_use]
pub fn lines<T: Serialize>(items: &[T]) -> String {
    items.iter().map(line).collect()
}

#[must_use]
pub fn line<T: Serialize>(item: &T) -> String {
    // Types of the API have string keys only, so this can't fail.
    let text = serde_json::to_string(item).unwrap_or_default();
    format!("{}\n", safe_json(&text))
}

fn pretty(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    format!("{}\n", safe_json(&text))
}
