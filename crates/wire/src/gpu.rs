//! Devices in the API.

mod detail;
mod share;
pub mod xid;

use std::collections::BTreeMap;

use gpool_model::device::{
    Device, DeviceHealth, DeviceProcess, DeviceSample, DeviceState, Instance, Lending, Link, Loan,
};
use gpool_model::enforcement::{Enforcement, Mechanism, Probe};
use gpool_model::id::TaskId;
use gpool_model::pattern::short_model;
use gpool_model::{Bytes, Node, SlotPart};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::reservation::{Drain, ReservedHere};
use crate::time::Time;
use gpool_texts::words::cores;

use self::detail::thousandths;
pub use self::detail::{GpuDetail, GpuErrors};
pub use self::share::GpuShare;

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
    #[schema(schema_with = crate::schema::device_state)]
    pub state: DeviceState,
    /// Total memory in bytes.
    pub memory_total: u64,
    /// Used memory in bytes. `null` if unknown.
    pub memory_used: Option<u64>,
    /// Free memory in bytes. `null` if unknown.
    pub memory_free: Option<u64>,
    /// Fraction of the last sample period during which a kernel ran, 0 to 1. `null` if unknown.
    pub utilization: Option<f64>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power draw in watts.
    pub power_w: Option<f64>,
    /// Clocks, energy, and activity of the units.
    #[serde(default)]
    pub detail: GpuDetail,
    /// PCI bus ID. Empty for simulated devices.
    pub pci_bus: String,
    /// Minor number: the number in `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Nearest NUMA node.
    pub numa: Option<u32>,
    /// Topological distance to other devices of the node, by UUID: `nvlink:12`, `switch`,
    /// `host_bridge`, `numa`, `system`.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// MIG mode and instances. `null` if the device does not support MIG.
    pub mig: Option<GpuMig>,
    /// Parent device of a MIG instance. `null` for other devices.
    #[serde(default)]
    pub part_of: Option<GpuPartOf>,
    /// Why the device is unhealthy. `null` if it is healthy.
    pub health_why: Option<String>,
    /// Whether new allocations may use the device.
    pub allowed: bool,
    /// The drain of the device or its node, if any.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Current and future reservations and maintenance windows of the device.
    #[serde(default)]
    pub reservations: Vec<ReservedHere>,
    /// ID of the job that uses the device; the first one if several jobs share it.
    pub job: Option<String>,
    /// User of that job.
    pub user: Option<String>,
    /// Project of that job.
    pub project: Option<String>,
    /// Compute processes on the device that gpool did not start.
    pub unmanaged: Vec<GpuProcess>,
    /// Compute processes on the device from jobs without an allocation there.
    #[serde(default)]
    pub strays: Vec<GpuProcess>,
    /// Jobs that use the device although they booked another one. They leave it when a job gets it.
    #[serde(default)]
    pub guests: Vec<GpuGuest>,
    /// Running jobs on the device that do not use their GPUs. The state is `held_idle` if these are
    /// all its jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<GpuIdle>,
    /// Jobs that booked a share of the device. Empty if the device is free, or one job uses all of
    /// it.
    #[serde(default)]
    pub shares: Vec<GpuShare>,
    /// Device memory that another job could share, in bytes.
    #[serde(default)]
    pub memory_for_shares: u64,
    /// Jobs that use more memory than they requested.
    #[serde(default)]
    pub loans: Vec<GpuLoan>,
    /// Guarantees that were not met within `loan_deadline` since the agent started: a job waited
    /// too long for memory that it requested.
    #[serde(default)]
    pub guarantees_late: u64,
    /// Enforcement of what jobs are given on the device.
    #[serde(default)]
    pub enforcement: GpuEnforcement,
}

/// Levels of enforcement on a device: `booked`, `monitored`, `capped` or `isolated`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuEnforcement {
    /// Level for a job with a fraction of the device.
    pub share: String,
    /// Level for a job with the whole device.
    pub whole: String,
    /// Mechanisms that the agent probed.
    pub mechanisms: Vec<GpuMechanism>,
}

