//! Facts about shared devices that the thread for devices and the one for shares tell each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpool_device::{Use, overshoots};
use gpool_model::device::{DeviceProcess, Lending, Overshoot};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::node::StalledTask;
use gpool_model::unit::{Bytes, Millis, Timestamp};

/// How long a task that says that it is busy counts as busy. It repeats that; one that hangs does
/// not.
const BUSY: Millis = Millis::from_mins(3);

#[derive(Clone, Default)]
pub(crate) struct SharedFacts(Arc<Mutex<Facts>>);

#[derive(Default)]
pub(crate) struct Facts {
    /// The last driver figures of each device.
    pub devices: BTreeMap<DeviceUuid, Figures>,
    /// Tasks that damaged their ledger.
    pub damaged: BTreeSet<TaskId>,
    /// The memory that each task with a ledger may use on each of its devices now, including memory
    /// that is called back.
    pub granted: BTreeMap<TaskId, BTreeMap<DeviceUuid, Bytes>>,
    /// Why tasks that should run are still paused.
    pub stalled: BTreeMap<TaskId, String>,
    /// Tasks with GPU calls that go through a gate.
    pub gated: BTreeSet<TaskId>,
    /// Tasks that were resumed since the last look at the devices. That is use, also if it was
    /// too short for the samples.
    pub resumed: BTreeSet<TaskId>,
    /// Until when tasks count as busy that say so themselves.
    pub busy: BTreeMap<TaskId, Timestamp>,
    /// Tasks with released devices that wait at their gate.
    pub returning: BTreeSet<TaskId>,
    pub lending: BTreeMap<DeviceUuid, Lending>,
}

impl Facts {
    /// The difference between the driver's figures and a ledger that is no overshoot: a context can
    /// be larger than its charge.
    const SLACK: Bytes = Bytes::from_mib(512);

    /// Forgets the grants and loans of a task that leaves its devices.
    pub(crate) fn leaves(&mut self, task: TaskId) {
        self.granted.remove(&task);
        for lending in self.lending.values_mut() {
            lending.loans.retain(|loan| loan.task != task);
        }
    }

    /// The tasks that use more memory of a device than they may. With a ledger, a task may use its
    /// grant, which can be below its limit, and memory that is called back until the deadline.
    pub(crate) fn overshoots(
        &self,
        device: &DeviceUuid,
        processes: &[DeviceProcess],
        share: &dyn Fn(u32) -> Option<(TaskId, Bytes)>,
    ) -> Vec<Overshoot> {
        let granted = |task| self.granted.get(&task).and_then(|devices| devices.get(device));
        let may_use = |pid| {
            let (task, limit) = share(pid)?;
            Some((task, granted(task).copied().unwrap_or(limit).min(limit)))
        };
        let mut found = overshoots(processes, &may_use);
        found.retain(|it| {
            granted(it.task).is_none() || it.used > it.limit.saturating_add(Self::SLACK)
        });
        found
    }
}

/// The driver's figures for one device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub memory: Bytes,
    /// The memory that the driver keeps for itself: the least that was ever taken without any
    /// process. `None` before that was seen.
    pub reserve: Option<Bytes>,
    /// The memory of processes of no task.
    pub others: Bytes,
    /// The tasks with a fraction of it.
    pub tasks: BTreeMap<TaskId, Sharing>,
}

/// A task with a fraction of a device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sharing {
    /// The most memory that it may use.
    pub limit: Bytes,
    /// The memory of its processes, if the driver reports it.
    pub used: Option<Bytes>,
    /// Percentage of the time in which kernels of its processes ran, if the driver reports it.
    pub compute_percent: Option<u32>,
}

impl Figures {
    /// The least reserve: a device without any memory left fails in ways that programs do not
    /// expect.
    const RESERVE: Bytes = Bytes::from_mib(256);

    /// The memory that the tasks with ledgers can use together. Others may use all of theirs at any
    /// time.
    pub(crate) fn usable(&self, has_ledger: &dyn Fn(TaskId) -> bool) -> Bytes {
        let reserve = self.reserve.unwrap_or_default().max(Self::RESERVE);
        let free = self.memory.saturating_sub(reserve).saturating_sub(self.others);
        let without = self.tasks.iter().filter(|(task, _)| !has_ledger(**task));
        without.fold(free, |free, (_, sharing)| {
            free.saturating_sub(sharing.limit.max(sharing.used.unwrap_or_default()))
        })
    }
}

impl SharedFacts {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tasks with fractions use of each device.
    pub(crate) fn lending(&self) -> BTreeMap<DeviceUuid, Lending> {
        let facts = self.lock();
        let mut all = facts.lending.clone();
        for (device, figures) in &facts.devices {
            let known = figures.tasks.iter();
            let compute = known.filter_map(|(task, it)| Some((*task, it.compute_percent?)));
            let compute: BTreeMap<TaskId, u32> = compute.collect();
            if !compute.is_empty() {
                all.entry(device.clone()).or_default().compute_percent = compute;
            }
        }
        all
    }

    /// Whether the GPU calls of a task go through a gate.
    pub(crate) fn is_gated(&self, task: TaskId) -> bool {
        self.lock().gated.contains(&task)
    }

    /// Notes that a task says whether it is busy.
    pub(crate) fn note_busy(&self, task: TaskId, is_busy: bool, now: Timestamp) {
        let busy = &mut self.lock().busy;
        match is_busy {
            true => drop(busy.insert(task, now.after(BUSY))),
            false => drop(busy.remove(&task)),
        }
    }

    /// Takes the tasks that were resumed since the last call, and those that say that they are
    /// busy.
    pub(crate) fn take_used(&self, now: Timestamp) -> BTreeSet<TaskId> {
        let mut facts = self.lock();
        facts.busy.retain(|_, until| *until > now);
        let mut used = std::mem::take(&mut facts.resumed);
        used.extend(facts.busy.keys());
        used
    }

    /// The tasks with released devices that need them again, by task.
    pub(crate) fn returning(&self) -> Vec<TaskId> {
        self.lock().returning.iter().copied().collect()
    }

    /// The tasks that should run and are still paused, by task.
    pub(crate) fn stalled(&self) -> Vec<StalledTask> {
        let facts = self.lock();
        let stalled = facts.stalled.iter();
        stalled.map(|(task, why)| StalledTask { task: *task, why: why.clone() }).collect()
    }
}

/// Notes the driver's figures of a device, for tasks that want to grow.
pub(crate) fn note(
    figures: &mut Figures,
    (memory, free): (Bytes, Option<Bytes>),
    uses: &[Use],
    processes: &[DeviceProcess],
) {
    figures.memory = memory;
    if let (true, Some(free)) = (processes.is_empty(), free) {
        // The sample may be older than the list, so the least counts.
        let taken = memory.saturating_sub(free);
        figures.reserve = Some(figures.reserve.map_or(taken, |before| before.min(taken)));
    }
    let sharing = |it: &Use| {
        let Use { task, limit, memory: used, compute_percent } = *it;
        Some((task, Sharing { limit: limit?, used, compute_percent }))
    };
    figures.tasks = uses.iter().filter_map(sharing).collect();
    let sum = |all: &mut dyn Iterator<Item = Option<Bytes>>| {
        all.flatten().fold(Bytes::ZERO, Bytes::saturating_add)
    };
    let all = sum(&mut processes.iter().map(|process| process.memory));
    figures.others = all.saturating_sub(sum(&mut figures.tasks.values().map(|it| it.used)));
}
