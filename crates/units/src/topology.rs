//! What the nodes of a gang have in common: one value of a label, such as one switch.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::label::is_label;
use crate::parse::ParseError;

/// Begins the names of labels that agents find.
pub const FOUND_PREFIX: &str = "gpool/";

/// A label that must, or should, have one value on all nodes of a gang. Written `same-switch`
/// or `prefer same-switch`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Topology {
    /// `switch` is the label `gpool/switch` of a node, or `switch` if it has no such label.
    pub name: String,
    /// Whether the gang waits for such nodes; otherwise it takes others if these are not free.
    pub is_required: bool,
}

impl Topology {
    const EXAMPLE: &str = "same-switch, same-rack, same-nvlink, same-LABEL, or 'prefer same-rack'";

    /// Reads `same-LABEL`, `prefer same-LABEL` or `prefer-same-LABEL`.
    ///
    /// # Errors
    /// The position of the malformed part.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let bad = |position| ParseError::new("a topology", text, position, Self::EXAMPLE);
        let preferred = text.strip_prefix("prefer").and_then(|rest| rest.strip_prefix([' ', '-']));
        let rest = preferred.unwrap_or(text);
        let at = text.len() - rest.len();
        let name = rest.strip_prefix("same-").ok_or_else(|| bad(at))?;
        if !is_label(name) {
            return Err(bad(at + "same-".len()));
        }
        Ok(Self { name: name.to_owned(), is_required: preferred.is_none() })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefer = if self.is_required { "" } else { "prefer " };
        write!(f, "{prefer}same-{}", self.name)
    }
}

impl TryFrom<String> for Topology {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<Topology> for String {
    fn from(topology: Topology) -> Self {
        topology.to_string()
    }
}
