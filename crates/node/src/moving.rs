//! The move of a running task to other devices of its node.

use gpool_model::agent::{MoveIs, MoveReason, MoveReport};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::{Device, Slot};

/// A move that is not over yet.
#[derive(Debug, Clone)]
pub(crate) struct Moving {
    /// The parts of devices that the task had.
    pub from: Vec<Slot>,
    /// The parts that were chosen first; it may come to others.
    pub to: Vec<Slot>,
    /// Why it moves; `None` if that is not known any more.
    pub reason: Option<MoveReason>,
}

impl Moving {
    /// The move of a task that was found between devices.
    pub fn found(slots: &[Slot]) -> Self {
        Self { from: slots.to_vec(), to: slots.to_vec(), reason: None }
    }

    /// The report of the end of the move, with the task at `slots`; `None` if it came back to the
    /// devices that it had.
    pub fn ended(self, task: TaskId, slots: &[Slot], is: MoveIs) -> Option<MoveReport> {
        let Self { from, to, reason } = self;
        let to = if is == MoveIs::NotLeft { to } else { slots.to_vec() };
        (from != to).then_some(MoveReport { task, from, to, reason, is, why: None, took: None })
    }
}

/// The same parts, of other devices.
pub(crate) fn on_devices(slots: &[Slot], known: &[Device], devices: &[DeviceUuid]) -> Vec<Slot> {
    let mut slots = slots.to_vec();
    for (slot, uuid) in slots.iter_mut().zip(devices) {
        let device = known.iter().find(|device| device.uuid == *uuid);
        slot.index = device.map_or(slot.index, |device| device.index);
        slot.device = uuid.clone();
    }
    slots
}
