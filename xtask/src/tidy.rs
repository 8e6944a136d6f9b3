//! Rules about the text of the sources that no compiler checks. One pass over every source file
//! reports all violations at once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::step;

/// Longer files hold more than one idea.
const LINES_MAX: usize = 500;

/// rustfmt checks this, except for strings and comments.
const COLUMNS_MAX: usize = 100;

/// Extensions of files that people write.
const ENDINGS: &[&str] = &["rs", "toml", "md", "sh", "html", "css", "js"];

/// Folders without files that people write.
const SKIPPED: &[&str] = &["target", ".git"];

/// Marks of unfinished work, split so that this file does not match.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("#[ign", "ore"),
];

/// The attributes that allow `unsafe` in a crate, and the folders of crates that may have them.
const UNSAFE_LEAVE: &[&str] =
    &[concat!("allow(unsa", "fe_code"), concat!("expect(unsa", "fe_code")];
const UNSAFE_CRATES: &[&str] = &["sys", "ledger", "shim", "checkpoint"];

/// All violations, one a line, with file and line.
///
/// # Errors
/// If the repository cannot be read.
pub fn violations() -> anyhow::Result<Vec<String>> {
    let root = step::root();
    let mut found = Vec::new();
    for path in files(&root)? {
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        found.extend(file_violations(shown, &text));
    }
    Ok(found)
}

/// Files that people write, sorted by path.
///
/// # Errors
/// If a folder cannot be read.
pub fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
            let kind = entry.file_type().context("asking what a file is")?;
            let path = entry.path();
            if kind.is_dir() && !SKIPPED.iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            } else if kind.is_file() && is_written(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn is_written(path: &Path) -> bool {
    path.ends_with(".ci/run")
        || path.extension().is_some_and(|it| ENDINGS.iter().any(|ending| it == *ending))
}

fn file_violations(path: &Path, text: &str) -> Vec<String> {
    let shown = path.display();
    let is_rust = path.extension().is_some_and(|it| it == "rs");
    let mut found = Vec::new();
    for (ix, line) in text.lines().enumerate() {
        let mut note = |what: &str| found.push(format!("{shown}:{}: {what}", ix + 1));
        if line.ends_with(char::is_whitespace) {
            note("blanks at the end of the line");
        }
        if line.contains('\t') {
            note("a tab");
        }
        if !is_rust {
            continue;
        }
        if line.chars().count() > COLUMNS_MAX && !is_text_alone(line) {
            note(&format!("longer than {COLUMNS_MAX} columns"));
        }
        if let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(**mark)) {
            note(&format!("unfinished: {mark}"));
        }
        if UNSAFE_LEAVE.iter().any(|leave| line.contains(leave)) && !may_be_unsafe(path) {
            note("unsafe code outside the crates that may hold it");
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found.push(format!("{shown}: no line end at the end of the file"));
    }
    if is_rust {
        found.extend(rust_violations(path, text));
    }
    if path.ends_with("Cargo.toml") && text.contains("[package]") && !takes_lints(text) {
        found.push(format!("{shown}: the workspace's lints are not taken over"));
    }
    found
}

/// Whether a line is a string literal without code, such as a message: unbroken messages can be
/// searched for.
fn is_text_alone(line: &str) -> bool {
    let text = line.trim().trim_end_matches([',', ';', ')']);
    text.len() > 1 && text.starts_with('"') && text.ends_with('"')
}

fn rust_violations(path: &Path, text: &str) -> Vec<String> {
    let shown = path.display();
    let mut found = Vec::new();
    if !text.starts_with("//! ") {
        found.push(format!("{shown}:1: no `//!` head that says what the file is for"));
    }
    let n_lines = text.lines().count();
    if n_lines > LINES_MAX {
        found.push(format!("{shown}: {n_lines} lines, more than {LINES_MAX}"));
    }
    found
}

fn may_be_unsafe(path: &Path) -> bool {
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    let (Some(first), Some(name)) = (parts.next(), parts.next()) else { return false };
    match first.as_ref() {
        "crates" => UNSAFE_CRATES.contains(&name.as_ref()),
        "testing" => name.starts_with("stub-"),
        _ => false,
    }
}

fn takes_lints(manifest: &str) -> bool {
    manifest.contains("[lints]\nworkspace = true\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        file_violations(Path::new(path), text)
    }

    #[test]
    fn the_repository_is_tidy() {
        let found = violations().expect("the repository can be read");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn the_pass_reads_every_kind_of_source() {
        let files = files(&step::root()).expect("the repository can be read");
        for seen in ["xtask/src/tidy.rs", "crates/model/clippy.toml", "README.md", ".ci/run"] {
            assert!(files.iter().any(|path| path.ends_with(seen)), "{seen} was not looked at");
        }
        assert!(!files.iter().any(|path| path.iter().any(|part| part == "target")));
    }

    #[test]
    fn each_rule_is_reported_with_its_place() {
        let text = format!("//! Head.\n{} \n{}", UNFINISHED[0], "x".repeat(COLUMNS_MAX + 1));
        assert_eq!(
            found("crates/model/src/a.rs", &text),
            [
                "crates/model/src/a.rs:2: blanks at the end of the line",
                &format!("crates/model/src/a.rs:2: unfinished: {}", UNFINISHED[0]),
                "crates/model/src/a.rs:3: longer than 100 columns",
                "crates/model/src/a.rs: no line end at the end of the file",
            ]
        );
        assert_eq!(found("a.md", "a\tb\n"), ["a.md:1: a tab"]);
    }

    #[test]
    fn a_message_may_be_of_any_length() {
        let message = format!("//! Head.\n    \"{}\",\n", "x ".repeat(COLUMNS_MAX));
        assert!(found("a.rs", &message).is_empty());
        assert_eq!(found("a.rs", &message.replace("    ", "let it = ")).len(), 1);
    }

    #[test]
    fn a_source_file_has_a_head_and_stays_short() {
        assert_eq!(found("a.rs", "fn f() {}\n").len(), 1);
        let long = format!("//! Head.\n{}", "\n".repeat(LINES_MAX));
        assert_eq!(found("a.rs", &long), ["a.rs: 501 lines, more than 500"]);
        assert!(found("a.rs", &long[..long.len() - 1]).is_empty());
    }

    #[test]
    fn unsafe_code_is_only_in_certain_crates() {
        let text = format!("//! Head.\n#![{})]\n", UNSAFE_LEAVE[0]);
        assert_eq!(found("crates/store/src/lib.rs", &text).len(), 1);
        assert!(found("crates/sys/src/lib.rs", &text).is_empty());
        assert!(found("testing/stub-nvml/src/lib.rs", &text).is_empty());
    }

    #[test]
    fn every_crate_takes_the_lints() {
        let with = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";
        assert!(found("crates/a/Cargo.toml", with).is_empty());
        assert_eq!(found("crates/a/Cargo.toml", "[package]\nname = \"a\"\n").len(), 1);
    }
}
