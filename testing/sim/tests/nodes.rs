//! The decisions of a node replay from their inputs, byte for byte. The simulated nodes move tasks
//! freely or not at all, so no stream contains moves by a driver.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use gpool_sim::{Answer, Nodes, Question, Scenario, Swarm, record, run};

/// A line for each question, and one for its answer.
fn written(asked: &[(Question, Answer)]) -> String {
    let mut text = String::new();
    for (question, answer) in asked {
        let [question, answer] = [serde_json::to_string(question), serde_json::to_string(answer)];
        writeln!(text, "{}\n{}", question.unwrap(), answer.unwrap()).unwrap();
    }
    text
}

/// The same questions, with the answers of nodes that know nothing else.
fn answered(text: &str) -> String {
    let mut nodes = Nodes::default();
    let questions = text.lines().step_by(2).map(|line| serde_json::from_str(line).unwrap());
    let asked: Vec<(Question, Answer)> =
        questions.map(|question: Question| (question.clone(), nodes.answer(question))).collect();
    written(&asked)
}

/// Fails at the first line that differs.
fn assert_replays(text: &str, name: &str) {
    let again = answered(text);
    for (number, (line, again)) in (1..).zip(text.lines().zip(again.lines())) {
        assert_eq!(line, again, "line {number} of {name}");
    }
    assert_eq!(text.len(), again.len(), "{name}");
}

/// Names the kind of an enum as it is written, with that of an order or report in it.
fn kind(of: &serde_json::Value) -> String {
    let (name, inside) = match of.as_object().and_then(|fields| fields.iter().next()) {
        Some((name, inside)) => (name.clone(), inside),
        None => (of.as_str().unwrap().to_owned(), &serde_json::Value::Null),
    };
    match name.as_str() {
        "order" | "report" => format!("{name}: {}", kind(inside)),
        _ => name,
    }
}

/// The kinds of inputs, actions and acts in a text.
fn kinds(text: &str) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let all = |name: &str| value[name].as_array().into_iter().flatten();
        kinds.extend(value["Input"].get("input").map(kind));
        kinds.extend(all("Actions").map(kind));
        let acts = all("Plan").filter_map(|it| it["act"].as_str());
        kinds.extend(acts.map(str::to_owned));
    }
    kinds
}

/// What the streams have to contain.
const KINDS: &[&str] = &[
    // Inputs.
    "order: sync",
    "order: run",
    "order: stop",
    "order: change",
    "order: pause",
    "order: resume",
    "order: signal",
    "order: acknowledge",
    "devices",
    "found",
    "started",
    "changed",
    "halted",
    "detached",
    "attached",
    "not_attached",
    "refused",
    "ended",
    // Actions.
    "launch",
    "detach",
    "attach",
    "prevent",
    "stop",
    "change",
    "pause",
    "resume",
    "signal",
    "report: task",
    "report: tasks",
    "report: move",
    "forget",
    // What becomes of a borrower.
    "Notify",
    "Pause",
    "Stop",
    "Back",
];

/// Seeds of signals, of a borrower that is stopped, and of a move that fails halfway.
const RARE: [u64; 3] = [121, 1012, 251];

#[test]
fn the_decisions_of_nodes_replay_from_their_inputs() {
    let mut all = String::new();
    let first = (0..16).flat_map(|at| [Swarm::SHARING + at, Swarm::ELASTIC + at]);
    for seed in first.chain(RARE.map(|at| Swarm::SHARING + at)) {
        let swarm = Swarm::of(seed, None);
        let happenings = run(&swarm, None, false).happenings;
        let text = written(&record(&swarm.cluster, &happenings));
        assert_replays(&text, &swarm.to_string());
        all.push_str(&text);
    }
    let found = kinds(&all);
    let missing: Vec<&&str> = KINDS.iter().filter(|kind| !found.contains(**kind)).collect();
    assert!(missing.is_empty(), "{missing:?} of {found:?}");
}

/// The decisions in some of the kept scenarios.
const RECORDED: &str = "tests/nodes.jsonl";

/// Those in which shares move, memory is lent, and tasks are paused and resume.
const SCENARIOS: [&str; 3] =
    ["away-and-away.txt", "planted-lent-before-adopted.txt", "resumed-and-waits-for-room.txt"];

#[test]
fn recorded_decisions_of_nodes_are_still_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join(RECORDED);
    if std::env::var_os("GPOOL_BLESS").is_some() {
        let played = SCENARIOS.map(|name| {
            let text = std::fs::read_to_string(folder.join("scenarios").join(name)).unwrap();
            let scenario: Scenario = text.parse().unwrap();
            written(&record(&scenario.cluster, &scenario.happenings))
        });
        std::fs::write(&path, played.concat()).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() > 100, "{RECORDED} is empty");
    assert_replays(&text, RECORDED);
}
