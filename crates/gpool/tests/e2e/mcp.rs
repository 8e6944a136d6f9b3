//! `gpool mcp` with the official Python client of the protocol.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Cluster, Ran, Running, skip};

/// Where `cargo xtask test` installs the client.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mcp/bin/python");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/calls.py");
/// The page for users.
const PAGE: &str = include_str!("../../../../docs/using/mcp.md");

/// A cluster with a job that runs and one that waits; `None` if a program is missing.
fn start() -> Option<Cluster> {
    let is_ci = std::env::var_os("CI").is_some();
    if !Path::new(PYTHON).exists() {
        assert!(!is_ci, "{PYTHON} is missing");
        skip("the client of the protocol is missing; cargo xtask test installs it");
        return None;
    }
    if !Path::new(env!("CARGO_BIN_EXE_gpool")).with_file_name("gpool-mcp").exists() {
        assert!(!is_ci, "gpool-mcp is missing");
        skip("gpool-mcp is missing; cargo build --package gpool-mcp builds it");
        return None;
    }
    let cluster = Cluster::new("sim:8xH100-80G");
    for (name, gpus) in [("small", "1"), ("big", "8")] {
        let words = ["submit", "-q", "--name", name, "--gpus", gpus, "--", "sleep", "600"];
        cluster.gpool(words).ok();
    }
    cluster.until_is("1", "running");
    Some(cluster)
}

fn python(cluster: &Cluster, script: &str, input: Option<Vec<u8>>) -> Ran {
    let folder = Path::new(env!("CARGO_BIN_EXE_gpool")).parent().unwrap();
    let of = cluster.command();
    let mut command = Command::new(PYTHON);
    command.env_clear().current_dir(cluster.work());
    command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    Running::start(command.arg(script), input).end()
}

/// Calls tools in order; returns the lines before and after the answers, and the answers.
fn calls(cluster: &Cluster, calls: &[Value]) -> (Vec<String>, Vec<Value>) {
    let input: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let out = python(cluster, SCRIPT, Some(input.into_bytes())).ok();
    let (answers, others): (Vec<&str>, _) = out.lines().partition(|line| line.starts_with('['));
    let answers = answers.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    (others.into_iter().map(str::to_owned).collect(), answers)
}

#[test]
fn a_client_lists_and_calls_the_tools() {
    let Some(cluster) = start() else { return };
    let (others, answers) = calls(
        &cluster,
        &[
            json!(["why", {"job": "big"}]),
            json!(["queue", {}]),
            json!(["gpus", {}]),
            json!(["job", {"job": 1}]),
            json!(["waste", {}]),
            json!(["quota", {}]),
            json!(["what_if", {"changes": ["cancel 1"], "for": "1h"}]),
            json!(["preview", {"command": ["true"], "gpus": "1"}]),
            json!(["submit", {"command": ["sh", "-c", "echo hi; env"], "environment": {"A": "1"}}]),
            json!(["cancel", {"jobs": ["2"]}]),
        ],
    );
    let reading = "tools why queue gpus job waste quota what_if";
    let allowed = "allowed why queue gpus job waste quota what_if preview submit";
    assert_eq!(others, [reading, allowed, "refused True ['gpool mcp --allow cancel']"]);
    for answer in &answers {
        assert_eq!(answer[1], false, "{answer}");
    }
    let text = |ix: usize| answers[ix][2].to_string();
    assert!(text(0).contains("It needs 8 GPUs, and 7 are free"), "{}", text(0));
    assert_eq!(answers[1][2]["jobs"][0]["name"], "small");
    assert_eq!(answers[1][2]["jobs"][1]["waits_for"]["code"], "gpus_not_free");
    assert_eq!(answers[2][2]["gpus"].as_array().unwrap().len(), 8);
    assert_eq!(answers[3][2]["job"]["state"], "running");
    assert_eq!(answers[5][2]["projects"][0]["project"], "default");
    let id = answers[8][2]["job"]["id"].as_str().unwrap();
    let job = cluster.until_ended(id);
    assert_eq!(job.state.as_str(), "succeeded");
    // The environment of the assistant stays with it.
    let output = cluster.stdout_of(id);
    assert!(output.starts_with("hi\n") && output.contains("\nA=1\n"), "{output}");
    assert!(!output.contains("GPOOL_STATE_DIR"), "{output}");
    assert_eq!(cluster.until_ended("2").state.as_str(), "cancelled");
}

#[test]
fn errors_have_code_reason_and_advice() {
    let Some(cluster) = start() else { return };
    let wrong = [
        (json!(["why", {"job": "99"}]), "GP0601", "there is no job 99"),
        (json!(["why", {}]), "GP0212", "needs the argument job"),
        (json!(["queue", {"state": "lazy"}]), "GP", "lazy"),
        (json!(["submit", {"command": ["true"], "gpus": "9"}]), "GP0412", "9 GPUs"),
        (json!(["submit", {"command": ["true"], "gpus": "a:b"}]), "GP0101", "a:b"),
        (json!(["submit", {"command": []}]), "GP", "command"),
        (json!(["what_if", {"changes": ["paint it"], "for": "1h"}]), "GP", "paint"),
        (json!(["cancel", {"jobs": []}]), "GP0101", "no job"),
        (json!(["fly", {}]), "GP0212", "there is no tool"),
    ];
    let asked: Vec<Value> = wrong.iter().map(|(call, _, _)| call.clone()).collect();
    let (_, answers) = calls(&cluster, &asked);
    assert_eq!(answers.len(), wrong.len());
    for (answer, (call, code, words)) in answers.iter().zip(&wrong) {
        assert_eq!(answer[1], true, "{call}: {answer}");
        assert!(answer[2]["code"].as_str().unwrap().starts_with(code), "{call}: {answer}");
        assert!(answer[2].to_string().contains(words), "{call}: {answer}");
    }
}

/// Follows the page: writes its program, and compares its output.
#[test]
fn the_page_shows_the_output() {
    let Some(cluster) = start() else { return };
    let (_, rest) = PAGE.split_once("```python\n# ask.py\n").unwrap();
    let (program, rest) = rest.split_once("```\n").unwrap();
    fs::write(cluster.work().join("ask.py"), program).unwrap();
    let (_, rest) = rest.split_once("$ python ask.py\n").unwrap();
    let (expected, _) = rest.split_once("```\n").unwrap();
    assert_eq!(python(&cluster, "ask.py", None).ok(), expected);
}

#[test]
fn a_server_that_is_away_is_an_answer() {
    let Some(cluster) = start() else { return };
    cluster.gpool(["down", "--now"]).ok();
    let (_, answers) = calls(&cluster, &[json!(["gpus", {}])]);
    assert_eq!(answers[0][1], true, "{answers:?}");
    assert!(answers[0][2]["try"].to_string().contains("gpool up"), "{answers:?}");
}
