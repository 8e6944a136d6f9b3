//! Devices in the API.

use std::collections::BTreeMap;

use gpool_model::device::{
    Device, DeviceHealth, DeviceProcess, DeviceSample, DeviceState, Instance, Link, Mig,
};
use gpool_model::id::TaskId;
use gpool_model::pattern::short_model;
use gpool_model::{Bytes, Node, SlotPart};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::node::cores;
use crate::reservation::{Drain, ReservedHere};
use crate::schema;
use crate::time::Time;

/// A device, its state, and the jobs that use it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Gpu {
    /// Name of the node.
    pub node: String,
    /// Index that the driver assigns. MIG instances have their own numbers, from 1000.
    pub index: u32,
    /// UUID that the driver assigns. It never changes.
    pub uuid: String,
    /// Model name as the driver reports it.
    pub model: String,
    /// Short model name for requests: `A100-80G`.
    pub model_short: String,
    /// State of the device.
    #[schema(schema_with = schema::device_state)]
    pub state: DeviceState,
    /// Total memory in bytes.
    pub memory_total: u64,
    /// Used memory in bytes. `null` if unknown.
    pub memory_used: Option<u64>,
    /// Free memory in bytes. `null` if unknown.
    pub memory_free: Option<u64>,
    /// Fraction of the last sample period in which a kernel ran, 0 to 1. `null` if unknown.
    pub utilization: Option<f64>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power draw in watts.
    pub power_w: Option<f64>,
    /// PCI bus ID. Empty for simulated devices.
    pub pci_bus: String,
    /// Minor number: the number in `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Nearest NUMA node.
    pub numa: Option<u32>,
    /// How near other devices of the node are, by UUID: `nvlink:12`, `switch`, `host_bridge`,
    /// `numa`, `system`.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// MIG mode and instances; `null` where the device has none.
    pub mig: Option<GpuMig>,
    /// What it is cut from; `null` if it is no MIG instance.
    #[serde(default)]
    pub part_of: Option<GpuPartOf>,
    /// What is wrong with it; `null` if nothing is.
    pub health_why: Option<String>,
    /// Whether new allocations may use it.
    pub allowed: bool,
    /// Set while an admin empties it or its node.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Reservations and maintenance windows that keep it, now or later.
    #[serde(default)]
    pub reservations: Vec<ReservedHere>,
    /// The job that has it, or the first of those that share it.
    pub job: Option<String>,
    /// The user of that job.
    pub user: Option<String>,
    /// The project of that job.
    pub project: Option<String>,
    /// Compute processes on it that gpool did not start.
    pub unmanaged: Vec<GpuProcess>,
    /// Compute processes on it that belong to jobs which were not given it.
    #[serde(default)]
    pub strays: Vec<GpuProcess>,
    /// Who shares it; empty for a device that is free, or that a job has alone.
    #[serde(default)]
    pub shares: Vec<GpuShare>,
    /// Bytes of its memory that another share could have.
    #[serde(default)]
    pub memory_for_shares: u64,
}

/// A part of a device that a job has beside others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuShare {
    /// Which job.
    pub job: String,
    /// Its user.
    pub user: String,
    /// Its project.
    pub project: String,
    /// What part of the device it is charged: 0.25.
    pub part: f64,
    /// Bytes of memory that it was given.
    pub memory: u64,
    /// Bytes that it uses, if that is more than it was given; `null` if it keeps to its share, or
    /// if the driver does not tell.
    pub memory_over: Option<u64>,
    /// How firmly the share is held: `booked` (nobody else gets it), `monitored` (and whoever uses
    /// more is seen).
    pub enforcement: String,
}

/// MIG mode of a device that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuMig {
    /// Whether the mode is on.
    pub enabled: bool,
    /// Its instances, in the driver's order.
    pub instances: Vec<GpuMigInstance>,
}

/// What a MIG instance is cut from, and what it counts as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuPartOf {
    /// The index of the device.
    pub index: u32,
    /// Compute slices of the instance, of the device's seven.
    pub compute_slices: u32,
    /// What it counts as in quotas and charges, in GPUs: 0.142.
    pub gpus: f64,
}

/// One MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuMigInstance {
    /// What the driver calls it.
    pub uuid: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute slices, of the device's seven.
    pub compute_slices: u32,
}

/// A compute process on a device that gpool did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuProcess {
    /// Its process id on the node.
    pub pid: u32,
    /// Who owns it, if known.
    pub user: Option<String>,
    /// What program it is, if known.
    pub name: Option<String>,
    /// Bytes of device memory in use, if known.
    pub memory: Option<u64>,
    /// When it was first seen.
    pub seen_since: Time,
}

/// What keeps a device from work, or for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Whether an admin lets new work have it.
    pub allowed: bool,
    /// See [`Gpu::drain`].
    pub drain: Option<Drain>,
    /// See [`Gpu::reservations`].
    pub reservations: Vec<ReservedHere>,
}

/// Who has a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// Which task.
    pub task: TaskId,
    /// Its user.
    pub user: String,
    /// Its project.
    pub project: String,
    /// What part of it.
    pub part: SlotPart,
}

/// What is known of who has a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// All of them, by task.
    pub by: Vec<HeldBy>,
    /// How much of its memory another share could have.
    pub free_memory: Bytes,
}

