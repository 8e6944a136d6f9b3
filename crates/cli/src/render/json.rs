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

/// One line for each item.
#[must_use]
pub fn lines<T: Serialize>(items: &[T]) -> String {
    items.iter().map(line).collect()
}

/// One item as a line.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_the_order_of_the_type() {
        #[derive(Serialize)]
        struct Thing {
            name: &'static str,
            age: u32,
        }
        let thing = Thing { name: "\u{9b}2J", age: 1 };
        assert_eq!(line(&thing), "{\"name\":\"\\u009b2J\",\"age\":1}\n");
        let document = list(&[thing]);
        assert!(document.find("name") < document.find("age"), "{document}");
        let read: serde_json::Value = serde_json::from_str(&document).expect("it is JSON");
        assert_eq!(read["apiVersion"], "gpool/v1");
        assert_eq!(read["items"][0]["name"], "\u{9b}2J");
    }
}
