//! A machine with an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::container::Engine;
use crate::device::{Device, DeviceHealth, Guest};
use crate::displace::Displace;
use crate::id::{DeviceUuid, NodeName, PoolName, TaskId};
use crate::label::Labels;
use crate::lease::Silence;
use crate::resource::{ResourceKind, Resources};
use crate::topology::{FOUND_PREFIX, Topology};
use crate::unit::Timestamp;

/// The labels that agents find: the switches that their machine is connected to.
pub const SWITCH_LABEL: &str = "gpool/switch";
/// The location of the machine.
pub const RACK_LABEL: &str = "gpool/rack";
/// The NVLink domain of its GPUs, which reach those of other machines there by NVLink.
pub const NVLINK_LABEL: &str = "gpool/nvlink";

/// A machine as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: NodeName,
    /// The pool it is in.
    pub pool: PoolName,
    /// The labels that admins gave it. [`Self::label`] also knows those that its agent found.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// CPU, memory and tasks that jobs can book on it.
    pub capacity: Resources,
    /// Its devices in the driver's index order.
    pub devices: Vec<Device>,
    /// Devices that new allocations may use; `None` means all.
    pub allowed: Option<BTreeSet<DeviceUuid>>,
    /// Set while the whole node is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Drains of single devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_drains: BTreeMap<DeviceUuid, Drain>,
    /// The run of the kernel that the agent last reported.
    pub boot_id: String,
    /// The run of the kernel during the agent's last report of its tasks: older orders are of that
    /// run, and their tasks did not outlive it. Empty in a restored state until the agent reports.
    pub settled_boot_id: String,
    /// Whether its agent has reported its tasks since this server loaded its state.
    pub connected: bool,
    /// The silence of its agent, if that is longer than an agent may be silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    /// Details that its agent reports about itself and its machine.
    pub facts: NodeFacts,
}

impl Node {
    /// A node with these devices, that no agent has reported and no admin has changed.
    #[must_use]
    pub fn new(name: NodeName, pool: PoolName, capacity: Resources, devices: Vec<Device>) -> Self {
        Self {
            name,
            pool,
            labels: Labels::new(),
            capacity,
            devices,
            allowed: None,
            drain: None,
            device_drains: BTreeMap::new(),
            boot_id: String::new(),
            settled_boot_id: String::new(),
            connected: false,
            silence: None,
            facts: NodeFacts::default(),
        }
    }

    /// The value of a label that jobs can require: an admin's, else the one that its agent found.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).or_else(|| self.facts.found_labels.get(name)).map(String::as_str)
    }

    /// The value that nodes of a gang have in common with it; `None` if it has no such label.
    #[must_use]
    pub fn topology_value(&self, Topology { name, .. }: &Topology) -> Option<&str> {
        self.label(&format!("{FOUND_PREFIX}{name}")).or_else(|| self.label(name))
    }

    /// Every label that [`Self::label`] knows.
    #[must_use]
    pub fn all_labels(&self) -> Labels {
        let mut labels = self.facts.found_labels.clone();
        labels.extend(self.labels.clone());
        labels
    }

    /// Whether new allocations may use a device; for a MIG instance, whether they may use its
    /// parent.
    #[must_use]
    pub fn allows(&self, device: &DeviceUuid) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| {
            allowed.contains(device) || self.cut_from(device).is_some_and(|it| allowed.contains(it))
        })
    }

    /// The parent device of a MIG instance.
    fn cut_from(&self, instance: &DeviceUuid) -> Option<&DeviceUuid> {
        let parent = self.devices.iter().find(|it| it.uuid == *instance)?.instance.as_ref()?.parent;
        let device = self.devices.iter().find(|it| it.index == parent);
        device.map(|device| &device.uuid)
    }

    /// The MIG instances of a device.
    pub fn instances_of(&self, device: &DeviceUuid) -> impl Iterator<Item = &Device> {
        let parent = self.devices.iter().find(|it| it.uuid == *device).map(|it| it.index);
        let is_of = move |it: &&Device| it.instance.as_ref().map(|it| it.parent) == parent;
        self.devices.iter().filter(|it| it.instance.is_some()).filter(is_of)
    }

    /// Whether its agent answers this server.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.membership() == Membership::Connected
    }

    /// Its place in the cluster.
    #[must_use]
    pub fn membership(&self) -> Membership {
        match self.silence {
            Some(Silence { is_lost: true, .. }) => Membership::Lost,
            Some(_) => Membership::Silent,
            None if self.connected => Membership::Connected,
            None => Membership::Joining,
        }
    }

    /// Since when its agent is silent.
    #[must_use]
    pub fn silent_since(&self) -> Option<Timestamp> {
        self.silence.map(|silence| silence.since)
    }

    /// Whether new jobs may start there.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.is_reachable() && self.drain.is_none()
    }

    /// Whether tasks can be paused there.
    #[must_use]
    pub fn can_pause(&self) -> bool {
        self.capacity.get(&ResourceKind::PauseMemory) > 0
    }

    /// Since when a task of the node has not used its devices, if it counts as idle.
    #[must_use]
    pub fn idle_since(&self, task: TaskId) -> Option<Timestamp> {
        self.facts.idle.iter().find(|idle| idle.task == task).map(|idle| idle.since)
    }

    /// The device that a task uses in place of the one that it booked; `None` if it uses the booked
    /// one.
    #[must_use]
    pub fn guest_place(&self, task: TaskId, booked: &DeviceUuid) -> Option<&Device> {
        let is_it = |guest: &Guest| guest.task == task && guest.booked == *booked;
        self.devices.iter().find(|device| device.guests.iter().any(is_it))
    }

    /// Why a task of the node that should run is still paused there.
    #[must_use]
    pub fn stalled(&self, task: TaskId) -> Option<&str> {
        self.facts.stalled.iter().find(|it| it.task == task).map(|it| it.why.as_str())
    }

    /// The most tasks that run there at once.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.capacity.get(&ResourceKind::Tasks)
    }

    /// The most tasks without GPUs that run there at once; the remaining slots are for tasks with
    /// GPUs.
    #[must_use]
    pub fn plain_tasks(&self) -> u64 {
        self.part_of_tasks(&ResourceKind::PlainTasks)
    }

    /// How much the node adds to the most tasks of one user, which is the sum over all nodes.
    #[must_use]
    pub fn user_tasks(&self) -> u64 {
        self.part_of_tasks(&ResourceKind::UserTasks)
    }

    /// This part of the task slots; all of them if the node does not set the part.
    fn part_of_tasks(&self, kind: &ResourceKind) -> u64 {
        match self.capacity.get(kind) {
            0 => self.tasks(),
            part => part.min(self.tasks()),
        }
    }

    /// Whether new jobs may use a device: it is allowed and not drained.
    #[must_use]
    pub fn gives(&self, device: &DeviceUuid) -> bool {
        self.allows(device) && self.drain_of(device).is_none()
    }

    /// Whether a device may be allocated once it is free: it is healthy, undivided, unused by
    /// processes outside gpool and by jobs that can't leave it, allowed and not drained.
    #[must_use]
    pub fn may_give(&self, device: &Device) -> bool {
        device.health == DeviceHealth::Healthy
            && device.unmanaged.is_empty()
            && !device.has_stuck_guest()
            && !device.is_divided()
            && self.gives(&device.uuid)
    }

    /// Why a device is out of service: it is not listed, faulty, not allowed or drained.
    #[must_use]
    pub fn out_of_service(&self, uuid: &DeviceUuid) -> Option<String> {
        let Some(device) = self.devices.iter().find(|device| device.uuid == *uuid) else {
            return Some("the driver no longer lists it".to_owned());
        };
        let excluded = || (!self.allows(uuid)).then(|| "an admin excludes it from jobs".to_owned());
        let drained = || Some(format!("it is drained: {}", self.drain_of(uuid)?.reason));
        device.health.fault().or_else(excluded).or_else(drained)
    }

    /// The drain that applies to a device: that of the node, else its own, else that of its parent
    /// device.
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

