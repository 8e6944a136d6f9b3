//! The page of our own scenarios, made from the tests that ask them: whatever is asked in the
//! comment of a test, with its situation and the plan that is made. `GPOOL_BLESS=1` writes it.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected ends there")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Files of questions, with what they are about.
const PARTS: [(&str, &str); 21] = [
    ("order", "Who goes first"),
    ("planned", "Planned starts and backfill"),
    ("projects", "Projects: quotas, turns, lending"),
    ("cores", "Quotas of cores and memory"),
    ("parts", "Quotas of one model, and in one pool"),
    ("reclaim", "Taking back what is on loan"),
    ("limits", "At the limit of a department"),
    ("las", "Whoever has had least"),
    ("moves", "Moving shares out of the way"),
    ("used", "What was used lately"),
    ("devices", "Which GPUs"),
    ("nodes", "Which node"),
    ("useful", "Which of the nodes that have room"),
    ("shares", "Shares of GPUs"),
    ("instances", "MIG instances"),
    ("anywhere", "Tasks that may be anywhere"),
    ("reserved", "Reservations"),
    ("drained", "Drains"),
    ("moments", "Begin times and caps"),
    ("user_caps", "What one user may have in a project"),
    ("arrays", "Arrays"),
];
/// Also told, with `Which node`.
const ROOM: (&str, &str) = ("room", "What never fits, and what is short");

const HEAD: &str = "# Questions, answered by the scheduler

Made from the tests in `crates/scenario/tests/scenarios/`: each question is a test, its situation is
what the scheduler is given, and the answer is the plan that it makes, so nothing here can be wrong
for long. A line of a situation is a node with its GPUs, a project, or a job with what it asks for
and what it does; `start a lab1[0]` starts job a on GPU 0, `evict` takes back, `claim` keeps what is
taken back for whom it is for, `wait` says why. What is not said is ordinary: policy `fair`.
";

/// One question.
struct Asked {
    question: String,
    /// The test's name, as a sentence.
    says: String,
    situation: String,
    answer: String,
}

#[test]
fn the_page_of_scenarios_says_what_the_tests_say() {
    let mut text = HEAD.to_owned();
    let mut n_asked = 0;
    for (name, title) in PARTS.into_iter().chain([ROOM]) {
        let path = here(&format!("tests/scenarios/{name}.rs"));
        let asked = questions(&std::fs::read_to_string(path).unwrap());
        assert!(!asked.is_empty(), "{name} asks nothing");
        n_asked += asked.len();
        let _ = write!(text, "\n## {title}\n");
        for it in asked {
            let _ = write!(
                text,
                "\n### {}\n\n{}\n\n```text\n{}```\n\n```text\n{}```\n",
                it.question, it.says, it.situation, it.answer
            );
        }
    }
    assert!(n_asked >= 80, "only {n_asked} questions are asked");
    let page = here("../../docs/scenarios.md");
    if std::env::var_os("GPOOL_BLESS").is_some() {
        std::fs::write(&page, &text).unwrap();
    }
    let is = std::fs::read_to_string(&page).unwrap_or_default();
    let other = is.lines().zip(text.lines()).find(|(is, should)| is != should);
    let bless = "GPOOL_BLESS=1 cargo test -p gpool-scenario --test page";
    assert!(is == text, "docs/scenarios.md is stale ({other:?}): {bless}");
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The tests of a file that ask something, in their order.
fn questions(source: &str) -> Vec<Asked> {
    let tests: Vec<&str> = source.split("\n}\n").collect();
    tests.into_iter().filter_map(question).collect()
}

fn question(test: &str) -> Option<Asked> {
    let (before, body) = test.split_once("#[test]\nfn ")?;
    let question = before.trim_end().lines().last()?.strip_prefix("/// ")?;
    let name = body.split_once('(')?.0;
    let shown = |what: &str| panic!("{name}: {what}, and the page shows one");
    let Some((_, rest)) = body.split_once("(\"\n") else { shown("its situation is not found") };
    let Some((situation, rest)) = rest.split_once("\"),") else { shown("there are several") };
    let answer = rest.trim_start();
    let answer = match answer.strip_prefix("@r\"").or_else(|| answer.strip_prefix("@\"")) {
        Some(answer) => answer.split_once("\");").map_or("", |(answer, _)| answer),
        None => shown("its answer is not found"),
    };
    assert!(question.ends_with('?'), "{name} asks nothing: {question}");
    Some(Asked {
        question: question.to_owned(),
        says: sentence(name),
        situation: lines(situation),
        answer: match lines(answer) {
            nothing if nothing.is_empty() => "nothing\n".to_owned(),
            some => some,
        },
    })
}

/// `small_jobs_go_first` in words.
fn sentence(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    format!("{}{}.", first.into_iter().collect::<String>(), letters.as_str())
}

/// Without what the test's own lines are moved in by.
fn lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().map(indent).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", line[least..].trim_end())).collect()
}
