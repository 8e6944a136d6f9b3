//! Requests of admins about MIG instances. The thread that polls the devices carries them out, in
//! turn with its checks before launches, so no task is started on an instance that goes away.

use std::time::Duration;

use gpool_device::{Monitor, Wanted};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::unit::Timestamp;

use super::runner::Runner;

/// Called with the MIG instances of the node, or the reason why nothing was changed.
pub type DivisionAnswer = Box<dyn FnOnce(Result<MigReport, MigError>) + Send>;

/// A request about MIG instances.
pub(super) struct Division {
    /// The change; `None` only lists them.
    pub change: Option<MigChange>,
    pub answer: DivisionAnswer,
}

/// Refuses to destroy an instance that a process uses.
pub(super) fn check_processes(
    monitor: &mut Monitor,
    change: &MigChange,
    now: Timestamp,
    timeout: Duration,
) -> Result<(), MigError> {
    let MigChange::Destroy { instance } = change else { return Ok(()) };
    let seen = monitor.look_at(instance, Wanted::PROCESSES, now, timeout);
    match seen.processes.unwrap_or_default().first() {
        None => Ok(()),
        Some(process) => {
            let (name, user) = (process.name.as_deref(), process.user.as_deref());
            let name = format!("{} of {}", name.unwrap_or("?"), user.unwrap_or("?"));
            Err(MigError::HasProcess { pid: process.pid, name })
        }
    }
}

impl Runner {
    /// Carries out a request, unless a task has the instance or waits for the check of it.
    pub(super) fn divide(&self, asked: Division) {
        if let Some(MigChange::Destroy { instance }) = &asked.change
            && let Some(task) = self.task_on(instance)
        {
            return (asked.answer)(Err(MigError::HasTask { task }));
        }
        self.parts.devices.divide(asked);
    }

    fn task_on(&self, device: &DeviceUuid) -> Option<TaskId> {
        let mut asked = self.asked.values();
        let has = |slots: &[gpool_model::Slot]| slots.iter().any(|slot| slot.device == *device);
        let waits = asked.find(|(order, _)| has(&order.allocation.slots));
        let waits = waits.map(|(order, _)| order.task());
        let has = || self.parts.devices.owner(device);
        waits.or_else(|| has().filter(|task| !self.shepherds.has_ended(*task)))
    }
}
