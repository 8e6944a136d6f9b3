//! Bodies of the wrong shape, for every route that takes one: each is refused, in JSON's words.

use serde_json::{Value, json};

use crate::rig::{OWNER, Rig, raw, request};
use gpool_api::openapi_json;

/// Every route that takes JSON, with the names and schemas of its body's fields.
fn routes_with_bodies(document: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let content = &operation["requestBody"]["content"];
            let schema = match content["application/json"]["schema"]["$ref"].as_str() {
                Some(name) => document.pointer(&name[1..]).unwrap().clone(),
                None if content["application/octet-stream"].is_object() => continue,
                // Lines of jobs.
                None if content.is_object() => {
                    document["components"]["schemas"]["JobCreate"].clone()
                }
                None => continue,
            };
            assert_eq!(schema["additionalProperties"], json!(false), "{method} {path}");
            let path = path.replace("{id}", "1").replace("{name}", "lab1");
            found.push((method.to_uppercase(), path, schema));
        }
    }
    found
}

/// Words of Rust and serde that mean nothing to a caller.
const RUST: &[&str] = &[
    "struct", "enum", "variant", "tuple", "sequence", "newtype", "serde", "bool", "boolean", "i8",
    "i16", "i32", "i64", "u8", "u16", "u32", "u64", "u128", "f32", "f64", "usize", "isize", "str",
    "Vec", "Option", "String", "None", "Some",
];

fn check_words(problem: &str, document: &Value, what: &str) {
    let types = document["components"]["schemas"].as_object().unwrap();
    let problem: Value = serde_json::from_str(problem).unwrap();
    let parts = [&problem["detail"], &problem["why"], &problem["try"]].map(Value::to_string);
    for word in parts.concat().split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        assert!(!RUST.contains(&word), "{what}: {word:?} in {problem}");
        // A type of one plain word, such as Job, may begin a sentence.
        let is_type =
            types.contains_key(word) && word.chars().filter(char::is_ascii_uppercase).count() > 1;
        assert!(!is_type, "{what}: {word:?} in {problem}");
    }
}

#[test]
fn a_body_of_the_wrong_shape_is_refused_in_words_of_json() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut rig = Rig::new();
    let socket = rig.socket(OWNER);
    let routes = routes_with_bodies(&document);
    assert!(routes.len() > 25, "{}", routes.len());
    for (method, path, schema) in routes {
        let send = |body: &Value| {
            let body = body.to_string();
            let (status, _, answer) = raw(&socket, &request(&method, &path, &body));
            assert!((200..500).contains(&status), "{method} {path} {body}: {status} {answer}");
            if status >= 400 {
                check_words(&answer, &document, &format!("{method} {path} {body}"));
            }
            (status, answer)
        };
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let nulls = Value::Array(vec![Value::Null; names.len()]);
        for body in [json!([]), nulls, json!([{}]), json!(null), json!("{}"), json!(1), json!(true)]
        {
            let (status, answer) = send(&body);
            assert_eq!(status, 400, "{method} {path} {body}: {answer}");
            assert!(answer.contains("it is "), "{method} {path} {body}: {answer}");
        }
        // What fits is asked for elsewhere; some of it would stop the server.
        for name in names.iter().filter(|_| !path.ends_with("/shutdown")) {
            for value in [
                json!(null),
                json!(true),
                json!(-1),
                json!(1.5),
                json!(1e300),
                json!(u64::MAX),
                json!("\u{1b}x"),
                json!([]),
                json!([null]),
                json!([[]]),
                json!([{}]),
                json!({}),
                json!({"a": []}),
                json!({"a": [null, null]}),
            ] {
                send(&json!({ *name: value }));
            }
        }
    }
}

#[test]
fn an_array_in_the_place_of_an_object_changes_nothing() {
    let mut rig = Rig::new();
    let socket = rig.socket(OWNER);
    let ask = |method: &str, path: &str, body: &str| raw(&socket, &request(method, path, body));
    let caps = |name: &str| {
        let (_, _, body) = ask("GET", &format!("/api/v1/users/{name}"), "");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let set = r#"{"running_jobs":1,"pending_jobs":2,"gpus":1}"#;
    assert_eq!(ask("PATCH", "/api/v1/users/bo", set).0, 200);
    let before = caps("bo");
    for body in [
        "[null,null,null]",
        "[]",
        r#"{"running_jobs":1,"running_jobs":null}"#,
        r#"{"gpus":[null]}"#,
    ] {
        let (status, _, answer) = ask("PATCH", "/api/v1/users/bo", body);
        assert_eq!(status, 400, "{body}: {answer}");
        assert_eq!(caps("bo"), before, "{body}");
    }
    for body in [
        r#"[["true"]]"#,
        r#"{"command":["true"],"script":["a","b",null]}"#,
        r#"{"command":["true"],"pty":[24,80]}"#,
        r#"{"command":["true"],"params":[["a",["1"]]]}"#,
        r#"{"command":["true"],"activate":[{"modules":["/init",["cuda"]]}]}"#,
        r#"{"command":["true"],"environment":{"A":"1","A":"2"}}"#,
        r#"{"command":["true"],"items":[{"a":1,"a":2}]}"#,
        r#"{"command":["true"],"retry":[3]}"#,
    ] {
        for path in ["/api/v1/jobs", "/api/v1/jobs/bulk"] {
            let (status, _, answer) = ask("POST", path, body);
            assert_eq!(status, 400, "{path} {body}: {answer}");
        }
    }
    let (_, _, jobs) = ask("GET", "/api/v1/jobs?state=all", "");
    assert_eq!(serde_json::from_str::<Value>(&jobs).unwrap()["total"], 0);
}