impl Gpu {
    /// What is shown of a device.
    #[must_use]
    pub fn new(
        node: &Node,
        device: &Device,
        kept: Kept,
        sample: DeviceSample,
        held: &Held,
    ) -> Self {
        let Kept { allowed, drain, reservations } = kept;
        let first = held.by.first();
        let is_given = allowed && drain.is_none();
        let state = state_of(device, is_given, first.is_some());
        let is_usable = is_given && matches!(state, DeviceState::Free | DeviceState::Busy);
        Self {
            node: node.name.to_string(),
            index: device.index,
            uuid: device.uuid.to_string(),
            model: device.model.clone(),
            model_short: short_model(&device.model),
            state,
            memory_total: device.memory.get(),
            memory_used: sample.memory_used.map(|bytes| bytes.get()),
            memory_free: sample.memory_free.map(|bytes| bytes.get()),
            utilization: sample.utilization_percent.map(|percent| f64::from(percent) / 100.0),
            temperature_c: sample.temperature_c,
            power_w: sample.power_mw.map(watts),
            pci_bus: device.pci_bus.clone(),
            minor: device.minor,
            numa: device.numa,
            links: device
                .links
                .iter()
                .map(|(to, link)| (to.to_string(), link_word(*link)))
                .collect(),
            mig: GpuMig::of(node, device),
            part_of: device.instance.as_deref().map(|it| GpuPartOf::from((device, it))),
            health_why: match &device.health {
                DeviceHealth::Healthy => None,
                DeviceHealth::Unhealthy { why } | DeviceHealth::Unknown { why } => {
                    Some(why.clone())
                }
                DeviceHealth::Lost => Some("it is gone from the bus".to_owned()),
            },
            allowed,
            drain,
            reservations,
            job: first.map(|held| held.task.job.to_string()),
            user: first.map(|held| held.user.clone()),
            project: first.map(|held| held.project.clone()),
            unmanaged: device.unmanaged.iter().map(GpuProcess::from).collect(),
            strays: device.strays.iter().map(GpuProcess::from).collect(),
            shares: held.by.iter().filter_map(|held| GpuShare::of(held, device)).collect(),
            memory_for_shares: if is_usable { held.free_memory.get() } else { 0 },
        }
    }
}

impl GpuShare {
    /// What is shown of a task's part of a device; `None` if it has all of it.
    fn of(held: &HeldBy, device: &Device) -> Option<Self> {
        let SlotPart::Share { charge, memory } = held.part else { return None };
        let over = device.overshoots.iter().find(|overshoot| overshoot.task == held.task);
        let is_seen = device.tells_memory == Some(true);
        Some(Self {
            job: held.task.job.to_string(),
            user: held.user.clone(),
            project: held.project.clone(),
            part: cores(charge.get()),
            memory: memory.get(),
            memory_over: over.map(|overshoot| overshoot.used.get()),
            enforcement: if is_seen { "monitored" } else { "booked" }.to_owned(),
        })
    }
}

/// The state of a device in one word: a fault comes first, then who holds it, then a stranger's
/// process, then whether it may be given out.
#[must_use]
pub fn state_of(device: &Device, allowed: bool, held: bool) -> DeviceState {
    match &device.health {
        DeviceHealth::Lost => DeviceState::Lost,
        DeviceHealth::Unknown { .. } => DeviceState::Unknown,
        DeviceHealth::Unhealthy { .. } => DeviceState::Unhealthy,
        DeviceHealth::Healthy if held => DeviceState::Busy,
        DeviceHealth::Healthy if !device.unmanaged.is_empty() => DeviceState::Unmanaged,
        DeviceHealth::Healthy if device.is_divided() => DeviceState::Divided,
        DeviceHealth::Healthy if !allowed => DeviceState::Drained,
        DeviceHealth::Healthy => DeviceState::Free,
    }
}

fn watts(milliwatts: u64) -> f64 {
    // Above 4 MW a device would have other problems than rounding.
    f64::from(u32::try_from(milliwatts).unwrap_or(u32::MAX)) / 1000.0
}

fn link_word(link: Link) -> String {
    match link {
        Link::System => "system".to_owned(),
        Link::Numa => "numa".to_owned(),
        Link::HostBridge => "host_bridge".to_owned(),
        Link::Switch => "switch".to_owned(),
        Link::NvLink(count) => format!("nvlink:{count}"),
    }
}

impl GpuMig {
    /// What is shown of a device of a node, if it has MIG mode.
    fn of(node: &Node, device: &Device) -> Option<Self> {
        let Mig { enabled } = device.mig?;
        let instances = node.devices.iter().filter_map(|it| {
            let instance = it.instance.as_ref().filter(|it| it.parent == device.index)?;
            Some(GpuMigInstance {
                uuid: it.uuid.to_string(),
                memory: it.memory.get(),
                compute_slices: instance.compute_slices,
            })
        });
        Some(Self { enabled, instances: instances.collect() })
    }
}

impl From<(&Device, &Instance)> for GpuPartOf {
    fn from((device, instance): (&Device, &Instance)) -> Self {
        Self {
            index: instance.parent,
            compute_slices: instance.compute_slices,
            gpus: cores(device.counts_as().get()),
        }
    }
}

impl From<&DeviceProcess> for GpuProcess {
    fn from(process: &DeviceProcess) -> Self {
        Self {
            pid: process.pid,
            user: process.user.clone(),
            name: process.name.clone(),
            memory: process.memory.map(|bytes| bytes.get()),
            seen_since: process.seen_since.into(),
        }
    }
}
