//! Which nodes a job may use, beside the pool that it names.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::NodeName;
use crate::label::NodeRule;
use crate::life::is_false;
use crate::node::Node;

/// Which nodes a job may use. The default allows every node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFilter {
    /// Only these; empty means any.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub include: BTreeSet<NodeName>,
    /// None of these.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<NodeName>,
    /// Only nodes that satisfy all of these.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub rules: BTreeSet<NodeRule>,
    /// Only nodes on which no other job runs, and no other job starts there while it runs.
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive: bool,
}

impl NodeFilter {
    /// What still holds while the job is paused where it is.
    #[must_use]
    pub fn while_paused(nodes: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let exclusive = nodes.is_some_and(|nodes| nodes.exclusive);
        Self { exclusive, ..Self::default() }.kept()
    }

    /// The filter as jobs keep it: nothing where every node will do.
    #[must_use]
    pub fn kept(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }

    /// Whether a node is one of those that the job may use.
    #[must_use]
    pub fn allows(&self, node: &Node) -> bool {
        (self.include.is_empty() || self.include.contains(&node.name))
            && !self.exclude.contains(&node.name)
            && self.rules.iter().all(|rule| rule.allows(node))
    }

    /// Whether there are nodes that it does not allow.
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
    /// Writes the flags that ask for it: `--node lab1,lab2 --where rack=3`.
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
        if self.exclusive {
            flags.push("--exclusive".to_owned());
        }
        f.pad(&flags.join(" "))
    }
}
