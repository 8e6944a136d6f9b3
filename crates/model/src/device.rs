//! The description of one GPU, or of a MIG instance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::enforcement::{Enforced, Enforcement};
use crate::id::{DeviceUuid, TaskId};
use crate::mig_layout::MigSize;
use crate::unit::{Bytes, MilliGpu, Timestamp};

/// One physical GPU or MIG instance, as its node's agent sees it: its properties (a driver restart
/// at most renumbers it), its health, and the processes that use it without an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The driver's index, or [`Instance::index`] of an instance. Devices are listed and, by
    /// default, allocated in this order.
    pub index: u32,
    /// The driver's name for it; never changes.
    pub uuid: DeviceUuid,
    /// The driver's model name: `NVIDIA A100-SXM4-80GB`.
    pub model: String,
    /// All memory of the device, the driver's own reserve included.
    pub memory: Bytes,
    /// `00000000:01:00.0`; empty where there is no bus (simulated).
    pub pci_bus: String,
    /// The number in `/dev/nvidiaN`; absent for simulated devices.
    pub minor: Option<u32>,
    /// The nearest NUMA node, on machines with several.
    pub numa: Option<u32>,
    /// How near other devices of the node are; [`Link::System`] for devices that are not listed.
    pub links: BTreeMap<DeviceUuid, Link>,
    /// MIG mode; `None` where the device has no MIG.
    pub mig: Option<Mig>,
    /// The parent device, if this is a MIG instance. Boxed because most devices are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Box<Instance>>,
    /// Whether jobs may use it.
    pub health: DeviceHealth,
    /// Compute processes on it that belong to no allocation of gpool, by pid.
    pub unmanaged: Vec<DeviceProcess>,
    /// Compute processes on it that belong to a gpool allocation without this device, by pid: a job
    /// that uses more devices than it was given.
    #[serde(default)]
    pub strays: Vec<DeviceProcess>,
    /// Tasks that use more of its memory than their limit, by task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overshoots: Vec<Overshoot>,
    /// Tasks that are on it although they booked another device, by task. They leave when a job
    /// gets the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<Guest>,
    /// Whether the driver reports the memory of each process, so that the agent would notice an
    /// overshoot; unknown until a process of gpool ran there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tells_memory: Option<bool>,
    /// The enforcement of what jobs were given on it.
    #[serde(default, skip_serializing_if = "Enforced::is_unknown")]
    pub enforced: Enforced,
    /// Tasks that damaged the file in which their processes count their memory, by task. Only the
    /// driver's figures show their use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<TaskId>,
    /// How often it has reported each Xid since its agent started, by number. Empty for a MIG
    /// instance: the driver reports them for the parent device.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub xids: BTreeMap<u64, u64>,
}

/// A task on a device that it did not book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// The task.
    pub task: TaskId,
    /// The device of the same node that it booked.
    pub booked: DeviceUuid,
    /// Whether it could not leave when it had to, so that no job can get the device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stuck: bool,
}

/// A task that uses more memory of a device than its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overshoot {
    /// The task.
    pub task: TaskId,
    /// The most memory that it may use now.
    pub limit: Bytes,
    /// The memory that its processes used together, in the last sample.
    pub used: Bytes,
    /// The number of samples in succession that showed it, at most [`Self::SAMPLES`].
    #[serde(default)]
    pub n_samples: u32,
}

impl Overshoot {
    /// The samples after which it is no passing moment, such as a loan that is being given back.
    pub const SAMPLES: u32 = 3;

    /// Whether enough samples showed it for the policy to act.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.n_samples >= Self::SAMPLES
    }
}

impl Device {
    /// A healthy device without processes. Everything else is unknown.
    #[must_use]
    pub fn new(index: u32, uuid: DeviceUuid, model: String, memory: Bytes) -> Self {
        Self {
            index,
            uuid,
            model,
            memory,
            pci_bus: String::new(),
            minor: None,
            numa: None,
            links: BTreeMap::new(),
            mig: None,
            instance: None,
            health: DeviceHealth::Healthy,
            unmanaged: Vec::new(),
            strays: Vec::new(),
            overshoots: Vec::new(),
            guests: Vec::new(),
            tells_memory: None,
            enforced: Enforced::default(),
            damaged: Vec::new(),
            xids: BTreeMap::new(),
        }
    }

    /// Its index, or that of its parent device if it is a MIG instance.
    #[must_use]
    pub fn gpu_index(&self) -> u32 {
        self.instance.as_ref().map_or(self.index, |instance| instance.parent)
    }