/// A mechanism that holds jobs to what they were given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuMechanism {
    /// Name of the mechanism: `device_filter`, `driver_limits`, `shim`, `process_memory`,
    /// `persistence`.
    #[schema(value_type = String)]
    pub name: Mechanism,
    /// Whether it works on the device.
    pub works: bool,
    /// Why it does not work. `null` if it works.
    pub why_not: Option<String>,
}

impl Default for GpuEnforcement {
    fn default() -> Self {
        Self { share: booked(), whole: booked(), mechanisms: Vec::new() }
    }
}

impl GpuEnforcement {
    fn of(device: &Device) -> Self {
        let mechanism = |probe: &Probe| GpuMechanism {
            name: probe.mechanism,
            works: probe.why_not.is_none(),
            why_not: probe.why_not.clone(),
        };
        Self {
            share: device.enforcement(true).to_string(),
            whole: device.enforcement(false).to_string(),
            mechanisms: device.enforced.probes.iter().map(mechanism).collect(),
        }
    }
}

/// The answer of servers without the field.
fn booked() -> String {
    Enforcement::Booked.to_string()
}

/// A job on a device that it did not book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuGuest {
    /// ID of the job.
    pub job: String,
    /// Index of the device that it booked.
    pub booked: u32,
    /// Whether it could not move there when it had to, so that no job gets this device.
    #[serde(default)]
    pub stuck: bool,
}

/// Memory of a device that a job uses above its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuLoan {
    /// ID of the job.
    pub job: String,
    /// Memory above the request in bytes.
    pub memory: u64,
    /// Time since which the job uses more than its request; the start of the node's agent if that
    /// is later.
    pub since: Time,
    /// Memory that the job may keep, in bytes, while the loan is called back. `null` if it is not.
    pub keep: Option<u64>,
}

/// A running job that does not use its GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuIdle {
    /// ID of the job.
    pub job: String,
    /// Time of its last use.
    pub since: Time,
}

/// MIG mode of a device that supports MIG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuMig {
    /// Whether MIG mode is enabled.
    pub enabled: bool,
    /// MIG instances, in the order of the driver.
    pub instances: Vec<GpuMigInstance>,
}

/// The parent device of a MIG instance, and the size of the instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuPartOf {
    /// Index of the parent device.
    pub index: u32,
    /// Compute slices of the instance, of seven per device.
    pub compute_slices: u32,
    /// Charge for the instance in quotas and usage, in GPUs: 0.142.
    pub gpus: f64,
}

/// A MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuMigInstance {
    /// UUID that the driver assigns.
    pub uuid: String,
    /// Memory in bytes.
    pub memory: u64,
    /// Compute slices, of seven per device.
    pub compute_slices: u32,
}

/// A compute process on a device that gpool did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuProcess {
    /// Process ID on the node.
    pub pid: u32,
    /// Owner of the process, if known.
    pub user: Option<String>,
    /// Program of the process, if known.
    pub name: Option<String>,
    /// Device memory in use in bytes, if known.
    pub memory: Option<u64>,
    /// Time at which gpool first saw the process.
    pub seen_since: Time,
}

/// Settings and reservations that keep a device from new jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restrictions {
    /// Whether an admin allows new allocations on the device.
    pub allowed: bool,
    /// See [`Gpu::drain`].
    pub drain: Option<Drain>,
    /// See [`Gpu::reservations`].
    pub reservations: Vec<ReservedHere>,
}

/// A task that uses a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// ID of the task.
    pub task: TaskId,
    /// User of the job.
    pub user: String,
    /// Project of the job.
    pub project: String,
    /// The task's part of the device.
    pub part: SlotPart,
    /// Why its node can't move the part to another device, if it can't.
    pub stays: Option<String>,
}

/// The tasks that use a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// All tasks, by ID.
    pub by: Vec<HeldBy>,
    /// Device memory that another job could share.
    pub free_memory: Bytes,
    /// Memory that the tasks use above their requests.
    pub lending: Lending,
}

