//! Checks of the documents: their links are valid, the code map names every crate and existing
//! files, and the index of decisions names every decision.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::{step, tidy};

/// All faults, one a line.
///
/// # Errors
/// If the repository cannot be read.
pub fn violations() -> anyhow::Result<Vec<String>> {
    let root = step::root();
    let mut found = link_violations(&root)?;
    for folder in step::CRATES {
        found.extend(unnamed(&root.join(folder), &root.join("ARCHITECTURE.md"), "")?);
    }
    found.extend(map_violations(&root)?);
    let records = root.join("docs/developing/adr");
    found.extend(unnamed(&records, &records.join("README.md"), "README.md")?);
    Ok(found)
}

/// Links to missing files and headings.
fn link_violations(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for path in tidy::files(root)? {
        if path.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let folder = path.parent().context("a file lies in a folder")?;
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        for (target, heading) in targets(&text) {
            let file = if target.is_empty() { path.clone() } else { folder.join(target) };
            if !file.exists() {
                found.push(format!("{shown}: the link to {target} leads nowhere"));
            } else if let Some(heading) = heading.filter(|_| file.extension() == path.extension())
                && !headings(&fs::read_to_string(&file)?).any(|it| it == heading)
            {
                found.push(format!("{shown}: {target} has no heading #{heading}"));
            }
        }
    }
    Ok(found)
}

/// The files that a document links to, empty for itself, each with the anchor of a heading if the
/// link has one.
fn targets(text: &str) -> Vec<(&str, Option<&str>)> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .map(|target| match target.split_once('#') {
            Some((file, heading)) => (file, Some(heading)),
            None => (target, None),
        })
        .collect()
}

/// The anchors of a document's headings: lower case, dashes for spaces, other marks left out.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let letters = title.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        letters.map(|it| if it == ' ' { '-' } else { it }).collect()
    })
}

/// Missing files in the code map.
fn map_violations(root: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).context("reading the code map")?;
    let missing = entry_points(&text)
        .into_iter()
        .filter(|(name, file)| {
            let is_in = |folder| root.join(folder).join(name).join("src").join(file).exists();
            !step::CRATES.into_iter().any(is_in)
        })
        .map(|(name, file)| format!("ARCHITECTURE.md: crate {name} has no {file}"));
    Ok(missing.collect())
}

/// Crates and files from rows such as "| `model` | the words | `job.rs`, `event.rs` |".
fn entry_points(map: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for row in map.lines() {
        let Some((name, rest)) = row.strip_prefix("| `").and_then(|it| it.split_once('`')) else {
            continue;
        };
        let files = rest.split('`').filter(|word| word.ends_with(".rs"));
        found.extend(files.map(|file| (name, file)));
    }
    found
}

/// Entries of a folder that a document does not name.
fn unnamed(folder: &Path, document: &Path, except: &str) -> anyhow::Result<Vec<String>> {
    let text =
        fs::read_to_string(document).with_context(|| format!("reading {}", document.display()))?;
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != except && !names(&text, &name) {
            found.push(format!("{}: does not name {name}", document.display()));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a text contains a name as code or as the target of a link.
fn names(text: &str, name: &str) -> bool {
    text.contains(&format!("`{name}`")) || text.contains(&format!("]({name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_match_the_folders() {
        let found = violations().expect("the repository can be read");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn links_inside_the_repository_are_followed() {
        let text = "[a](b.md) [c](https://example.org/d) [e](#f) [g](h/i.md#j)";
        assert_eq!(targets(text), [("b.md", None), ("", Some("f")), ("h/i.md", Some("j"))]);
    }

    #[test]
    fn a_link_to_a_heading_names_it_in_its_own_way() {
        let found: Vec<String> =
            headings("# Silent and lost\ntext\n## `--exits`: how?\n").collect();
        assert_eq!(found, ["silent-and-lost", "--exits-how"]);
    }

    #[test]
    fn the_code_map_is_read_by_row() {
        let map = "| crate | what |\n| `a` | it | `b.rs`, `c.rs` |\nsee `d.rs`\n| `e` | it |\n";
        assert_eq!(entry_points(map), [("a", "b.rs"), ("a", "c.rs")]);
        let text = fs::read_to_string(step::root().join("ARCHITECTURE.md")).expect("readable");
        assert!(entry_points(&text).contains(&("model", "plan.rs")));
    }

    #[test]
    fn broken_links_and_unnamed_files_are_reported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        fs::create_dir(path.join("things")).expect("a folder");
        fs::write(path.join("things/one"), "").expect("a file");
        fs::write(path.join("things/two"), "").expect("a file");
        fs::write(path.join("list.md"), "`one` and [here](gone.md)\n").expect("a file");
        assert_eq!(
            link_violations(path).expect("readable"),
            ["list.md: the link to gone.md leads nowhere"]
        );
        let found = unnamed(&path.join("things"), &path.join("list.md"), "").expect("readable");
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("does not name two"), "{found:?}");
    }
}