/// The place of a node in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Membership {
    /// Its agent has not reported its tasks to this server yet.
    Joining,
    /// Its agent answers.
    Connected,
    /// Its agent has been silent for longer than it may be. It gets no new jobs, and its running
    /// jobs go on.
    Silent,
    /// Its agent has been silent until its lease was over.
    Lost,
    /// It has no record any more.
    Removed,
}

impl Membership {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Connected => "connected",
            Self::Silent => "silent",
            Self::Lost => "lost",
            Self::Removed => "removed",
        }
    }
}

/// A drain of a node or device: no new job starts there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// When it must be empty; `None` waits for the running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Timestamp>,
    /// What happens to jobs that still run then.
    pub at_deadline: Displace,
    /// The reason, for people.
    pub reason: Arc<str>,
    /// The admin that asked for it.
    pub who: Arc<str>,
    /// The time at which this began.
    pub since: Timestamp,
}

/// Details that an agent reports about itself and its machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Version of the agent.
    pub version: String,
    /// The source of the devices: `nvml 570.124`, `simulated`, or why there are none.
    pub devices_from: String,
    /// Operating system, for people.
    pub system: String,
    /// Labels that the agent found.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub found_labels: Labels,
    /// What runs containers there; `None` if nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Why the engine that an admin chose can't be used; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine_fault: String,
    /// The images that it pulls, or could not pull.
    #[serde(default, skip_serializing_if = "ImagePulls::is_usual")]
    pub images: ImagePulls,
    /// The name or IP address of the node for other machines; empty if none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Running tasks that have not used their devices for the time after which their job counts as
    /// idle, by task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleTask>,
    /// Paused tasks that should run and can't be restored yet, by task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalled: Vec<StalledTask>,
    /// Tasks with released devices that need them again, by task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returning: Vec<TaskId>,
    /// Whether paused tasks can resume on other devices of the node.
    #[serde(default)]
    pub remap: Remap,
    /// Whether the node moves running shares to other devices.
    #[serde(default)]
    pub moves: Remap,
}

/// The images that a node pulls, or could not pull.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImagePulls {
    /// How far each image is, in the words of the engine.
    pub running: BTreeMap<String, String>,
    /// Why an image could not be pulled at the last try.
    pub failed: BTreeMap<String, String>,
    /// How many pulls have ended in this run of the agent.
    pub n_ended: u64,
}

impl ImagePulls {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing differs but how far they are.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.n_ended == other.n_ended
            && self.failed == other.failed
            && self.running.keys().eq(other.running.keys())
    }
}

/// Whether tasks can come to other devices of their node and model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remap {
    /// They can.
    Yes,
    /// They can't.
    No {
        /// The reason, for people.
        why: Box<str>,
    },
}

impl Default for Remap {
    fn default() -> Self {
        Self::No { why: "the node does not move the memory of paused jobs".into() }
    }
}

/// A paused task that should run, and waits for device memory on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StalledTask {
    /// The task.
    pub task: TaskId,
    /// What it waits for, for people: the rest of a sentence that begins with "waits: ".
    pub why: String,
}

/// A task that does not use its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleTask {
    /// The task.
    pub task: TaskId,
    /// Since when it has used none of them.
    pub since: Timestamp,
    /// Whether its GPU calls go through a gate, so that its devices can be released.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_gate: bool,
}