    /// The charge of the whole device.
    #[must_use]
    pub fn counts_as(&self) -> MilliGpu {
        self.instance.as_ref().map_or(MilliGpu::DEVICE, |instance| instance.counts_as(self.memory))
    }

    /// Whether every request gives both devices the same rank.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        let levels = |it: &Self| [false, true].map(|is_share| it.enforcement(is_share));
        (&self.model, self.memory, self.instance.is_some(), levels(self))
            == (&other.model, other.memory, other.instance.is_some(), levels(other))
    }

    /// The enforcement for a job with a fraction of it, or with all of it. The hardware caps the
    /// memory of a MIG instance.
    #[must_use]
    pub fn enforcement(&self, is_share: bool) -> Enforcement {
        match (&self.instance, is_share) {
            (Some(_), _) => self.enforced.whole.max(Enforcement::Capped),
            (None, false) => self.enforced.whole,
            // The driver lists processes but not their memory.
            (None, true) if self.tells_memory == Some(false) => match self.enforced.share {
                Enforcement::Monitored => Enforcement::Booked,
                level => level,
            },
            (None, true) => self.enforced.share,
        }
    }

    /// Whether a task is on it that booked another device, and can't leave.
    #[must_use]
    pub fn has_stuck_guest(&self) -> bool {
        self.guests.iter().any(|guest| guest.is_stuck)
    }

    /// Whether MIG mode is on, so that only its instances are usable.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        self.mig.as_ref().is_some_and(|mig| mig.enabled)
    }
}

/// MIG mode of a device that has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// Whether the mode is on; then only its instances are usable, which are devices of their own.
    pub enabled: bool,
    /// The sizes of instances that the device can have while the mode is on; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<MigSize>,
}

/// The parent device and the size of a MIG instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The index of the parent device.
    pub parent: u32,
    /// All memory of the parent device.
    pub parent_memory: Bytes,
    /// Compute slices of the instance, out of [`Instance::SLICES`].
    pub compute_slices: u32,
    /// The device nodes that a program needs beside the parent's; `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<InstanceNodes>,
}

/// The nodes `/dev/nvidia-caps/nvidia-capN` of a MIG instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceNodes {
    /// Their major number.
    pub major: u32,
    /// The minor number of the GPU instance.
    pub gpu_instance: u32,
    /// The minor number of its compute instance.
    pub compute_instance: u32,
}

impl Instance {
    /// The number of compute slices of a device. The driver cuts some small devices into four;
    /// their instances are charged by memory, which is the larger part.
    ///
    /// Source: NVIDIA Multi-Instance GPU user guide, "Supported MIG profiles".
    pub const SLICES: u32 = 7;

    /// The first index of an instance, and the number of indexes that each device has for
    /// instances.
    const INDEXES: u32 = 1000;

    /// A place that no instance has.
    pub const PLACES: u32 = Self::INDEXES - 1;

    /// The most devices of a node; with more, the index of a device could equal that of an
    /// instance.
    pub const DEVICES_MOST: usize = Self::INDEXES as usize;

    /// The index of the instance at a place of a device. It does not change when another device is
    /// divided again, and no device of a node with at most [`Instance::DEVICES_MOST`] devices has
    /// it.
    #[must_use]
    pub const fn index(parent: u32, place: u32) -> u32 {
        parent.saturating_add(1).saturating_mul(Self::INDEXES).saturating_add(place)
    }

    /// The charge of an instance with this memory: its part of the device's compute slices or of
    /// its memory, whichever is larger. Rounded down so that equal parts of a device never add up
    /// to more than one.
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

/// How near two devices are, worst first, so that `max` returns the faster link.
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
    /// Through this number of NVLinks.
    NvLink(u32),
}

/// Whether jobs may use a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceHealth {
    /// It answers and reports no fault.
    Healthy,
    /// It reports a fault that makes it unusable for new jobs (an Xid, uncorrectable memory).
    Unhealthy {
        /// The fault, for people.
        why: String,
    },
    /// The driver reports that it is gone from the bus.
    Lost,
    /// The driver did not answer in time; its state is unknown.
    Unknown {
        /// The query without an answer, for people.
        why: String,
    },
}

impl DeviceHealth {
    /// The fault, for people; `None` if it is healthy.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Healthy => None,
            Self::Unhealthy { why } | Self::Unknown { why } => Some(why.clone()),
            Self::Lost => Some("it has fallen off the bus".to_owned()),
        }
    }
}

