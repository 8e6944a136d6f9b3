//! Answers of the API, shortened, and failures as objects.

use gpool_cli::failure::Failure;
use serde_json::{Map, Value, json};

/// The largest answer in bytes of JSON.
pub(crate) const BYTES_MAX: usize = 256 * 1024;

/// The answer without nulls, empty texts, lists and objects, except at its top: the assistant reads
/// each byte.
#[must_use]
pub fn short(answer: Value) -> Value {
    match answer {
        Value::Object(map) => {
            let entries = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(entries.map(|(name, value)| (name, filled(value))).collect())
        }
        other => filled(other),
    }
}

/// The value without empty values in it.
fn filled(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.into_iter().map(|(name, value)| (name, filled(value)));
            Value::Object(entries.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(filled).collect()),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The object with only these keys.
pub(crate) fn only(value: &Value, keys: &[&str]) -> Value {
    let pairs = keys.iter().filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone())));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

/// The object without a key.
pub(crate) fn without(mut value: Value, key: &str) -> Value {
    if let Value::Object(map) = &mut value {
        map.remove(key);
    }
    value
}

/// A failure with its code, reasons and what to try.
#[must_use]
pub fn failure(failure: &Failure) -> Value {
    let document: Value = serde_json::from_str(&failure.json()).unwrap_or_default();
    let error = &document["error"];
    filled(json!({
        "code": error["code"],
        "what": error["message"],
        "why": error["why"],
        "try": error["try"],
    }))
}
