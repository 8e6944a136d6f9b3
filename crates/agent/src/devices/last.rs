//! The last look at the devices of a failed task. The driver reports an Xid before the program
//! ends because of it, but devices are polled every few seconds.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use gpool_device::PollRequest;
use gpool_model::agent::TaskEnd;
use gpool_model::device::Device;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::job::ExitStatus;

use super::{Asker, DeviceQuestion, Devices};
use crate::input::ThreadInput;

impl Devices {
    /// If a task on devices has failed, asks for a report of their errors; its end then comes back
    /// as an [`ThreadInput::Ended`]. Otherwise returns the end at once.
    pub(crate) fn last_look(&self, task: TaskId, end: TaskEnd) -> Option<TaskEnd> {
        if end.exit == Some(ExitStatus::Code(0)) || end.stopped {
            return Some(end);
        }
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let given = owners.values().find(|given| given.task == task);
        let devices = given.map(|given| given.seats.devices()).unwrap_or_default();
        if devices.is_empty() {
            return Some(end);
        }
        // The thread outlives the agent's loop, so this send succeeds.
        let _ = self.questions.send(DeviceQuestion::Ended { task, devices, end: Box::new(end) });
        None
    }
}

impl Asker {
    /// Reports the errors of the devices of a failed task, then its end.
    pub(super) fn look_last(&mut self, task: TaskId, devices: &[DeviceUuid], end: Box<TaskEnd>) {
        // The driver reports the errors of an instance for its parent device.
        let own = self.devices.iter().filter(|it| devices.contains(&it.uuid));
        let indexes: BTreeSet<u32> = own.map(Device::gpu_index).collect();
        let all = self.devices.iter().filter(|it| indexes.contains(&it.index));
        let uuids: Vec<DeviceUuid> = all.map(|it| it.uuid.clone()).collect();
        self.poll(&uuids, PollRequest::ERRORS);
        self.report();
        self.inputs.send(ThreadInput::Ended { task, end });
    }
}
