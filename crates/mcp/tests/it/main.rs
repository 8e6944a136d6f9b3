//! Tests of the tools without a server. `crates/gpool/tests/e2e/mcp.rs` calls them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use gpool_cli::errors;
use gpool_cli::failure::Failure;
use gpool_mcp::{Arguments, FieldKind, TOOLS, failure, short};
use serde_json::{Map, Value, json};

fn checked(name: &str, arguments: Value) -> Result<Arguments, String> {
    let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
    let Value::Object(arguments) = arguments else { panic!("{arguments} is no object") };
    Arguments::of(tool.name, tool.fields, arguments).map_err(|failure| failure.text(false))
}

#[test]
fn each_tool_has_a_schema_of_its_fields() {
    for tool in TOOLS {
        let schema: Map<String, Value> = tool.schema();
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties.len(), tool.fields.len(), "{}", tool.name);
        for field in tool.fields {
            assert!(properties[field.name]["description"].as_str().unwrap().len() > 5);
            let is_required = schema["required"].as_array().unwrap().contains(&field.name.into());
            assert_eq!(is_required, field.is_required, "{}.{}", tool.name, field.name);
        }
    }
    let names: std::collections::BTreeSet<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(names.len(), TOOLS.len());
}

#[test]
fn tools_that_change_something_need_a_permission() {
    let changing = ["submit", "cancel"];
    for tool in TOOLS {
        assert_eq!(tool.is_read_only(), !changing.contains(&tool.name), "{}", tool.name);
        assert!(tool.is_read_only() || tool.scope.is_some(), "{}", tool.name);
    }
}

#[test]
fn arguments_of_another_name_or_type_are_refused() {
    let cases = [
        ("why", json!({}), "tool why needs the argument job"),
        ("why", json!({"job": null}), "tool why needs the argument job"),
        ("why", json!({"job": ["3"]}), "argument job of tool why is no text"),
        ("why", json!({"job": -3}), "is no text"),
        ("why", json!({"id": "3"}), "tool why has no argument \"id\""),
        ("gpus", json!({"a": 1}), "it has no arguments"),
        ("queue", json!({"limit": "20"}), "is no whole number"),
        ("queue", json!({"limit": 1.5}), "is no whole number"),
        ("submit", json!({"command": "true"}), "is no list of texts"),
        ("submit", json!({"command": [{}]}), "is no list of texts"),
        ("submit", json!({"command": ["a"], "environment": {"A": 1}}), "is no object of texts"),
        ("submit", json!({"command": ["a"], "hold": "yes"}), "is no boolean"),
    ];
    for (tool, arguments, words) in cases {
        let refusal = checked(tool, arguments.clone()).unwrap_err();
        assert!(refusal.contains(words), "{arguments}: {refusal}");
    }
    for (tool, arguments) in [
        ("why", json!({"job": 17})),
        ("why", json!({"job": "17.3"})),
        ("queue", json!({"limit": 5, "user": null})),
        ("submit", json!({"command": ["a", 1], "environment": {"A": "1"}})),
    ] {
        checked(tool, arguments).unwrap();
    }
    assert!(TOOLS.iter().flat_map(|tool| tool.fields).any(|it| it.kind == FieldKind::Map));
}

#[test]
fn answers_have_no_empty_values_below_their_top() {
    let answer = json!({"jobs": [], "a": null, "b": {"c": "", "d": [null], "e": {}, "f": 0}});
    assert_eq!(short(answer), json!({"jobs": [], "b": {"d": [null], "f": 0}}));
}

#[test]
fn failures_have_code_reasons_and_advice() {
    let refusal = Failure::new(errors::USAGE, "no").why("because").tip("gpool help");
    assert_eq!(
        failure(&refusal),
        json!({"code": "GP0212", "what": "no", "why": ["because"], "try": ["gpool help"]})
    );
    assert_eq!(failure(&Failure::new(errors::USAGE, "no"))["why"], Value::Null);
}
