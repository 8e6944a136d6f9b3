//! Fractions of shared devices.

use gpool_model::device::{Device, Lending};
use gpool_model::{Node, SlotPart};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{HeldBy, booked};
use gpool_texts::words::cores;

/// The answer of servers without the field.
const fn yes() -> bool {
    true
}

/// A job's fraction of a shared device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuShare {
    /// ID of the job.
    pub job: String,
    /// User of the job.
    pub user: String,
    /// Project of the job.
    pub project: String,
    /// Fraction of the device that the job is charged for: 0.25.
    pub part: f64,
    /// Index of the device that the job uses, if the node moved it to another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u32>,
    /// Guaranteed memory in bytes.
    pub memory: u64,
    /// Most memory that the job may use while the device has room, in bytes.
    pub memory_limit: u64,
    /// Used memory in bytes if the job uses more than it may. `null` if it does not, or if the
    /// driver does not report memory.
    pub memory_over: Option<u64>,
    /// Most memory that the job may use now, in bytes, if it uses more: memory above the request
    /// is granted on demand. `null` otherwise.
    #[serde(default)]
    pub memory_granted: Option<u64>,
    /// Enforcement of the fraction: `booked` (not allocated to other jobs), `monitored` (gpool
    /// also reports jobs that use more) or `capped` (allocations above it fail).
    pub enforcement: String,
    /// Fraction of the last sample period in which kernels of the job ran. `null` if the driver
    /// does not report it.
    #[serde(default)]
    pub compute: Option<f64>,
    /// Enforcement of the compute: `booked`, since nothing divides the time of a device among its
    /// jobs.
    #[serde(default = "booked")]
    pub compute_enforcement: String,
    /// Whether the job's processes count their memory. `false` if the job damaged the file for
    /// that; then only the figures of the driver show its use.
    #[serde(default = "yes")]
    pub counted: bool,
    /// Whether the node can move the job to another device now.
    #[serde(default)]
    pub can_move: bool,
    /// Why it can't. `null` if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays_why: Option<String>,
}

impl GpuShare {
    /// Returns a task's fraction of a device; `None` if it has all of it.
    pub(super) fn of(
        held: &HeldBy,
        node: &Node,
        (device, lending): (&Device, &Lending),
    ) -> Option<Self> {
        let SlotPart::Share { charge, memory, limit } = held.part else { return None };
        let used = node.guest_place(held.task, &device.uuid);
        let device = used.unwrap_or(device);
        let over = device.overshoots.iter().find(|overshoot| overshoot.task == held.task);
        let percent = lending.compute_percent.get(&held.task);
        Some(Self {
            job: held.task.job.to_string(),
            user: held.user.clone(),
            project: held.project.clone(),
            part: cores(charge.get()),
            used: used.map(|device| device.index),
            memory: memory.get(),
            memory_limit: limit.get(),
            memory_over: over.map(|overshoot| overshoot.used.get()),
            memory_granted: over.map(|overshoot| overshoot.limit.get()),
            enforcement: device.enforcement(true).to_string(),
            compute: percent.map(|percent| f64::from(*percent) / 100.0),
            compute_enforcement: booked(),
            counted: !device.damaged.contains(&held.task),
            can_move: held.stays.is_none(),
            stays_why: held.stays.clone(),
        })
    }
}