impl Gpu {
    /// Whether it is simulated: it has no driver, and programs of NVIDIA find nothing.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.uuid.starts_with("GPU-sim-") || self.uuid.starts_with("MIG-sim-")
    }

    /// Returns a device for the API.
    #[must_use]
    pub fn new(
        node: &Node,
        device: &Device,
        restrictions: Restrictions,
        sample: DeviceSample,
        held: &Occupancy,
    ) -> Self {
        let Restrictions { allowed, drain, reservations } = restrictions;
        let first = held.by.first();
        let tasks: Vec<TaskId> = held.by.iter().map(|held| held.task).collect();
        let state = state_of(node, device, &tasks);
        let is_usable = allowed
            && drain.is_none()
            && matches!(state, DeviceState::Free | DeviceState::Busy | DeviceState::HeldIdle);
        let share = |by| GpuShare::of(by, node, (device, &held.lending));
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
            temperature_c: sample.detail.temperature_c,
            power_w: sample.detail.power_mw.map(thousandths),
            detail: sample.detail.into(),
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
            health_why: device.health.fault(),
            allowed,
            drain,
            reservations,
            job: first.map(|held| held.task.job.to_string()),
            user: first.map(|held| held.user.clone()),
            project: first.map(|held| held.project.clone()),
            unmanaged: device.unmanaged.iter().map(GpuProcess::from).collect(),
            strays: device.strays.iter().map(GpuProcess::from).collect(),
            guests: GpuGuest::all(node, device),
            idle: GpuIdle::all(node, held),
            shares: held.by.iter().filter_map(share).collect(),
            memory_for_shares: if is_usable { held.free_memory.get() } else { 0 },
            loans: held.lending.loans.iter().map(GpuLoan::from).collect(),
            guarantees_late: held.lending.n_late,
            enforcement: GpuEnforcement::of(device),
        }
    }
}

impl From<&Loan> for GpuLoan {
    fn from(loan: &Loan) -> Self {
        Self {
            job: loan.task.job.to_string(),
            memory: loan.bytes.get(),
            since: Time(loan.since),
            keep: loan.keep.map(|bytes| bytes.get()),
        }
    }
}

impl GpuGuest {
    fn all(node: &Node, device: &Device) -> Vec<Self> {
        let guests = device.guests.iter().filter_map(|guest| {
            let booked = node.devices.iter().find(|device| device.uuid == guest.booked)?;
            let stuck = guest.is_stuck;
            Some(Self { job: guest.task.job.to_string(), booked: booked.index, stuck })
        });
        guests.collect()
    }
}

impl GpuIdle {
    fn all(node: &Node, held: &Occupancy) -> Vec<Self> {
        let idle = held.by.iter().filter_map(|held| {
            let since = node.idle_since(held.task)?;
            Some(Self { job: held.task.job.to_string(), since: since.into() })
        });
        idle.collect()
    }
}

/// Returns the state of a device of a node that these tasks hold. Faults come first, then
/// allocations, then unmanaged processes, then whether new jobs may use it. It is held idle if no
/// task on it is in use, guests included.
#[must_use]
pub fn state_of(node: &Node, device: &Device, holders: &[TaskId]) -> DeviceState {
    let is_held = !holders.is_empty();
    let mut here = holders.iter().copied().chain(device.guests.iter().map(|guest| guest.task));
    match &device.health {
        DeviceHealth::Lost => DeviceState::Lost,
        DeviceHealth::Unknown { .. } => DeviceState::Unknown,
        DeviceHealth::Unhealthy { .. } => DeviceState::Unhealthy,
        DeviceHealth::Healthy if is_held && here.all(|task| node.idle_since(task).is_some()) => {
            DeviceState::HeldIdle
        }
        DeviceHealth::Healthy if is_held || device.has_stuck_guest() => DeviceState::Busy,
        DeviceHealth::Healthy if !device.unmanaged.is_empty() => DeviceState::Unmanaged,
        DeviceHealth::Healthy if device.is_divided() => DeviceState::Divided,
        DeviceHealth::Healthy if !node.allows(&device.uuid) => DeviceState::NotAllowed,
        DeviceHealth::Healthy if node.drain_of(&device.uuid).is_some() => DeviceState::Drained,
        DeviceHealth::Healthy => DeviceState::Free,
    }
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
    /// Returns the MIG mode and instances of a device that supports MIG.
    fn of(node: &Node, device: &Device) -> Option<Self> {
        let enabled = device.mig.as_ref()?.enabled;
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
