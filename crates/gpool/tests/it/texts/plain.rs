//! The marker words of hard prose in texts for people.

use std::collections::BTreeSet;

use super::Line;
use crate::markers::{Count, markers};

/// Each line is counted once: the help of many commands has the same flags.
fn assert_plain(name: &str, lines: Vec<Line>) {
    let mut count = Count::default();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for line in lines {
        if !seen.insert(line.text.trim().to_owned()) {
            continue;
        }
        count.add(&line.text);
        let words = markers(&line.text);
        if !words.is_empty() {
            found.push(format!("{}: {words:?}: {}", line.place, line.text.trim()));
        }
    }
    assert!(count.lines > 20, "{name}: {count}");
    assert!(count.is_plain(), "{name}: {count}\n{}", found.join("\n"));
}

#[test]
fn help_is_plain() {
    assert_plain("help", super::help());
    assert_plain("topics", super::pages());
    assert_plain("the commands of Slurm and gflow", super::shims());
}

#[test]
fn errors_and_reasons_are_plain() {
    assert_plain("errors", super::catalogue());
    assert_plain("refusals", super::literals("crates/texts/src/refusal"));
    assert_plain("reasons", super::literals("crates/texts/src/reason"));
}

#[test]
fn the_document_of_the_api_is_plain() {
    assert_plain("the API", super::api());
}

#[test]
fn pages_of_results_are_plain() {
    assert_plain("pages", super::literals("testing/lab/src/simulate"));
}

/// Errors of all crates, messages of the log, help of metrics, violations and tables are string
/// literals of several words.
#[test]
fn texts_in_the_code_are_plain() {
    let mut texts: Vec<Line> = Vec::new();
    for folder in super::sources() {
        texts.extend(super::literals(&folder));
    }
    texts.retain(|it| it.text.split_whitespace().count() > 2);
    assert_plain("texts in the code", texts);
}

/// An installed gpool comes without the files of the repository: texts name topics of help.
#[test]
fn texts_cite_no_file_of_the_repository() {
    let texts = super::sources().into_iter().filter(|folder| !folder.contains("testing/lab"));
    let texts = texts.flat_map(|folder| super::literals(&folder));
    let is_cited = |it: &Line| it.text.contains("docs/") && it.text.contains(' ');
    let found: Vec<String> =
        texts.filter(is_cited).map(|it| format!("{}: {}", it.place, it.text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
