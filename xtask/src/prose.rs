//! Counts marker words of hard prose in comments and documents. Sentences that begin with a
//! headless relative ("what was …"), or that speak of jobs and devices as persons, are hard to read
//! for users with another first language. The words below mark nearly all of them. Comments of
//! well-kept projects (ripgrep, hyperqueue, pueue) have 3 to 6 per 1,000 lines.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context;
use regex::Regex;

use crate::{step, tidy};

/// The most marker words per 1,000 lines. Some uses are right: users are persons.
const PER_1000_LINES_MAX: usize = 8;
/// The most marker words per 10,000 words, so that long lines hide none.
const PER_10000_WORDS_MAX: usize = 8;

/// Parts of the repository with more; each leaves this list when it is rewritten.
const NOT_YET: &[&str] = &[];

static MARKER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?xi)
        \b(who|whom|whose|whoever|nobody|somebody|anybody)\b
        | \bso\ (many|much|long|often)\b
        | \b(of|for|from|by|to|in)\ (which|whom)\b
        | \bwhat\ (is|was|are|were|has|had|can|may|they|it|he|others?)\ \b
        | \b(is|are|was|were)\ (said|told)\b";
    Regex::new(pattern).expect("the pattern is valid")
});

/// The size of a text and its marker words.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    lines: usize,
    words: usize,
    markers: usize,
}

impl Count {
    fn add(&mut self, line: &str) {
        self.lines += 1;
        self.words += line.split_whitespace().count();
        self.markers += MARKER.find_iter(line).count();
    }

    /// One marker is allowed in a text of any size.
    fn is_plain(self) -> bool {
        let by_lines = (self.lines * PER_1000_LINES_MAX).div_ceil(1_000);
        let by_words = (self.words * PER_10000_WORDS_MAX).div_ceil(10_000);
        self.markers <= by_lines.min(by_words)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, words, markers } = self;
        write!(f, "{markers} marker words in {lines} lines, {words} words")
    }
}

/// Reports each part of the repository with too many marker words: the comments of a crate, or
/// all documents.
///
/// # Errors
/// If the repository cannot be read.
pub fn violations() -> anyhow::Result<Vec<String>> {
    let root = step::root();
    let mut counts = BTreeMap::<String, Count>::new();
    for path in tidy::files(&root)? {
        let shown = path.strip_prefix(&root).unwrap_or(&path);
        let Some(part) = part(shown) else { continue };
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let count = counts.entry(part).or_default();
        prose(shown, &text).for_each(|line| count.add(line));
    }
    let found = counts
        .into_iter()
        .filter(|(part, count)| !count.is_plain() && !NOT_YET.contains(&part.as_str()));
    Ok(found.map(|(part, count)| format!("{part}: {count}")).collect())
}

/// The part of the repository that a file belongs to; `None` for files without prose.
fn part(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match (path.extension()?.to_str()?, &parts[..]) {
        ("md", _) => Some("documents".to_owned()),
        ("rs", ["crates", name, folder, ..]) => Some(format!("crates/{name}/{folder}")),
        ("rs", [first, ..]) => Some((*first).to_owned()),
        _ => None,
    }
}

/// The lines of a file that are prose: comments of a source, text outside code blocks of a
/// document.
fn prose<'t>(path: &Path, text: &'t str) -> impl Iterator<Item = &'t str> {
    let is_document = path.extension().is_some_and(|it| it == "md");
    let mut in_code = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if !is_document {
            return line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
        }
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        (!is_fence && !in_code).then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_plain() {
        let found = violations().expect("the repository can be read");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn counted(path: &str, text: &str) -> Count {
        let mut count = Count::default();
        prose(Path::new(path), text).for_each(|line| count.add(line));
        count
    }

    #[test]
    fn only_prose_is_counted() {
        let code = "//! Whose turn it is.\nlet nobody = 1;\n    // What is free, of which node.\n";
        assert_eq!(counted("a.rs", code), Count { lines: 2, words: 10, markers: 3 });
        let document = "so many\n```\nwhoever\n```\nis said\n";
        assert_eq!(counted("a.md", document), Count { lines: 2, words: 4, markers: 2 });
    }

    #[test]
    fn both_lines_and_words_bound_the_markers() {
        let is_plain = |lines, words, markers| Count { lines, words, markers }.is_plain();
        assert!(is_plain(1_000, 10_000, 8));
        assert!(!is_plain(1_000, 10_000, 9));
        assert!(!is_plain(100, 10_000, 2));
        assert!(!is_plain(10_000, 1_000, 2));
        assert!(is_plain(1, 1, 1));
    }

    #[test]
    fn each_file_belongs_to_a_part() {
        let of = |path| part(Path::new(path));
        assert_eq!(of("crates/sched/src/lib.rs").as_deref(), Some("crates/sched/src"));
        assert_eq!(of("xtask/src/main.rs").as_deref(), Some("xtask"));
        assert_eq!(of("docs/a.md").as_deref(), Some("documents"));
        assert_eq!(of("Cargo.toml"), None);
    }
}
