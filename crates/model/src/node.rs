//! One machine with an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceHealth};
use crate::displace::Displace;
use crate::id::{DeviceUuid, NodeName, PoolName};
use crate::label::Labels;
use crate::resource::{ResourceKind, Resources};
use crate::unit::Timestamp;

/// One machine as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: NodeName,
    /// The pool it is in.
    pub pool: PoolName,
    /// What admins say of it, for jobs that ask for it by that.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// What can be booked beside devices: cores, memory, tasks at once.
    pub capacity: Resources,
    /// Its devices in the driver's index order.
    pub devices: Vec<Device>,
    /// Devices that new allocations may use; `None` means all.
    pub allowed: Option<BTreeSet<DeviceUuid>>,
    /// Set while the whole node gets no new work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Devices that get no new work, by themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_drains: BTreeMap<DeviceUuid, Drain>,
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
    /// Whether new allocations may use a device; a MIG instance, if they may use what it is cut
    /// from.
    #[must_use]
    pub fn allows(&self, device: &DeviceUuid) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| {
            allowed.contains(device) || self.cut_from(device).is_some_and(|it| allowed.contains(it))
        })
    }

    /// The device from which a MIG instance is cut.
    fn cut_from(&self, instance: &DeviceUuid) -> Option<&DeviceUuid> {
        let parent = self.devices.iter().find(|it| it.uuid == *instance)?.instance.as_ref()?.parent;
        let device = self.devices.iter().find(|it| it.index == parent);
        device.map(|device| &device.uuid)
    }

    /// The MIG instances that are cut from a device.
    pub fn instances_of(&self, device: &DeviceUuid) -> impl Iterator<Item = &Device> {
        let parent = self.devices.iter().find(|it| it.uuid == *device).map(|it| it.index);
        let is_of = move |it: &&Device| it.instance.as_ref().map(|it| it.parent) == parent;
        self.devices.iter().filter(|it| it.instance.is_some()).filter(is_of)
    }

    /// Whether new work may start there at all.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.connected && self.drain.is_none()
    }

    /// Whether tasks can be stopped where they are, to go on later.
    #[must_use]
    pub fn can_pause(&self) -> bool {
        self.capacity.get(&ResourceKind::PauseMemory) > 0
    }

    /// How many tasks run there at once.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.capacity.get(&ResourceKind::Tasks)
    }

    /// How many tasks without GPUs run there at once; the node keeps the other slots for jobs with
    /// GPUs.
    #[must_use]
    pub fn plain_tasks(&self) -> u64 {
        self.part_of_tasks(&ResourceKind::PlainTasks)
    }

    /// How many tasks of one user the node counts for; users have the sum of all nodes.
    #[must_use]
    pub fn user_tasks(&self) -> u64 {
        self.part_of_tasks(&ResourceKind::UserTasks)
    }

    /// All of them where the node does not name the part.
    fn part_of_tasks(&self, kind: &ResourceKind) -> u64 {
        match self.capacity.get(kind) {
            0 => self.tasks(),
            part => part.min(self.tasks()),
        }
    }

    /// Whether an admin lets new work have a device: it is allowed, and nobody empties it.
    #[must_use]
    pub fn gives(&self, device: &DeviceUuid) -> bool {
        self.allows(device) && self.drain_of(device).is_none()
    }

    /// Whether a device may be given to work, whoever holds it now: it is healthy and whole,
    /// nobody uses it who was not given it, and no admin keeps it.
    #[must_use]
    pub fn may_give(&self, device: &Device) -> bool {
        device.health == DeviceHealth::Healthy
            && device.unmanaged.is_empty()
            && !device.is_divided()
            && self.gives(&device.uuid)
    }

    /// What keeps new work from a device because an admin empties it: the drain of the node, or
    /// else its own, or else that of the device from which it is cut.
    #[must_use]
    pub fn drain_of(&self, device: &DeviceUuid) -> Option<&Drain> {
        if self.drain.is_some() || self.device_drains.is_empty() {
            return self.drain.as_ref();
        }
        let of_parent = || self.device_drains.get(self.cut_from(device)?);
        self.device_drains.get(device).or_else(of_parent)
    }

    /// Every drain of the node and of its devices.
    pub fn drains(&self) -> impl Iterator<Item = &Drain> {
        self.drain.iter().chain(self.device_drains.values())
    }
}

/// A node or a device that is being emptied: no new work starts there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// When it is to be empty; `None` means whenever what runs has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Timestamp>,
    /// What becomes of work that still runs then.
    pub at_deadline: Displace,
    /// Why, for people.
    pub reason: Arc<str>,
    /// The admin who asked for it.
    pub who: Arc<str>,
    /// Since when.
    pub since: Timestamp,
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
