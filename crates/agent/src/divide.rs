//! Requests about MIG instances, before the thread that polls the devices carries them out.

use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::mig_layout::{MigChange, MigError};

use crate::division::answer;
use crate::input::Division;
use crate::runner::Runner;

impl Runner {
    /// Carries out a request, unless a task has the instance or waits for the check of it.
    pub(crate) fn divide(&self, asked: Division) {
        if let Some(MigChange::Destroy { instance }) = &asked.change
            && let Some(task) = self.task_on(instance)
        {
            let refused = answer(asked.question, Err(MigError::HasTask { task }));
            return self.parts.server.send(&refused);
        }
        self.parts.devices.divide(asked);
    }

    fn task_on(&self, device: &DeviceUuid) -> Option<TaskId> {
        let mut asked = self.pending_launches.values().map(|it| &it.order);
        let has = |slots: &[gpool_model::Slot]| slots.iter().any(|slot| slot.device == *device);
        let waits = asked.find(|order| has(&order.allocation.slots));
        let waits = waits.map(|order| order.task());
        let has = || self.parts.devices.owner(device);
        waits.or_else(|| has().filter(|task| !self.shepherds.has_ended(*task)))
    }
}
