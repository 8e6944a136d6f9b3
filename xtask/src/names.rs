//! Counts unclear names, and names that several types share.
//!
//! A definition is unclear if its last word is a bare participle or pronoun (`asked`): it does not
//! name the thing. Predicates (`is_known`) and names that end in a noun (`known_jobs`) are clear.
//! A few unclear names are right, such as a serialized field that users know.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context;
use regex::Regex;

use crate::{step, tidy};

/// The most unclear names per 1,000 definitions.
const PER_1000_MAX: usize = 3;
/// The most types that may share one name.
const TYPES_OF_ONE_NAME_MAX: usize = 3;
/// The most names that more types share.
const SHARED_NAMES_MAX: usize = 10;

const UNCLEAR: &[&str] = &[
    "asked", "told", "said", "kept", "given", "known", "shown", "taken", "meant", "left", "put",
    "got", "gone", "made", "seen", "heard", "whom", "whose", "beside", "wanted", "due", "chosen",
    "counted", "offered", "promised", "owed", "spared", "lent", "noted", "mended", "joined",
    "learnt", "thought", "written",
];

/// First words of predicates.
const PREDICATES: &[&str] =
    &["is", "was", "has", "are", "were", "be", "to", "not", "can", "may", "so", "n"];

static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?x)^\s*(?:pub(?:\([a-z:\ ]+\))?\s+)?
        (?:async\s+|const\s+|unsafe\s+|extern\s+"C"\s+)*
        (fn|struct|enum|trait|type|const|static|mod)\s+([A-Za-z_]\w*)"#,
    )
});
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s+(?:pub(?:\([a-z: ]+\))?\s+)?([a-z_][a-z0-9_]*):\s+[A-Z&\[(<a-z]")
});
static VARIANT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^    ([A-Z][A-Za-z0-9]*)(?:\s*[({,]|$)"));
static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Z]?[a-z0-9]+|[A-Z]+"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// The definitions of the product.
#[derive(Debug, Default)]
struct Names {
    n_definitions: usize,
    /// Unclear ones, with their place.
    unclear: Vec<String>,
    /// The number of types of each name.
    types: BTreeMap<String, usize>,
}

/// Reports unclear names and names of too many types, if there are more than allowed.
///
/// # Errors
/// If the repository cannot be read.
pub fn violations() -> anyhow::Result<Vec<String>> {
    let root = step::root();
    let mut names = Names::default();
    for path in tidy::files(&root)? {
        let file = path.strip_prefix(&root).unwrap_or(&path);
        if is_source(file) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            names.add(file, &text);
        }
    }
    Ok(names.violations())
}

/// Whether a file is a source of the product or of the developer commands.
fn is_source(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_rust = path.extension().is_some_and(|it| it == "rs");
    is_rust && matches!(parts[..], ["crates", _, "src" | "front", ..] | ["xtask", "src", ..])
}

impl Names {
    fn add(&mut self, file: &Path, text: &str) {
        for (ix, line) in text.lines().enumerate() {
            let Some((is_type, name)) = definition(line) else { continue };
            self.n_definitions += 1;
            if is_type {
                *self.types.entry(name.to_owned()).or_default() += 1;
            }
            if is_unclear(name) {
                self.unclear.push(format!("{}:{}: {name}", file.display(), ix + 1));
            }
        }
    }

    fn violations(self) -> Vec<String> {
        let mut found = Vec::new();
        if self.unclear.len() * 1000 > self.n_definitions * PER_1000_MAX {
            found.push(format!(
                "{} of {} definitions end in a participle or pronoun, more than {PER_1000_MAX} in \
                 1,000; name what the thing is",
                self.unclear.len(),
                self.n_definitions
            ));
            found.extend(self.unclear);
        }
        let shared = self.types.into_iter().filter(|(_, n)| *n > TYPES_OF_ONE_NAME_MAX);
        let shared: Vec<String> = shared.map(|(name, n)| format!("{name} ({n})")).collect();
        if shared.len() > SHARED_NAMES_MAX {
            found.push(format!(
                "{} names stand for many types: {}",
                shared.len(),
                shared.join(", ")
            ));
        }
        found
    }
}

/// The name that a line defines, and whether it is that of a type.
fn definition(line: &str) -> Option<(bool, &str)> {
    if let Some(found) = ITEM.captures(line) {
        let is_type = matches!(&found[1], "struct" | "enum" | "trait");
        return Some((is_type, found.get(2)?.as_str()));
    }
    let found = FIELD.captures(line).or_else(|| VARIANT.captures(line))?;
    Some((false, found.get(1)?.as_str()))
}

fn is_unclear(name: &str) -> bool {
    let words: Vec<String> = WORD.find_iter(name).map(|it| it.as_str().to_lowercase()).collect();
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return false };
    !PREDICATES.contains(&first.as_str()) && UNCLEAR.contains(&last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_has_clear_names() {
        let found = violations().expect("the repository can be read");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn names(text: &str) -> Names {
        let mut names = Names::default();
        names.add(Path::new("crates/a/src/lib.rs"), text);
        names
    }

    #[test]
    fn definitions_that_end_in_a_participle_are_unclear() {
        let text = "pub struct Asked {\n    pub kept: u32,\n    kept_jobs: u32,\n    \
                    is_known: bool,\n}\npub(crate) fn what_is_left() {}\nenum Kind {\n    \
                    BeingTaken(u32),\n}\n";
        let names = names(text);
        assert_eq!(names.n_definitions, 7);
        let places: Vec<&str> =
            names.unclear.iter().filter_map(|it| it.rsplit(' ').next()).collect();
        assert_eq!(places, ["Asked", "kept", "what_is_left", "BeingTaken"]);
        assert_eq!(names.violations().len(), 5);
    }

    #[test]
    fn names_of_many_types_are_found() {
        let types: String = (0..11)
            .flat_map(|ix| vec![format!("struct T{}x;\n", char::from(b'a' + ix)); 4])
            .collect();
        assert_eq!(names(&types).violations().len(), 1);
        assert!(names("struct Page;\nstruct Page;\nstruct Page;\n").violations().is_empty());
    }

    #[test]
    fn tests_and_their_tools_are_left_out() {
        assert!(is_source(Path::new("crates/model/src/job.rs")));
        assert!(!is_source(Path::new("crates/model/tests/it/job.rs")));
        assert!(!is_source(Path::new("testing/sim/src/lib.rs")));
    }
}
