//! The devices of tasks that move.

use std::sync::PoisonError;

use gpool_model::Slot;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::node::Remap;
use gpool_node::converge::Moves;

use super::{Asker, DeviceQuestion, Devices, Move};

impl Devices {
    /// Notes that a task came to these devices, by slot, and those that are booked for it if that
    /// changed. Returns its parts before and now.
    pub(crate) fn moved(
        &self,
        task: TaskId,
        devices: &[DeviceUuid],
        booked: &[DeviceUuid],
    ) -> Option<[Vec<Slot>; 2]> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let given = owners.values_mut().find(|given| given.task == task)?;
        let before = given.seats.slots.clone();
        given.seats.come_to(devices, booked);
        Some([before, given.seats.slots.clone()])
    }

    /// Notes that a task could not move.
    pub(crate) fn stuck(&self, task: TaskId) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let given = owners.values_mut().find(|given| given.task == task);
        given.into_iter().for_each(|given| given.is_stuck = true);
    }

    /// Limits the memory of a paused task on the devices that it comes to, and no longer on those
    /// that it left. If it is to resume, the answer is an [`ThreadInput::Limited`].
    pub(crate) fn limit_on(&self, moved: Move) {
        let _ = self.questions.send(DeviceQuestion::Move(moved));
    }

    /// How running tasks move between the devices, if paused ones can resume on others. The driver
    /// moves tasks with gpool's library: their GPU calls wait meanwhile.
    pub(crate) fn moves(&self, remap: &Remap) -> Moves {
        match (self.can_move, remap) {
            (true, _) => Moves::Freely,
            (false, Remap::Yes) if self.has_library => Moves::ByDriver,
            (false, Remap::Yes | Remap::No { .. }) => Moves::No,
        }
    }
}

impl Asker {
    /// Whether tasks can move between the devices.
    pub(super) fn moves(&self, remap: &Remap) -> Remap {
        match (&self.about.shim, self.can_move) {
            (_, true) => Remap::Yes,
            (Err(why), false) => Remap::No { why: why.as_str().into() },
            (Ok(_), false) => remap.clone(),
        }
    }
}
