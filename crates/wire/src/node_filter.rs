//! Node filters of jobs, and labels of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::{LabelChange, NodeFilter, NodeName, NodeRule, Refusal, Topology, hostlist};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::check::invalid;
use crate::create::JobCreate;

/// Maximum number of rules of a job.
const RULES_MAX: usize = 64;

/// Changes to the labels of nodes. Running jobs are not affected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"nodes": ["lab[1-4]"], "labels": ["rack=3", "ssd", "old-"]}))]
pub struct LabelNodes {
    /// Names of nodes, or lists with ranges.
    pub nodes: Vec<String>,
    /// `rack=3` and `ssd` add a label or change its value, `ssd-` removes it.
    pub labels: Vec<String>,
}

impl LabelNodes {
    /// Checks each field separately.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field, the error, and a valid example.
    pub fn check(&self) -> Result<(Vec<NodeName>, LabelChange), Refusal> {
        let nodes = names("nodes", &self.nodes)?;
        if nodes.is_empty() || self.labels.is_empty() {
            return Err(invalid("labels", "give nodes and labels: lab1 rack=3"));
        }
        let change = LabelChange::parse(self.labels.iter().map(String::as_str));
        let change = change.map_err(|error| invalid("labels", &error.to_string()))?;
        Ok((nodes.into_iter().collect(), change))
    }
}

/// Returns the names in the lists, without duplicates.
pub(crate) fn names(field: &str, lists: &[String]) -> Result<BTreeSet<NodeName>, Refusal> {
    let mut names = BTreeSet::new();
    for list in lists {
        names.extend(hostlist::nodes(list).map_err(|error| invalid(field, &error.to_string()))?);
    }
    Ok(names)
}

fn rules(texts: &[String]) -> Result<BTreeSet<NodeRule>, Refusal> {
    if texts.len() > RULES_MAX {
        return Err(invalid("where", &format!("a job has at most {RULES_MAX} rules")));
    }
    let rule =
        |text: &String| NodeRule::parse(text).map_err(|error| invalid("where", &error.to_string()));
    texts.iter().map(rule).collect()
}

impl JobCreate {
    fn topology(&self) -> Result<Option<Topology>, Refusal> {
        let parse = |text: &String| {
            Topology::parse(text).map_err(|error| invalid("topology", &error.to_string()))
        };
        self.topology.as_ref().map(parse).transpose()
    }

    /// Returns the node filter; `None` if the job may use every node.
    pub(crate) fn node_filter(&self) -> Result<Option<Arc<NodeFilter>>, Refusal> {
        let filter = NodeFilter {
            include: names("node", &self.node)?,
            exclude: names("not_node", &self.not_node)?,
            rules: rules(&self.rules)?,
            topology: self.topology()?,
            exclusive: self.exclusive,
        };
        Ok(filter.unless_default())
    }
}
