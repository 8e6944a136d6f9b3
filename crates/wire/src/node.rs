//! Nodes in the API.

use gpool_model::resource::ResourceKind;

pub use gpool_texts::words::cores;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::reservation::{Drain, ReservedHere};
use crate::time::Time;

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Pool of the node.
    pub pool: String,
    /// Labels of the node: `rack=3`, `ssd`. The agent finds `gpool/switch`, `gpool/rack` and
    /// `gpool/nvlink`, where an admin did not set them.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Whether the node's agent answers the server.
    pub connected: bool,
    /// Membership of the node: `joining` (the agent has not reported its tasks since the server
    /// started), `connected`, `silent` (no message for 15 seconds: no new jobs) or `lost` (silent
    /// until its jobs with `on_node_lost` set to `requeue` or `end` have ended).
    #[serde(default)]
    pub membership: String,
    /// Since when the agent has been silent, if it was heard in this run of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Time>,
    /// Version of the agent.
    pub version: String,
    /// Time of the last message of an agent on another machine than the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<Time>,
    /// How far the clock of such a machine is ahead of the server's, in milliseconds. The time that
    /// the agent's message took is subtracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
    /// CPU time of that agent, in percent of one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_cpu_percent: Option<f64>,
    /// Memory of that agent in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_memory: Option<u64>,
    /// Why the server refuses the agent: their versions are too far apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_refusal: Option<String>,
    /// Operating system.
    pub system: String,
    /// Engine that runs containers there, if any: `podman 5.4.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_engine: Option<String>,
    /// Missing parts of that engine, with the remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_remarks: Vec<String>,
    /// Name or IP address of the node for other machines, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Source of the devices, or the reason why there are none.
    pub devices_from: String,
    /// The drain of the node, if any. A drained node gets no new jobs.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Number of individually drained devices.
    #[serde(default)]
    pub n_gpus_drained: u32,
    /// Current and future reservations and maintenance windows of the node and its devices.
    #[serde(default)]
    pub reservations: Vec<ReservedHere>,
    /// Number of devices.
    pub n_gpus: u32,
    /// Number of free devices.
    pub n_gpus_free: u32,
    /// Number of devices without a job that are excluded from new jobs (`gpu_not_allowed`).
    #[serde(default)]
    pub n_gpus_closed: u32,
    /// CPU cores that jobs can reserve.
    pub cpus: f64,
    /// Reserved CPU cores.
    pub cpus_used: f64,
    /// Host memory that jobs can reserve, in bytes.
    pub memory: u64,
    /// Reserved host memory in bytes.
    pub memory_used: u64,
    /// Maximum number of running tasks.
    pub tasks: u64,
    /// Number of running tasks.
    pub tasks_used: u64,
}

/// Used devices and capacity of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InUse {
    /// Number of free devices.
    pub n_gpus_free: u32,
    /// See [`Node::n_gpus_closed`].
    pub n_gpus_closed: u32,
    /// Total host resources of the running tasks.
    pub booked: gpool_model::Resources,
    /// See [`Node::reservations`].
    pub reservations: Vec<ReservedHere>,
}

impl Node {
    /// Returns a node for the API.
    #[must_use]
    pub fn new(node: &gpool_model::Node, in_use: &InUse) -> Self {
        // Jobs get the instances of a divided device, and never the device.
        let given = node.devices.iter().filter(|device| !device.is_divided());
        Self {
            name: node.name.to_string(),
            pool: node.pool.to_string(),
            labels: gpool_model::label::texts(&node.all_labels()),
            connected: node.is_reachable(),
            membership: node.membership().as_str().to_owned(),
            silent_since: node.silent_since().map(Time),
            version: node.facts.version.clone(),
            last_message_at: None,
            clock_offset_ms: None,
            agent_cpu_percent: None,
            agent_memory: None,
            agent_refusal: None,
            system: node.facts.system.clone(),
            container_engine: node.facts.engine.as_ref().map(ToString::to_string),
            container_remarks: container_remarks(node),
            address: Some(node.facts.address.clone()).filter(|address| !address.is_empty()),
            devices_from: node.facts.devices_from.clone(),
            drain: node.drain.as_ref().map(Drain::from),
            n_gpus_drained: u32::try_from(node.device_drains.len()).unwrap_or(u32::MAX),
            reservations: in_use.reservations.clone(),
            n_gpus: u32::try_from(given.count()).unwrap_or(u32::MAX),
            n_gpus_free: in_use.n_gpus_free,
            n_gpus_closed: in_use.n_gpus_closed,
            cpus: cores(node.capacity.get(&ResourceKind::Cpu)),
            cpus_used: cores(in_use.booked.get(&ResourceKind::Cpu)),
            memory: node.capacity.get(&ResourceKind::Memory),
            memory_used: in_use.booked.get(&ResourceKind::Memory),
            tasks: node.capacity.get(&ResourceKind::Tasks),
            tasks_used: in_use.booked.get(&ResourceKind::Tasks),
        }
    }
}

/// Missing parts of a node's engine, or why it can't be used.
fn container_remarks(node: &gpool_model::Node) -> Vec<String> {
    let fault = Some(&node.facts.engine_fault).filter(|it| !it.is_empty());
    node.facts.engine.iter().flat_map(|it| &it.remarks).chain(fault).cloned().collect()
}
