//! Makes the page of scenarios from the tests: each question in the doc comment of a test, with the
//! test's situation and plan. `GPOOL_BLESS=1` writes the page.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected ends there")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Files with questions, and their titles.
const PARTS: [(&str, &str); 21] = [
    ("order", "Queue order"),
    ("planned", "Planned starts and backfill"),
    ("projects", "Projects: quotas and borrowing"),
    ("cores", "Quotas of cores and memory"),
    ("parts", "Quotas of one model or in one pool"),
    ("reclaim", "Reclaiming borrowed capacity"),
    ("limits", "At the limit of a department"),
    ("las", "Least attained service (preset `las`)"),
    ("moves", "Moving shares of GPUs"),
    ("used", "Decayed usage"),
    ("devices", "Choice of GPUs"),
    ("nodes", "Choice of the node"),
    ("useful", "Choice between nodes by fragmentation"),
    ("shares", "Shares of GPUs"),
    ("instances", "MIG instances"),
    ("anywhere", "Tasks on any nodes"),
    ("reserved", "Reservations"),
    ("drained", "Drains"),
    ("moments", "Begin times and caps"),
    ("user_caps", "Caps of users in projects"),
    ("arrays", "Arrays"),
];
/// Comes last on the page.
const ROOM: (&str, &str) = ("room", "Jobs that never fit, and missing resources");

const HEAD: &str = "# Scenarios: questions and the scheduler's answers

Each question on this page is a test in `testing/scenario/tests/scenarios/`. The first block is the
situation, the second one is the plan that the scheduler makes, so the answers are always current.

A line of a situation describes a node with its GPUs, a project, or a job with its request and its
state. In a plan, `start a lab1[0]` starts job `a` on GPU 0 of `lab1`, `evict` evicts a job, `claim`
reserves the freed GPUs for its beneficiary, `plan` shows a planned start, and `wait` gives the
reason. The policy is `fair` unless the situation names another one.
";

/// One question of the page.
struct Asked {
    question: String,
    /// The test's name, as a sentence.
    says: String,
    situation: String,
    answer: String,
}

#[test]
fn the_page_of_scenarios_is_up_to_date() {
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
    let page = here("../../docs/developing/scenarios.md");
    if std::env::var_os("GPOOL_BLESS").is_some() {
        std::fs::write(&page, &text).unwrap();
    }
    let is = std::fs::read_to_string(&page).unwrap_or_default();
    let other = is.lines().zip(text.lines()).find(|(is, should)| is != should);
    let bless = "GPOOL_BLESS=1 cargo test -p gpool-scenario --test page";
    assert!(is == text, "docs/developing/scenarios.md is stale ({other:?}): {bless}");
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the tests of a file that ask a question, in their order.
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

/// Turns `small_jobs_go_first` into a sentence.
fn sentence(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    format!("{}{}.", first.into_iter().collect::<String>(), letters.as_str())
}

/// Removes the common indentation of a text.
fn lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().map(indent).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", line[least..].trim_end())).collect()
}
