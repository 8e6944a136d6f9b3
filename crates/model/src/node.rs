//! One machine with an agent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::id::{DeviceUuid, NodeName, PoolName};
use crate::resource::Resources;

/// One machine as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: NodeName,
    /// The pool it is in.
    pub pool: PoolName,
    /// What can be booked beside devices: cores, memory, tasks at once.
    pub capacity: Resources,
    /// Its devices in the driver's index order.
    pub devices: Vec<Device>,
    /// Devices that new allocations may use; `None` means all.
    pub allowed: Option<BTreeSet<DeviceUuid>>,
    /// The run of the kernel that the agent reported last.
    pub boot_id: String,
    /// The run of the kernel in which the agent last said what it has: tasks that were ordered
    /// before are of that run, and did not outlive it. Empty in a state that was restored and has
    /// not heard from the agent.
    pub settled_boot_id: String,
    /// Whether its agent has said what it has since this server loaded its state.
    pub connected: bool,
    /// What its agent says of itself and its machine.
    pub facts: NodeFacts,
}

impl Node {
    /// Whether new allocations may use a device.
    #[must_use]
    pub fn allows(&self, device: &DeviceUuid) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(device))
    }
}

/// What an agent says of itself and its machine; for people, never scheduled on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Version of the agent.
    pub version: String,
    /// Where the devices come from: `nvml 570.124`, `simulated`, or why there are none.
    pub devices_from: String,
    /// Operating system, for people.
    pub system: String,
}
