//! Counts marker words of hard prose in comments and documents ([`crate::markers`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::markers::Count;
use crate::{step, tidy};

/// Parts of the repository with more; each leaves this list when it is rewritten.
const NOT_YET: &[&str] = &[];

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
        ("rs", [crates, name, folder, ..]) if step::CRATES.contains(crates) => {
            Some(format!("{crates}/{name}/{folder}"))
        }
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

    fn count_of(path: &str, text: &str) -> Count {
        let mut count = Count::default();
        prose(Path::new(path), text).for_each(|line| count.add(line));
        count
    }

    #[test]
    fn only_prose_counts() {
        let code = "//! Whose turn it is.\nlet nobody = 1;\n    // What is free, of which node.\n";
        assert_eq!(count_of("a.rs", code), Count { lines: 2, words: 10, markers: 3 });
        let document = "so many\n```\nwhoever\n```\nis said\n";
        assert_eq!(count_of("a.md", document), Count { lines: 2, words: 4, markers: 2 });
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