/// A compute process that the driver lists on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProcess {
    /// Its process id on the node.
    pub pid: u32,
    /// Its user, if known.
    pub user: Option<String>,
    /// The name of its program, if known.
    pub name: Option<String>,
    /// The memory that it uses on the device, if the driver reports it.
    pub memory: Option<Bytes>,
    /// When this agent first saw it there.
    pub seen_since: Timestamp,
}

/// The state of a device in one word; derived, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    /// It can be allocated.
    Free,
    /// A job uses it.
    Busy,
    /// It is allocated, and none of its jobs uses it.
    HeldIdle,
    /// Processes that gpool did not start use it.
    Unmanaged,
    /// An admin has excluded it from new jobs.
    NotAllowed,
    /// An admin has drained it.
    Drained,
    /// It is divided into MIG instances, which are allocated in its place.
    Divided,
    /// It reports a fault.
    Unhealthy,
    /// It is gone from the bus.
    Lost,
    /// The driver does not answer.
    Unknown,
}

/// What tasks with a fraction of a device use of it: memory above their requests, and compute. The
/// scheduler does not read it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lending {
    /// By task.
    pub loans: Vec<Loan>,
    /// Guarantees that were not met in their time since the agent started.
    pub n_late: u64,
    /// Percentage of the last sample period in which kernels of a task ran, by task; only of tasks
    /// with a fraction, where the driver reports it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub compute_percent: BTreeMap<TaskId, u32>,
}

/// Memory that a task uses above its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// The task.
    pub task: TaskId,
    /// The memory above its request.
    pub bytes: Bytes,
    /// Since when it uses more than its request.
    pub since: Timestamp,
    /// The memory of the device that it may keep, if the loan is called back.
    pub keep: Option<Bytes>,
}

/// A sample of a device's activity; the scheduler does not read it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Memory in use.
    pub memory_used: Option<Bytes>,
    /// Memory free.
    pub memory_free: Option<Bytes>,
    /// Percentage of the last sample period with a running kernel.
    pub utilization_percent: Option<u32>,
    /// Percentage of the last sample period with memory traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_percent: Option<u32>,
    /// Values that are read less often.
    #[serde(default)]
    pub detail: DeviceDetail,
}

/// Values of a device that are read every few seconds; absent where the device or driver does not
/// report them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceDetail {
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Temperature of the memory in degrees Celsius.
    pub memory_temperature_c: Option<u32>,
    /// Milliwatts drawn.
    pub power_mw: Option<u64>,
    /// Millijoules drawn since the driver was loaded.
    pub energy_mj: Option<u64>,
    /// Clock of the streaming multiprocessors in MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Milliseconds with clocks lowered by the power limit, since the driver was loaded.
    pub power_capped_ms: Option<u64>,
    /// Milliseconds with clocks lowered by the temperature, since the driver was loaded.
    pub thermal_capped_ms: Option<u64>,
    /// Thousandths of the streaming multiprocessors that had work, since the last reading.
    pub sm_active_permille: Option<u32>,
    /// Thousandths of the time with working tensor cores, since the last reading.
    pub tensor_active_permille: Option<u32>,
    /// Thousandths of the memory bandwidth in use, since the last reading.
    pub dram_active_permille: Option<u32>,
    /// Bytes per second that the device received over PCIe, since the last reading.
    pub pcie_received: Option<u64>,
    /// Bytes per second that the device sent over PCIe, since the last reading.
    pub pcie_sent: Option<u64>,
    /// Bytes per second over NVLink in both directions, since the last reading.
    pub nvlink: Option<u64>,
    /// Its errors.
    pub errors: DeviceErrors,
}

/// Errors that a device reports; absent where the device or driver does not count them.
///
/// Source: NVIDIA GPU memory error management, "Row remapping"; the Xid catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceErrors {
    /// Memory errors that ECC corrected, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_corrected: Option<u64>,
    /// Memory errors that ECC could not correct, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_uncorrected: Option<u64>,
    /// Memory rows replaced because of corrected errors, in the life of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_corrected: Option<u64>,
    /// Memory rows replaced because of uncorrected errors, in the life of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_uncorrected: Option<u64>,
    /// Whether a replacement failed: the device has no spare row left there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_remap_failed: Option<bool>,
    /// Xids since the agent started, by number, those of programs too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xids: BTreeMap<u64, u64>,
}
