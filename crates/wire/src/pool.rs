//! Pools in the API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::Node;

/// A pool, with totals over its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Name of the pool.
    pub name: String,
    /// Names of the nodes, sorted.
    pub nodes: Vec<String>,
    /// Number of nodes with a connected agent.
    pub n_connected: u32,
    /// Number of devices.
    pub n_gpus: u32,
    /// Number of free devices.
    pub n_gpus_free: u32,
}

impl Pool {
    /// Returns the pools of the nodes, by name.
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

/// A request to move nodes to a pool. Running jobs stay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveNodes {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Name of the pool. A pool that does not exist yet is created.
    pub pool: String,
}
