//! The same verdicts and command lines as PyPI's valohai-yaml, whose answers are in a file.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_valohai::Document;
use gpool_valohai::command::Values;
use gpool_valohai::finding::Level;
use gpool_valohai::yaml::{Node, Value};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn recorded() -> serde_json::Value {
    let text = std::fs::read_to_string(tests().join("oracle/answers.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Bool(is) => Value::Bool(*is),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Float(number.as_f64().unwrap()),
        },
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(items) => {
            Value::List(items.iter().map(|item| Node { line: 1, value: value(item) }).collect())
        }
        other => panic!("no value of a parameter: {other}"),
    }
}

fn lines(json: &serde_json::Value) -> Vec<&str> {
    json.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn verdicts_and_command_lines_are_those_of_valohai_yaml() {
    let recorded = recorded();
    let answers = recorded.as_object().unwrap();
    for folder in ["right", "wrong"] {
        let n_files = std::fs::read_dir(tests().join(folder)).unwrap().count();
        let n_answers = answers.keys().filter(|name| name.starts_with(folder)).count();
        assert_eq!(n_files, n_answers, "files of {folder} without an answer");
    }
    for (name, answer) in answers {
        let document = Document::read(&std::fs::read_to_string(tests().join(name)).unwrap());
        let verdict = match document.worst() {
            Some(Level::Error) => "error",
            Some(Level::Warning) => "warning",
            None => "ok",
        };
        assert_eq!(verdict, answer["verdict"], "{name}: {:?}", document.findings);
        for (step, expected) in answer["steps"].as_object().unwrap() {
            let step = document.config.step(step).unwrap();
            let defaults = step.command_lines(&Values::new());
            assert_eq!(defaults, lines(&expected["defaults"]), "{name}, {}", step.name);
            let given = expected["given"].as_object().unwrap().iter();
            let given: Values = given.map(|(name, it)| (name.clone(), value(it))).collect();
            let with_given = step.command_lines(&given);
            assert_eq!(with_given, lines(&expected["with_given"]), "{name}, {}", step.name);
        }
    }
}

/// Each finding has its line and a sentence.
#[test]
fn findings_name_line_and_reason() {
    let cases = [
        ("no-image", "line 2: step \"a\" has no \"image\"; add image: …"),
        ("unknown-key", "line 5: step \"a\" has an unknown key \"comand\"; write \"command\""),
        (
            "docs-number-of-gpus",
            "line 8: step \"distributed-training\", environment variable \"VH_GPUS\": \"default\" \
             is a number, not a text; put quotes around it",
        ),
        (
            "bad-time-limit",
            "line 5: step \"a\": time-limit: it is not a positive time; time-limit: 1h 30m",
        ),
        (
            "edge-of-two-parts",
            "line 10: pipeline \"p\": the end \"n.output\" has not 3 parts; write NODE.KIND.NAME, \
             e.g. train.output.model*",
        ),
        (
            "out-of-range",
            "line 6: step \"a\", parameter \"p\": the default does not fit: 9 is greater than the \
             maximum 8",
        ),
    ];
    for (name, expected) in cases {
        let path = tests().join(format!("wrong/{name}.yaml"));
        let document = Document::read(&std::fs::read_to_string(path).unwrap());
        let found: Vec<String> = document.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, [expected], "{name}");
    }
}

#[test]
fn the_recorded_answers_are_those_of_the_installed_package() {
    let python = tests().join("../../../target/valohai/bin/python");
    if !python.exists() {
        assert!(std::env::var_os("CI").is_none(), "valohai-yaml is missing");
        eprintln!("skipped: valohai-yaml is not installed; cargo xtask test installs it");
        return;
    }
    let ask = Command::new(python).arg(tests().join("oracle/ask.py")).arg(tests()).output();
    let ask = ask.unwrap();
    assert!(ask.status.success(), "{}", String::from_utf8_lossy(&ask.stderr));
    let now: serde_json::Value = serde_json::from_slice(&ask.stdout).unwrap();
    assert_eq!(now, recorded(), "run tests/oracle/ask.py again, and keep its answer");
}
