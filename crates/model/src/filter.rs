//! The nodes that a job may use, in addition to its pool.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::NodeName;
use crate::label::{is_label, is_value};
use crate::node::Node;
use crate::parse::ParseError;
use crate::pattern::ModelPattern;
use crate::rare::is_false;
use crate::topology::Topology;

/// The nodes that a job may use. The default allows every node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFilter {
    /// Only these nodes; empty means any.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub include: BTreeSet<NodeName>,
    /// Never these nodes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<NodeName>,
    /// Only nodes that satisfy all of these.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub rules: BTreeSet<NodeRule>,
    /// What the nodes of a gang have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Only nodes without other jobs; no other job starts there while it runs.
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive: bool,
}

impl NodeFilter {
    /// The part of the filter that still applies while the job is paused.
    #[must_use]
    pub fn while_paused(nodes: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let exclusive = nodes.is_some_and(|nodes| nodes.exclusive);
        Self { exclusive, ..Self::default() }.unless_default()
    }

    /// The filter as jobs store it: `None` if it allows every node.
    #[must_use]
    pub fn unless_default(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }

    /// Whether the job may use the node.
    #[must_use]
    pub fn allows(&self, node: &Node) -> bool {
        (self.include.is_empty() || self.include.contains(&node.name))
            && !self.exclude.contains(&node.name)
            && self.rules.iter().all(|rule| rule.allows(node))
    }

    /// Whether it excludes any node.
    #[must_use]
    pub fn chooses(&self) -> bool {
        !(self.include.is_empty() && self.exclude.is_empty() && self.rules.is_empty())
    }

    /// The nodes that it names.
    pub fn named(&self) -> impl Iterator<Item = &NodeName> {
        self.include.iter().chain(&self.exclude)
    }
}

impl fmt::Display for NodeFilter {
    /// Writes the flags that set it: `--node lab1,lab2 --where rack=3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &BTreeSet<NodeName>| {
            names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(",")
        };
        let mut flags = Vec::new();
        if !self.include.is_empty() {
            flags.push(format!("--node {}", names(&self.include)));
        }
        if !self.exclude.is_empty() {
            flags.push(format!("--not-node {}", names(&self.exclude)));
        }
        flags.extend(self.rules.iter().map(|rule| {
            let rule = rule.to_string();
            if rule.contains(['|', '!']) {
                format!("--where '{rule}'")
            } else {
                format!("--where {rule}")
            }
        }));
        flags.extend(self.topology.iter().map(|topology| match topology.is_required {
            true => format!("--topology {topology}"),
            false => format!("--topology '{topology}'"),
        }));
        if self.exclusive {
            flags.push("--exclusive".to_owned());
        }
        f.pad(&flags.join(" "))
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
    /// The label exists, or the node has GPUs of that model.
    Has(String),
    /// Neither exists.
    HasNot(String),
    /// The label has this value.
    Is(String, String),
    /// The label does not exist or has another value.
    IsNot(String, String),
}

impl NodeRule {
    const EXAMPLE: &str = "rack=3, rack!=3, ssd, !ssd or 'rack=3|rack=4'";

    /// Reads a rule.
    ///
    /// # Errors
    /// The position of the first malformed term.
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

    /// Whether a node satisfies the rule.
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
            node.label(name).is_some()
                || node.devices.iter().any(|device| model.matches(&device.model))
        };
        match self {
            Self::Has(name) => has(name),
            Self::HasNot(name) => !has(name),
            Self::Is(name, value) => node.label(name) == Some(value),
            Self::IsNot(name, value) => node.label(name) != Some(value),
        }
    }
}

impl fmt::Display for NodeRule {
    /// Writes the rule in the syntax that [`Self::parse`] reads.
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
