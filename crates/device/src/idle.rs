//! Decides how long tasks have not used their devices. Pure: samples in, times out.

use std::collections::BTreeMap;

use gpool_model::device::DeviceSample;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};

/// Two samples that are further apart say nothing about the time between them.
const GAP_MAX: Millis = Millis::from_secs(30);

/// The use of devices by the tasks of a node, over time.
#[derive(Debug, Default)]
pub struct IdleWatch {
    tasks: BTreeMap<TaskId, Watched>,
}

/// One look at the use of a device by a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Whether kernels ran or memory was copied; `None` if that is unknown.
    pub is_busy: Option<bool>,
    /// The allocated memory; `None` if that is unknown.
    pub memory: Option<Bytes>,
    /// Whether a process of the task is known to be on the device.
    pub is_there: bool,
}

impl Activity {
    /// The activity of a task that has the device alone.
    #[must_use]
    pub fn of_device(sample: &DeviceSample, is_there: bool) -> Self {
        Self { is_busy: is_busy(sample), memory: sample.memory_used, is_there }
    }
}

/// Whether kernels ran or memory was copied on a device; `None` if that is unknown. A driver that
/// does not count memory traffic still counts kernels, and copies need the attention of neither.
#[must_use]
pub fn is_busy(sample: &DeviceSample) -> Option<bool> {
    let kernels = sample.utilization_percent?;
    Some(kernels > 0 || sample.traffic_percent.is_some_and(|percent| percent > 0))
}

#[derive(Debug)]
struct Watched {
    since: Timestamp,
    /// Whether the task has used a device yet.
    has_begun: bool,
    devices: BTreeMap<DeviceUuid, Quiet>,
}

#[derive(Debug)]
struct Quiet {
    at: Timestamp,
    memory: Option<Bytes>,
    since: Option<Timestamp>,
}

impl IdleWatch {
    /// A task that has not used its GPUs yet counts as starting for this long: it may read data or
    /// compile first.
    pub const START_UP: Millis = Millis::from_mins(30);

    /// Adds one look at a device that a task was given. Unknown figures count as use.
    pub fn add(&mut self, task: TaskId, uuid: &DeviceUuid, at: Timestamp, seen: Activity) {
        let watched = self.tasks.entry(task).or_insert_with(|| Watched {
            since: at,
            has_begun: false,
            devices: BTreeMap::new(),
        });
        let Activity { is_busy, memory, is_there } = seen;
        let last = watched.devices.get(uuid);
        let is_steady = last.is_none_or(|last| last.memory == memory) && memory.is_some();
        let is_near = last.is_some_and(|last| at >= last.at && at.since(last.at) <= GAP_MAX);
        let has_changed = last.is_some_and(|last| last.memory.is_some() && last.memory != memory);
        watched.has_begun |= is_there || is_busy == Some(true) || has_changed && memory.is_some();
        let since = match is_busy {
            Some(false) if is_steady => {
                let before = last.and_then(|last| last.since).filter(|_| is_near);
                Some(before.unwrap_or(at))
            }
            _ => None,
        };
        watched.devices.insert(uuid.clone(), Quiet { at, memory, since });
    }

    /// Notes that a task used its devices just now, whatever the samples show.
    pub fn touch(&mut self, task: TaskId) {
        let devices = self.tasks.get_mut(&task).map(|watched| watched.devices.values_mut());
        devices.into_iter().flatten().for_each(|quiet| quiet.since = None);
    }

    /// Returns since when a task has used none of its devices; `None` if it uses one, or if that is
    /// unknown for one.
    #[must_use]
    pub fn since(&self, task: TaskId, devices: &[DeviceUuid]) -> Option<Timestamp> {
        let watched = self.tasks.get(&task)?;
        let quiet = |uuid| watched.devices.get(uuid).and_then(|quiet| quiet.since);
        let all: Option<Vec<Timestamp>> = devices.iter().map(quiet).collect();
        let last = all?.into_iter().max()?;
        Some(match watched.has_begun {
            true => last,
            false => last.max(watched.since.after(Self::START_UP)),
        })
    }

    /// Forgets the tasks for which `is_there` is false.
    pub fn retain(&mut self, is_there: impl Fn(TaskId) -> bool) {
        self.tasks.retain(|task, _| is_there(*task));
    }
}
