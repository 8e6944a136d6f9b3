//! Labels of nodes, and rules that ask for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::parse::ParseError;
use crate::pattern::ModelPattern;

/// The labels of a node by name; the value of a label that is only a name is empty.
pub type Labels = BTreeMap<String, String>;

/// Labels as they are written: `rack=3`, `ssd`.
#[must_use]
pub fn written(labels: &Labels) -> Vec<String> {
    let word = |(name, value): (&String, &String)| match value.is_empty() {
        true => name.clone(),
        false => format!("{name}={value}"),
    };
    labels.iter().map(word).collect()
}

const LENGTH_MAX: usize = 63;

/// Whether a label may be called so: at most 63 letters, digits and `._/-`, a letter or
/// digit first, no dash last, and not only digits.
#[must_use]
pub fn is_label(name: &str) -> bool {
    let may_follow = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    name.len() <= LENGTH_MAX
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.bytes().all(|byte| byte.is_ascii_digit())
        && name.bytes().all(may_follow)
        && !name.ends_with('-')
}

/// Whether a label may have that value: at most 63 letters, digits and `._/-:+`.
#[must_use]
pub fn is_value(value: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-:+".contains(&byte);
    value.len() <= LENGTH_MAX && value.bytes().all(may_be)
}

/// Changes to the labels of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LabelChange {
    /// Labels that it gets, or that get another value.
    pub set: Labels,
    /// Labels that it loses.
    pub remove: BTreeSet<String>,
}

impl LabelChange {
    const EXAMPLE: &str = "rack=3, ssd, or ssd- to take it away";

    /// Reads `rack=3` and `ssd`, which add a label, and `ssd-`, which removes it.
    ///
    /// # Errors
    /// The first that is none of these.
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

/// A rule for nodes: one of its terms must hold. Written `rack=3|rack=4`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeRule {
    // Invariant: not empty.
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Term {
    /// The label is there, or the node has GPUs of that model.
    Has(String),
    /// Neither is there.
    HasNot(String),
    /// The label is there with that value.
    Is(String, String),
    /// The label is not there, or has another value.
    IsNot(String, String),
}

impl NodeRule {
    const EXAMPLE: &str = "rack=3, rack!=3, ssd, !ssd or 'rack=3|rack=4'";

    /// Reads a rule.
    ///
    /// # Errors
    /// The position of the first term that is none.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut at = 0;
        let mut terms = Vec::new();
        for part in text.split('|') {
            let term = Term::parse(part);
            terms.push(term.ok_or_else(|| {
                ParseError::new("a rule for labels of nodes", text, at, Self::EXAMPLE)
            })?);
            at += part.len() + 1;
        }
        Ok(Self { terms })
    }

    /// Whether the rule holds of a node.
    #[must_use]
    pub fn allows(&self, node: &Node) -> bool {
        self.terms.iter().any(|term| term.holds(node))
    }
}

impl Term {
    fn parse(text: &str) -> Option<Self> {
        let label = |name: &str| is_label(name).then(|| name.to_owned());
        let value = |value: &str| is_value(value).then(|| value.to_owned());
        if let Some((name, is)) = text.split_once("!=") {
            return Some(Self::IsNot(label(name)?, value(is)?));
        }
        if let Some((name, is)) = text.split_once('=') {
            return Some(Self::Is(label(name)?, value(is)?));
        }
        match text.strip_prefix('!') {
            Some(name) => label(name).map(Self::HasNot),
            None => label(text).map(Self::Has),
        }
    }

    fn holds(&self, node: &Node) -> bool {
        let has = |name: &String| {
            let model = ModelPattern::new(name);
            node.labels.contains_key(name)
                || node.devices.iter().any(|device| model.matches(&device.model))
        };
        match self {
            Self::Has(name) => has(name),
            Self::HasNot(name) => !has(name),
            Self::Is(name, value) => node.labels.get(name) == Some(value),
            Self::IsNot(name, value) => node.labels.get(name) != Some(value),
        }
    }
}

impl fmt::Display for NodeRule {
    /// Writes the rule as it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, term) in self.terms.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { "|" })?;
            match term {
                Term::Has(name) => f.write_str(name)?,
                Term::HasNot(name) => write!(f, "!{name}")?,
                Term::Is(name, value) => write!(f, "{name}={value}")?,
                Term::IsNot(name, value) => write!(f, "{name}!={value}")?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for NodeRule {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<NodeRule> for String {
    fn from(rule: NodeRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written_back() {
        for text in ["rack=3", "rack!=3", "ssd", "!ssd", "rack=3|rack=4", "a100|h100", "x="] {
            assert_eq!(NodeRule::parse(text).expect(text).to_string(), text);
        }
        for (text, position) in [("", 0), ("3", 0), ("rack=3|4", 7), ("a=b c", 0), ("a-", 0)] {
            assert_eq!(NodeRule::parse(text).expect_err(text).position, position, "{text}");
        }
    }

    #[test]
    fn changes_add_replace_and_remove() {
        let before: Labels = [("rack", "3"), ("old", "")].map(|(a, b)| (a.into(), b.into())).into();
        let change = LabelChange::parse(["rack=4", "ssd", "old-", "none-"]).expect("labels");
        let after: Labels = [("rack", "4"), ("ssd", "")].map(|(a, b)| (a.into(), b.into())).into();
        assert_eq!(change.applied_to(&before), after);
        for word in ["", "=3", "-", "3=x", "a=b c"] {
            LabelChange::parse([word]).expect_err(word);
        }
    }
}
