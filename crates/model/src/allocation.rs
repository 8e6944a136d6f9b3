//! What one task holds, or will hold, on its node.

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::id::{DeviceUuid, NodeName, TaskId};
use crate::resource::{ResourceKind, Resources};
use crate::unit::{Bytes, MilliGpu, Timestamp};

/// What one task holds or has claimed. Known by its task; its generation is the job's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Whose it is.
    pub task: TaskId,
    /// Where.
    pub node: NodeName,
    /// Parts of devices, by device index.
    pub slots: Vec<Slot>,
    /// All that it books on the node, slots included.
    pub resources: Resources,
    /// How firmly it is held.
    pub state: AllocationState,
}

impl Allocation {
    /// The parts of devices that it books: none of them once its task was paused.
    #[must_use]
    pub fn held_slots(&self) -> &[Slot] {
        match self.resources.get(&ResourceKind::Gpu) {
            0 => &[],
            _ => &self.slots,
        }
    }

    /// How many task slots it takes of those that tasks without GPUs may have.
    #[must_use]
    pub fn plain_tasks(&self) -> u64 {
        if self.slots.is_empty() { self.resources.get(&ResourceKind::Tasks) } else { 0 }
    }

    /// How much of its node it takes: nothing once its task was paused.
    #[must_use]
    pub fn of_node(&self) -> u64 {
        if self.is_paused() { 0 } else { self.resources.of_node() }
    }

    /// Whether its task is stopped where it is.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.state, AllocationState::Paused { .. })
    }
}

/// A part of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The device's index when it was assigned; for people.
    pub index: u32,
    /// Which device.
    pub device: DeviceUuid,
    /// Which part of it.
    pub part: SlotPart,
}

/// Which part of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotPart {
    /// All of it, alone.
    Whole,
    /// All of a MIG instance, alone.
    Instance {
        /// What part of the device that it is cut from is charged.
        charge: MilliGpu,
    },
    /// A share, beside others.
    Share {
        /// What part of the device is charged; for a share by memory rounded up, so the charges
        /// of a device may add up to a little more than one.
        charge: MilliGpu,
        /// How much of its memory; what fits is asked in this alone.
        memory: Bytes,
    },
}

impl SlotPart {
    /// All of a device, or of an instance.
    #[must_use]
    pub fn all_of(device: &Device) -> Self {
        match &device.instance {
            None => Self::Whole,
            Some(_) => Self::Instance { charge: device.counts_as() },
        }
    }

    /// Whether nobody else has any of it.
    #[must_use]
    pub fn is_alone(self) -> bool {
        match self {
            Self::Whole | Self::Instance { .. } => true,
            Self::Share { .. } => false,
        }
    }

    /// How much of a device is charged.
    #[must_use]
    pub fn charge(self) -> MilliGpu {
        match self {
            Self::Whole => MilliGpu::DEVICE,
            Self::Instance { charge } | Self::Share { charge, .. } => charge,
        }
    }

    /// How much memory of a device of that size is booked.
    #[must_use]
    pub fn memory_of(self, device: Bytes) -> Bytes {
        match self {
            Self::Whole | Self::Instance { .. } => device,
            Self::Share { memory, .. } => memory,
        }
    }
}

/// How firmly an allocation is held. Claims outlive the cycle that made them: what is being
/// vacated belongs to whoever it was vacated for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum AllocationState {
    /// Waits for everyone who is still leaving these slots.
    Claimed {
        /// Whom it waits for.
        after: Vec<TaskId>,
    },
    /// The task may start, or is starting.
    Placed,
    /// The task runs.
    Running,
    /// The task was told to stop where it is. Its devices and cores will be free; its host memory
    /// stays.
    Pausing,
    /// The task is stopped where it is, and holds host memory only.
    Paused {
        /// How much host memory its GPU memory takes, beside its own.
        host_bytes: Bytes,
    },
    /// The task was told to leave.
    Releasing {
        /// When it is killed.
        deadline: Timestamp,
    },
}
