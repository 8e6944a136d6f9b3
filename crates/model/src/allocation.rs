//! The node and slots that a task has or has claimed.

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::id::{DeviceUuid, NodeName, TaskId};
use crate::resource::{ResourceKind, Resources};
use crate::unit::{Bytes, MilliGpu, Timestamp};

/// The node and slots that a task has or has claimed. Identified by its task; its generation is the
/// job's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The task that it belongs to.
    pub task: TaskId,
    /// The node.
    pub node: NodeName,
    /// Its parts of devices, by device index.
    pub slots: Vec<Slot>,
    /// All resources that it books on the node, slots included.
    pub resources: Resources,
    /// Its state: claimed, placed, running, …
    pub state: AllocationState,
}

impl Allocation {
    /// The parts of devices that it books; none once its task was paused.
    #[must_use]
    pub fn held_slots(&self) -> &[Slot] {
        match self.resources.get(&ResourceKind::Gpu) {
            0 => &[],
            _ => &self.slots,
        }
    }

    /// How many of the slots for tasks without GPUs it takes on its node.
    #[must_use]
    pub fn plain_tasks(&self) -> u64 {
        if self.slots.is_empty() { self.resources.get(&ResourceKind::Tasks) } else { 0 }
    }

    /// The amount of [`ResourceKind::Node`] that it takes: nothing once its task was paused.
    #[must_use]
    pub fn of_node(&self) -> u64 {
        if self.is_paused() { 0 } else { self.resources.of_node() }
    }

    /// Whether its task is about to end or to be paused.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, AllocationState::Releasing { .. } | AllocationState::Pausing)
    }

    /// Whether its task is about to be paused.
    #[must_use]
    pub fn is_pausing(&self) -> bool {
        matches!(self.state, AllocationState::Pausing)
    }

    /// Whether its task is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.state, AllocationState::Paused { .. })
    }
}

/// The model and memory of a device: the driver restores memory on devices of one kind only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceKind {
    /// The model.
    pub model: String,
    /// Its memory.
    pub memory: Bytes,
}

impl DeviceKind {
    /// Returns the kind of a device.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        Self { model: device.model.clone(), memory: device.memory }
    }
}

/// A part of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The device's index when it was assigned; for people.
    pub index: u32,
    /// The device.
    pub device: DeviceUuid,
    /// The part of it.
    pub part: SlotPart,
}

/// The part of a device that a slot takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotPart {
    /// The whole device, exclusively.
    Whole,
    /// A whole MIG instance, exclusively.
    Instance {
        /// The part of the parent device that is charged.
        charge: MilliGpu,
    },
    /// A fraction, beside other tasks.
    Share {
        /// The part of the device that is charged. For a fraction by memory it is rounded up, so
        /// the charges of a device may add up to a little more than one.
        charge: MilliGpu,
        /// The device memory that is booked; only this decides whether a fraction fits.
        memory: Bytes,
        /// The most device memory that the task may use while the device has room.
        limit: Bytes,
    },
}

impl SlotPart {
    /// Returns the part that is all of a device or of an instance.
    #[must_use]
    pub fn all_of(device: &Device) -> Self {
        match &device.instance {
            None => Self::Whole,
            Some(_) => Self::Instance { charge: device.counts_as() },
        }
    }

    /// Whether the slot excludes other tasks from the device.
    #[must_use]
    pub fn is_alone(self) -> bool {
        match self {
            Self::Whole | Self::Instance { .. } => true,
            Self::Share { .. } => false,
        }
    }

    /// The part of a device that is charged.
    #[must_use]
    pub fn charge(self) -> MilliGpu {
        match self {
            Self::Whole => MilliGpu::DEVICE,
            Self::Instance { charge } | Self::Share { charge, .. } => charge,
        }
    }

    /// The memory booked on a device of the given size.
    #[must_use]
    pub fn memory_of(self, device: Bytes) -> Bytes {
        match self {
            Self::Whole | Self::Instance { .. } => device,
            Self::Share { memory, .. } => memory,
        }
    }

    /// The most memory that the task may use on a device of the given size.
    #[must_use]
    pub fn limit_of(self, device: Bytes) -> Bytes {
        match self {
            Self::Whole | Self::Instance { .. } => device,
            Self::Share { limit, .. } => limit,
        }
    }
}

/// The state of an allocation. Claims outlive the cycle that made them: devices that a victim
/// vacates belong to the job that they are vacated for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocationState {
    /// Waits until the victims have left these slots.
    Claimed {
        /// The tasks that it waits for.
        after: Vec<TaskId>,
    },
    /// The task may start, or is starting.
    Placed,
    /// The task runs.
    Running,
    /// The task is about to be paused. Its devices and cores become free; its host memory stays
    /// booked.
    Pausing,
    /// The task is paused and holds host memory only.
    Paused {
        /// The host memory that its GPU memory takes, in addition to its own.
        host_bytes: Bytes,
        /// The devices that it was paused on, by slot, if others are booked for it now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        home: Vec<DeviceUuid>,
        /// The kinds of the devices that it was paused on, by slot: a device may be gone since.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kinds: Vec<DeviceKind>,
    },
    /// The task was asked to end.
    Releasing {
        /// The time at which it is killed.
        deadline: Timestamp,
    },
}
