//! Pools as the API shows them: which nodes are together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::Node;

/// A pool, with what its nodes have together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its nodes, by name.
    pub nodes: Vec<String>,
    /// How many of them have an agent that answers.
    pub n_connected: u32,
    /// How many devices they have.
    pub n_gpus: u32,
    /// How many of those are free.
    pub n_gpus_free: u32,
}

impl Pool {
    /// The pools that nodes are in, by name.
    #[must_use]
    pub fn of(nodes: &[Node]) -> Vec<Self> {
        let mut pools: BTreeMap<&str, Self> = BTreeMap::new();
        for node in nodes {
            let pool = pools.entry(&node.pool).or_default();
            node.pool.clone_into(&mut pool.name);
            pool.nodes.push(node.name.clone());
            pool.n_connected += u32::from(node.connected);
            pool.n_gpus = pool.n_gpus.saturating_add(node.n_gpus);
            pool.n_gpus_free = pool.n_gpus_free.saturating_add(node.n_gpus_free);
        }
        pools.into_values().collect()
    }
}

/// Puts nodes into a pool; what runs there stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveNodes {
    /// Which nodes, by name.
    pub nodes: Vec<String>,
    /// Where to; one that no node was in is begun by it.
    pub pool: String,
}
