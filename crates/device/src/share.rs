//! Checks whether tasks that share a device stay within their limits. Pure.

use std::collections::BTreeMap;

use gpool_model::device::{DeviceProcess, Overshoot};
use gpool_model::id::TaskId;
use gpool_model::unit::Bytes;

/// Returns the tasks with processes that together use more memory of a device than their limit, by
/// task. `task_limit` returns the task of a process and its limit; `None` for tasks that have the
/// whole device and for other processes. A process of unknown memory counts as zero.
#[must_use]
pub fn overshoots(
    processes: &[DeviceProcess],
    task_limit: &dyn Fn(u32) -> Option<(TaskId, Bytes)>,
) -> Vec<Overshoot> {
    let mut used = BTreeMap::<TaskId, (Bytes, Bytes)>::new();
    for process in processes {
        if let (Some((task, limit)), Some(memory)) = (task_limit(process.pid), process.memory) {
            let (_, sum) = used.entry(task).or_insert((limit, Bytes::ZERO));
            *sum = sum.saturating_add(memory);
        }
    }
    let over = used.into_iter().filter(|(_, (limit, used))| used > limit);
    over.map(|(task, (limit, used))| Overshoot { task, limit, used, n_samples: 1 }).collect()
}
