//! Objects only from objects, names at most once, and everything else as serde reads it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use gpool_wire::strict::*;

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer {
    #[serde(default)]
    inner: Option<Inner>,
    #[serde(default)]
    list: Vec<Inner>,
    #[serde(default)]
    map: BTreeMap<String, Inner>,
    #[serde(default)]
    kind: Option<Kind>,
    #[serde(default)]
    any: Value,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    a: u8,
    #[serde(default)]
    b: Option<bool>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Plain,
    Of(Inner),
    With { a: u8 },
}

fn outer(text: &str) -> Result<Outer, (String, String)> {
    let mut reader = serde_json::Deserializer::from_str(text);
    read(&mut reader).map_err(|(error, place)| (place.path(), error.to_string()))
}

#[test]
fn an_array_is_no_object_at_any_depth() {
    for (text, path) in [
        ("[]", ""),
        ("[null,[],{},null,null]", ""),
        (r#"{"inner": [1, true]}"#, "inner"),
        (r#"{"list": [{"a": 1}, [1]]}"#, "list[1]"),
        (r#"{"map": {"x": {"a": 1}, "y": [1, null]}}"#, "map.y"),
        (r#"{"map": []}"#, "map"),
        (r#"{"kind": {"of": [1]}}"#, "kind.of"),
        (r#"{"kind": {"with": [1]}}"#, "kind.with"),
    ] {
        let (at, said) = outer(text).expect_err(text);
        assert_eq!(at, path, "{text}");
        assert!(said.contains("invalid type: sequence"), "{text}: {said}");
    }
}

#[test]
fn each_name_is_there_once() {
    for (text, path) in [
        (r#"{"list": [], "list": []}"#, ""),
        (r#"{"inner": {"a": 1, "a": 2}}"#, "inner"),
        (r#"{"map": {"x": {"a": 1}, "\u0078": {"a": 2}}}"#, "map"),
        (r#"{"any": [{"x": 1, "x": 1}]}"#, "any[0]"),
    ] {
        let (at, said) = outer(text).expect_err(text);
        assert_eq!(at, path, "{text}");
        assert!(said.starts_with("duplicate field `"), "{text}: {said}");
    }
}

#[test]
fn a_name_alone_is_a_string_and_one_with_a_value_an_object_of_one_entry() {
    let kind = |text: &str| outer(&format!("{{\"kind\": {text}}}")).map(|it| it.kind);
    let inner = Inner { a: 1, b: None };
    assert_eq!(kind(r#""plain""#), Ok(Some(Kind::Plain)));
    assert_eq!(kind(r#"{"of": {"a": 1}}"#), Ok(Some(Kind::Of(inner))));
    assert_eq!(kind(r#"{"with": {"a": 1}}"#), Ok(Some(Kind::With { a: 1 })));
    for text in [
        r#"{"plain": null}"#,
        r#""of""#,
        r#""other""#,
        "{}",
        "1",
        r#"["plain"]"#,
        r#"{"of": {"a": 1}, "with": {"a": 1}}"#,
    ] {
        assert!(kind(text).is_err(), "{text}");
    }
}

#[test]
fn everything_else_is_read_as_serde_reads_it() {
    let text = r#"{"inner": {"a": 255, "b": null}, "list": [{"b": true, "a": 0}],
        "map": {"è\n": {"a": 7}}, "any": {"x": [null, 1.5, -3, "s", {}]}}"#;
    assert_eq!(outer(text), Ok(serde_json::from_str(text).expect("it fits")));
    assert_eq!(outer("{}").expect("all is absent").any, json!(null));
    assert!(outer(r#"{"inner": {"a": 256}}"#).is_err());
}
