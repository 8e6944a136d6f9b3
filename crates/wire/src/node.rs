//! A node as the API shows it.

use gpool_model::resource::ResourceKind;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::reservation::{Drain, ReservedHere};

/// One machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The pool it is in.
    pub pool: String,
    /// Its labels, as they are written: `rack=3`, `ssd`.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Whether its agent answers.
    pub connected: bool,
    /// Version of its agent.
    pub version: String,
    /// Its operating system.
    pub system: String,
    /// Where its devices come from, or why there are none.
    pub devices_from: String,
    /// Set while it gets no new work.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// How many of its devices get no new work, by themselves.
    #[serde(default)]
    pub n_gpus_drained: u32,
    /// Reservations and maintenance windows that keep it or devices of it, now or later.
    #[serde(default)]
    pub reservations: Vec<ReservedHere>,
    /// How many devices it has.
    pub n_gpus: u32,
    /// How many of them are free.
    pub n_gpus_free: u32,
    /// CPU cores that can be booked.
    pub cpus: f64,
    /// CPU cores that are booked.
    pub cpus_used: f64,
    /// Bytes of host memory that can be booked.
    pub memory: u64,
    /// Bytes of host memory that are booked.
    pub memory_used: u64,
    /// Tasks that may run at once.
    pub tasks: u64,
    /// Tasks that run.
    pub tasks_used: u64,
}

/// What of a node's devices and capacity is in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InUse {
    /// Devices that are free.
    pub n_gpus_free: u32,
    /// What running tasks have booked together.
    pub booked: gpool_model::Resources,
    /// See [`Node::reservations`].
    pub reservations: Vec<ReservedHere>,
}

impl Node {
    /// What is shown of a node.
    #[must_use]
    pub fn new(node: &gpool_model::Node, in_use: &InUse) -> Self {
        // What is divided is given out as its instances.
        let given = node.devices.iter().filter(|device| !device.is_divided());
        Self {
            name: node.name.to_string(),
            pool: node.pool.to_string(),
            labels: gpool_model::label::written(&node.labels),
            connected: node.connected,
            version: node.facts.version.clone(),
            system: node.facts.system.clone(),
            devices_from: node.facts.devices_from.clone(),
            drain: node.drain.as_ref().map(Drain::from),
            n_gpus_drained: u32::try_from(node.device_drains.len()).unwrap_or(u32::MAX),
            reservations: in_use.reservations.clone(),
            n_gpus: u32::try_from(given.count()).unwrap_or(u32::MAX),
            n_gpus_free: in_use.n_gpus_free,
            cpus: cores(node.capacity.get(&ResourceKind::Cpu)),
            cpus_used: cores(in_use.booked.get(&ResourceKind::Cpu)),
            memory: node.capacity.get(&ResourceKind::Memory),
            memory_used: in_use.booked.get(&ResourceKind::Memory),
            tasks: node.capacity.get(&ResourceKind::Tasks),
            tasks_used: in_use.booked.get(&ResourceKind::Tasks),
        }
    }
}

/// Thousandths of cores as cores, or of devices as devices.
#[must_use]
pub fn cores(millis: u64) -> f64 {
    // Four million cores on one machine are not in sight.
    f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0
}
