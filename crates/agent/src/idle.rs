//! Feeds the samples of devices into the watch for idle tasks.

use std::collections::BTreeMap;

use gpool_device::{Activity, IdleWatch, Observation, ProcessActivity, is_busy};
use gpool_model::device::{Device, DeviceProcess, Overshoot};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::node::IdleTask;
use gpool_model::unit::{Bytes, Timestamp};

use crate::assignments::Assignment;

/// What the tasks on a device do, as far as one look shows it. Tasks that share the device are
/// only seen in its list of processes.
pub(crate) fn activities(
    owners: &BTreeMap<u32, Assignment>,
    uuid: &DeviceUuid,
    observation: &Observation,
    owner: &dyn Fn(u32) -> Option<TaskId>,
) -> Vec<(TaskId, Activity)> {
    let listed = observation.processes.as_deref();
    let one = |given: &Assignment| {
        let task = given.task;
        let (own, others): (Vec<&DeviceProcess>, Vec<&DeviceProcess>) =
            listed.unwrap_or_default().iter().partition(|it| owner(it.pid) == Some(task));
        let is_shared = given.limit_on(uuid)?.is_some();
        if !is_shared {
            return Some((task, Activity::of_device(&observation.sample, !own.is_empty())));
        }
        listed?;
        let add = |sum: Bytes, process: &&DeviceProcess| Some(sum.saturating_add(process.memory?));
        let of_task = own.iter().try_fold(Bytes::ZERO, add).or(observation.sample.memory_used);
        let is_busy = match is_busy(&observation.sample) {
            Some(true) if own.is_empty() => Some(false),
            // The kernels may be those of another task.
            Some(true) if !others.is_empty() => {
                let of = |process: &&DeviceProcess| {
                    observation.activity.as_ref()?.get(&process.pid).copied()
                };
                let is_busy = |process| of(process).is_some_and(ProcessActivity::is_busy);
                observation.activity.is_some().then(|| own.iter().any(is_busy))
            }
            known => known,
        };
        Some((task, Activity { is_busy, memory: of_task, is_there: !own.is_empty() }))
    };
    owners.values().filter(|given| given.idle_after.is_some()).filter_map(one).collect()
}

/// The tasks that count as idle now, by task.
pub(crate) fn idle_tasks(
    watch: &mut IdleWatch,
    owners: &BTreeMap<u32, Assignment>,
    is_gated: &dyn Fn(TaskId) -> bool,
    now: Timestamp,
) -> Vec<IdleTask> {
    watch.retain(|task| owners.values().any(|given| given.task == task));
    let one = |given: &Assignment| {
        let after = given.idle_after?;
        let since = watch.since(given.task, &given.seats.devices())?;
        let (task, is_idle) = (given.task, now.since(since) >= after && now >= since);
        is_idle.then(|| IdleTask { task, since, has_gate: is_gated(task) })
    };
    let mut all: Vec<IdleTask> = owners.values().filter_map(one).collect();
    all.sort_by_key(|idle| idle.task);
    all
}

/// Adds the samples of the last overshoots to those of the same tasks.
pub(crate) fn accumulate_samples(last: &[Overshoot], mut now: Vec<Overshoot>) -> Vec<Overshoot> {
    for overshoot in &mut now {
        let before = last.iter().find(|it| it.task == overshoot.task).map_or(0, |it| it.n_samples);
        overshoot.n_samples = before.saturating_add(1).min(Overshoot::SAMPLES);
    }
    now
}

/// Whether two lists are the same apart from the memory that processes use. It changes all the time
/// and no decision depends on it.
pub(crate) fn same(last: &[Device], devices: &[Device]) -> bool {
    let steady = |device: &Device| {
        let mut device = device.clone();
        let processes = device.unmanaged.iter_mut().chain(&mut device.strays);
        processes.for_each(|process| process.memory = None);
        for overshoot in &mut device.overshoots {
            overshoot.used = Bytes::ZERO;
            overshoot.n_samples /= Overshoot::SAMPLES;
        }
        device
    };
    last.len() == devices.len()
        && last.iter().zip(devices).all(|(one, other)| steady(one) == steady(other))
}
