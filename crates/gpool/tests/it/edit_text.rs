//! `gpool edit` without flags: what can change, as text in the user's editor.

use gpool_verbs::edit_text::patch;
use serde_json::{Map, Value, json};

fn shown() -> Map<String, Value> {
    let Value::Object(fields) = json!({"name": "a", "priority": 0, "time": "60s"}) else {
        return Map::new();
    };
    fields
}

#[test]
fn what_differs_is_the_patch() {
    let same = toml::to_string(&shown()).expect("it is a table");
    assert_eq!(patch(&shown(), &same), Ok(None));
    let found = patch(&shown(), "name = \"b\"\npriority = 0\n").expect("it is fine");
    let found = serde_json::to_value(found).expect("it is JSON");
    assert_eq!(found, json!({"name": "b", "time": null}));
}

#[test]
fn what_is_not_understood_is_refused() {
    for text in ["nmae = \"b\"", "priority = \"high\"", "name = ", "priority = 5000"] {
        assert!(patch(&shown(), text).is_err(), "{text}");
    }
}
