//! Measures how tasks use their devices: the largest memory, and how much compute. Pure.

use std::collections::BTreeMap;

use gpool_model::device::DeviceSample;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::job::GpuUsage;
use gpool_model::unit::{Bytes, Millis, Timestamp};

/// Two samples that are further apart say nothing about the time between them.
const GAP_MAX: Millis = Millis::from_secs(30);

/// Measures the tasks of a node.
#[derive(Debug, Default)]
pub struct Meter {
    tasks: BTreeMap<TaskId, Measured>,
}

/// A task that may use a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub task: TaskId,
    /// The most memory that it may use; `None` for a task that has the whole device.
    pub limit: Option<Bytes>,
    /// The memory of its processes, if it was read.
    pub memory: Option<Bytes>,
    /// Percentage of the time in which kernels of its processes ran, if it has a process there and
    /// the driver reports it.
    pub compute_percent: Option<u32>,
}

#[derive(Debug, Default)]
struct Measured {
    usage: GpuUsage,
    /// When the utilization of each of its devices was last read.
    read_at: BTreeMap<DeviceUuid, Timestamp>,
}

impl Meter {
    /// Adds one sample of a device with this much memory, and the tasks that may use it.
    ///
    /// The utilization of the device counts only for tasks that have all of it; for a fraction,
    /// that of its processes does. Where the driver does not report the memory of processes, the
    /// memory of the device counts for tasks that have all of it.
    pub fn add(
        &mut self,
        (uuid, device_memory): (&DeviceUuid, Bytes),
        at: Timestamp,
        sample: &DeviceSample,
        uses: &[Use],
    ) {
        for &Use { task, limit, memory, compute_percent } in uses {
            let measured = self.tasks.entry(task).or_default();
            let of_device = sample.memory_used.filter(|_| limit.is_none());
            let memory = memory.max(of_device);
            if let Some(memory) = memory.filter(|memory| *memory > measured.usage.memory_peak) {
                measured.usage.memory_peak = memory;
                measured.usage.memory_limit = limit.unwrap_or(device_memory);
            }
            let percent =
                if limit.is_none() { sample.utilization_percent } else { compute_percent };
            let Some(percent) = percent else { continue };
            let last = measured.read_at.insert(uuid.clone(), at);
            let passed = last.map(|last| at.since(last)).filter(|passed| *passed <= GAP_MAX);
            let Some(passed) = passed else { continue };
            let busy = Millis::new(passed.get() * u64::from(percent.min(100)) / 100);
            measured.usage.busy = measured.usage.busy.saturating_add(busy);
            measured.usage.measured = measured.usage.measured.saturating_add(passed);
        }
    }

    /// Returns the measured use of a task that has ended, and forgets it. `None` if nothing was
    /// measured.
    pub fn take(&mut self, task: TaskId) -> Option<GpuUsage> {
        let Measured { usage, .. } = self.tasks.remove(&task)?;
        (usage != GpuUsage::default()).then_some(usage)
    }
}
