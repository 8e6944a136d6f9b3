//! Labels of nodes and changes to them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::parse::ParseError;

/// The labels of a node by name; a label without a value has an empty one.
pub type Labels = BTreeMap<String, String>;

/// Labels as users write them: `rack=3`, `ssd`.
#[must_use]
pub fn texts(labels: &Labels) -> Vec<String> {
    let word = |(name, value): (&String, &String)| match value.is_empty() {
        true => name.clone(),
        false => format!("{name}={value}"),
    };
    labels.iter().map(word).collect()
}

/// The most characters of a label's value.
pub const VALUE_LENGTH_MAX: usize = LENGTH_MAX;

const LENGTH_MAX: usize = 63;

/// Whether this is a valid label name: at most 63 letters, digits and `._/-`, the first a letter or
/// digit, no dash at the end, and not only digits.
#[must_use]
pub fn is_label(name: &str) -> bool {
    let may_follow = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    name.len() <= LENGTH_MAX
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.bytes().all(|byte| byte.is_ascii_digit())
        && name.bytes().all(may_follow)
        && !name.ends_with('-')
}

/// Whether this is a valid label value: at most 63 letters, digits and `._/-:+`.
#[must_use]
pub fn is_value(value: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-:+".contains(&byte);
    value.len() <= LENGTH_MAX && value.bytes().all(may_be)
}

/// Changes to the labels of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LabelChange {
    /// Labels to add or to give another value.
    pub set: Labels,
    /// Labels to remove.
    pub remove: BTreeSet<String>,
}

impl LabelChange {
    const EXAMPLE: &str = "rack=3, ssd, or ssd- to remove it";

    /// Reads `rack=3` and `ssd`, which add a label, and `ssd-`, which removes it.
    ///
    /// # Errors
    /// The first malformed word.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, ParseError> {
        let mut change = Self::default();
        for word in words {
            let bad = |position| ParseError::new("a label", word, position, Self::EXAMPLE);
            if let Some(name) = word.strip_suffix('-').filter(|name| is_label(name)) {
                change.remove.insert(name.to_owned());
                continue;
            }
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if !is_label(name) {
                return Err(bad(0));
            }
            if !is_value(value) {
                return Err(bad(name.len() + 1));
            }
            change.set.insert(name.to_owned(), value.to_owned());
        }
        Ok(change)
    }

    /// The labels after the change.
    #[must_use]
    pub fn applied_to(&self, labels: &Labels) -> Labels {
        let kept = labels.iter().filter(|(name, _)| !self.remove.contains(*name));
        let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
        kept.chain(self.set.clone()).collect()
    }
}
