//! Flags that say which nodes a job may use.

use clap::Args;
use gpool_wire::JobCreate;

use super::job_flags::joined;
use super::values;

/// Which nodes a job may use.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct NodeFlags {
    /// Only on these nodes: lab1,lab2 or node[1-4,7]
    #[arg(long, value_name = "NODES", value_parser = values::node_list)]
    pub node: Vec<String>,
    /// Not on these nodes
    #[arg(long, value_name = "NODES", value_parser = values::node_list)]
    pub not_node: Vec<String>,
    /// Only on nodes with a label: rack=3, rack!=3, ssd, 'rack=3|rack=4'; a GPU model is a label
    #[arg(long = "where", value_name = "RULE", value_parser = values::node_rule)]
    pub rules: Vec<String>,
    /// Only on nodes without other jobs, and none starts there while it runs
    #[arg(long)]
    pub exclusive: bool,
}

impl NodeFlags {
    /// A job that asks for these nodes, and for nothing else yet.
    #[must_use]
    pub fn asked(self) -> JobCreate {
        let Self { node, not_node, rules, exclusive } = self;
        JobCreate { node, not_node, rules, exclusive, ..JobCreate::default() }
    }

    /// Takes the nodes of `other` where none are given here, and joins all else.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            node: if self.node.is_empty() { other.node } else { self.node },
            not_node: joined(other.not_node, self.not_node),
            rules: joined(other.rules, self.rules),
            exclusive: self.exclusive || other.exclusive,
        }
    }
}
