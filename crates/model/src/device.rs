//! What is known of one GPU, or of a MIG instance of one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{DeviceUuid, TaskId};
use crate::unit::{Bytes, MilliGpu, Timestamp};

/// One physical GPU, or one MIG instance, as its node's agent sees it: what it is (which a driver
/// restart at most renumbers), how it is, and who uses it without having been given it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The driver's index, of an instance [`Instance::index`]; the order in which devices are
    /// listed and, by default, given out.
    pub index: u32,
    /// What the driver calls it, for ever.
    pub uuid: DeviceUuid,
    /// As the driver writes it: `NVIDIA A100-SXM4-80GB`.
    pub model: String,
    /// All memory of the device, the driver's own reserve included.
    pub memory: Bytes,
    /// `00000000:01:00.0`; empty where there is no bus (simulated).
    pub pci_bus: String,
    /// The number in `/dev/nvidiaN`; absent for simulated devices.
    pub minor: Option<u32>,
    /// The NUMA node whose memory is nearest, where the machine has several.
    pub numa: Option<u32>,
    /// How near other devices of the node are; a device that is not named is [`Link::System`].
    pub links: BTreeMap<DeviceUuid, Link>,
    /// MIG mode; `None` where the device has no MIG.
    pub mig: Option<Mig>,
    /// What it is cut from, if it is a MIG instance. Most are not, and carry no room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Box<Instance>>,
    /// Whether it can be trusted with work.
    pub health: DeviceHealth,
    /// Compute processes on it that belong to no allocation of ours, by pid.
    pub unmanaged: Vec<DeviceProcess>,
    /// Compute processes on it that belong to an allocation of ours which does not have it, by
    /// pid: a job that uses more than it was given.
    #[serde(default)]
    pub strays: Vec<DeviceProcess>,
    /// Tasks of ours that use more memory of it than their share, by task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overshoots: Vec<Overshoot>,
    /// Whether the driver says how much memory each process uses, so that an overshoot would be
    /// seen; not known before a process of ours was seen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tells_memory: Option<bool>,
}

/// A task that uses more of a device than it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overshoot {
    /// Which task.
    pub task: TaskId,
    /// What it was given.
    pub booked: Bytes,
    /// What its processes use together, when it was last said.
    pub used: Bytes,
}

impl Device {
    /// What it counts as, given out whole.
    #[must_use]
    pub fn counts_as(&self) -> MilliGpu {
        self.instance.as_ref().map_or(MilliGpu::DEVICE, |instance| instance.counts_as(self.memory))
    }

    /// Whether it is in MIG mode, and so is used through its instances alone.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        self.mig.is_some_and(|mig| mig.enabled)
    }
}

/// MIG mode of a device that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// Whether the mode is on; then the device is usable only through its instances, which are
    /// devices of their own.
    pub enabled: bool,
}

/// What a MIG instance is cut from, and how large a cut it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The index of the device.
    pub parent: u32,
    /// All memory of that device.
    pub parent_memory: Bytes,
    /// Compute slices of the instance, of [`Instance::SLICES`].
    pub compute_slices: u32,
}

impl Instance {
    /// Into how many compute slices the driver cuts a device. It cuts some small ones into four;
    /// of these an instance is counted by its memory, which is the larger part.
    ///
    /// Source: NVIDIA Multi-Instance GPU user guide, "Supported MIG profiles".
    pub const SLICES: u32 = 7;

    /// Indexes of instances begin here, and each device has so many of its own.
    const INDEXES: u32 = 1000;

    /// Of a node with more devices the index of one might be that of an instance.
    pub const DEVICES_MOST: usize = Self::INDEXES as usize;

    /// The index of the instance that is at a place of a device: it stays as it is when another
    /// device is divided anew, and is no device's of a node with [`Instance::DEVICES_MOST`].
    #[must_use]
    pub const fn index(parent: u32, place: u32) -> u32 {
        parent.saturating_add(1).saturating_mul(Self::INDEXES).saturating_add(place)
    }

    /// What an instance with so much memory counts as: its part of the device's compute slices or
    /// of its memory, whichever is the larger, rounded down so that equal parts of a device never
    /// come to more than one.
    #[must_use]
    pub fn counts_as(&self, memory: Bytes) -> MilliGpu {
        let part = |of: u64, all: u64| {
            u128::from(of) * u128::from(MilliGpu::DEVICE.get()) / u128::from(all.max(1))
        };
        let compute = part(self.compute_slices.into(), Self::SLICES.into());
        let memory = part(memory.get(), self.parent_memory.get());
        let counts = compute.max(memory).clamp(1, MilliGpu::DEVICE.get().into());
        MilliGpu::new(u64::try_from(counts).unwrap_or(MilliGpu::DEVICE.get()))
    }
}

/// How near two devices are, worst first, so that `max` prefers the faster way.
///
/// Source: `nvmlDeviceGetTopologyCommonAncestor`, and NVLink state, in the NVML manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Across CPU sockets.
    System,
    /// Within one NUMA node, across host bridges.
    Numa,
    /// Through one PCIe host bridge.
    HostBridge,
    /// Through PCIe switches.
    Switch,
    /// By that many NVLinks.
    NvLink(u32),
}

/// Whether a device can be trusted with work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum DeviceHealth {
    /// It answers and reports no fault.
    Healthy,
    /// It reports a fault that new work must not meet (an Xid, uncorrectable memory).
    Unhealthy {
        /// What it reported, for people.
        why: String,
    },
    /// The driver says that it is gone from the bus.
    Lost,
    /// The driver did not answer in time; nothing is known.
    Unknown {
        /// What was asked, for people.
        why: String,
    },
}

/// A compute process that the driver lists on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProcess {
    /// Its process id on the node.
    pub pid: u32,
    /// Who owns it, if that could be found.
    pub user: Option<String>,
    /// The name of its program, if that could be found.
    pub name: Option<String>,
    /// Memory it uses on the device, where the driver says.
    pub memory: Option<Bytes>,
    /// When it was first seen there by this agent.
    pub seen_since: Timestamp,
}

/// What a device is doing, in one word; derived, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    /// Nobody has it and it can be given out.
    Free,
    /// A job has it.
    Busy,
    /// A job has it and does nothing with it.
    HeldIdle,
    /// Processes that gpool did not start use it.
    Unmanaged,
    /// An admin keeps it from new work.
    Drained,
    /// It is divided into MIG instances, which are given out in its place.
    Divided,
    /// It reports a fault.
    Unhealthy,
    /// It is gone from the bus.
    Lost,
    /// The driver does not answer.
    Unknown,
}

/// What a device does at one moment; sampled, never scheduled on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Memory in use.
    pub memory_used: Option<Bytes>,
    /// Memory free.
    pub memory_free: Option<Bytes>,
    /// Per cent of the last sample period in which a kernel ran.
    pub utilization_percent: Option<u32>,
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Milliwatts drawn.
    pub power_mw: Option<u64>,
}
