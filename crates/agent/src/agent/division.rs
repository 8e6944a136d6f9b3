//! Requests of admins about MIG instances. The thread that polls the devices carries them out, in
//! turn with its checks before launches, so no task is started on an instance that goes away.

use std::time::Duration;

use gpool_device::{Monitor, Wanted};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::unit::Timestamp;
use gpool_protocol::{Answer, QuestionId, ToServer};

use super::runner::Runner;

/// A request about MIG instances.
pub(super) struct Division {
    pub question: QuestionId,
    /// The change; `None` only lists them.
    pub change: Option<MigChange>,
}

/// Returns the answer to a request: the MIG instances of the node, or why nothing was changed.
pub(super) fn answer(id: QuestionId, divided: Result<MigReport, MigError>) -> ToServer {
    let answer = divided.map_or_else(Answer::MigRefused, Answer::MigInstances);
    ToServer::Answer { id, answer }
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
            let refused = answer(asked.question, Err(MigError::HasTask { task }));
            return self.parts.server.send(&refused);
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
