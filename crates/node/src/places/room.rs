//! The memory of devices that is left for tasks.

use gpool_model::agent::Terms;
use gpool_model::id::TaskId;
use gpool_model::unit::Bytes;
use gpool_model::{Device, Slot, SlotPart};

use super::Places;
use crate::action::{FollowUp, Moves};
use crate::placed::{Aim, Placed, PlacementState, WaitingTask};

impl Places {
    /// Whether the tasks that are on the devices of a waiting one leave it room. One that is not
    /// between devices leaves room for those that are: their move can fail.
    pub(super) fn has_room(&self, waiting: &WaitingTask) -> bool {
        let is_mover = matches!(waiting.aim, Aim::Attach);
        self.tasks[&waiting.task].seats.slots.iter().all(|wanted| {
            let device = self.devices.iter().find(|device| device.uuid == wanted.device);
            device.is_some_and(|device| {
                let own = wanted.part.memory_of(device.memory);
                let kept = if is_mover { Bytes::ZERO } else { self.kept_on(device, waiting.task) };
                let used = self.used_on(device, true).saturating_add(kept);
                used.saturating_add(own) <= device.memory
            })
        })
    }

    /// Whether a task has shares of devices. It may be started before another share has shrunk for
    /// it; a whole device is free before its next task is started.
    pub(super) fn is_share(&self, task: TaskId) -> bool {
        let mut slots = self.tasks.get(&task).into_iter().flat_map(|placed| &placed.seats.slots);
        slots.any(|slot| matches!(slot.part, SlotPart::Share { .. }))
    }

    /// Whether the devices that are booked for a task have room for its new parts. The server may
    /// give it the room of another share before that one has shrunk here. Guests do not count: they
    /// leave before it grows.
    pub fn may_grow(&self, task: TaskId, terms: &Terms) -> bool {
        let is_present = |placed: &Placed| {
            matches!(
                placed.state,
                PlacementState::Coming | PlacementState::Attaching | PlacementState::Running
            )
        };
        let is_on_them = |it: &&Placed| is_present(it) || it.state == PlacementState::Leaving;
        let Some(own) = self.tasks.get(&task).filter(is_on_them) else { return true };
        let parts = own.seats.booked.iter().zip(own.seats.slots.iter().zip(&terms.parts));
        parts.into_iter().all(|(booked, (slot, part))| {
            let Some(device) = self.devices.iter().find(|it| it.uuid == *booked) else {
                return true;
            };
            let others = self.tasks.iter().filter(|(other, it)| **other != task && is_present(it));
            let others = others.flat_map(|(_, it)| it.seats.booked.iter().zip(&it.seats.slots));
            let here = others.filter(|(on, _)| *on == booked);
            let size = |part: SlotPart| part.memory_of(device.memory);
            let taken =
                here.map(|(_, slot)| size(slot.part)).fold(size(*part), Bytes::saturating_add);
            size(*part) <= size(slot.part) || taken <= device.memory
        })
    }

    /// The parts of devices of a task, by slot.
    pub fn parts(&self, task: TaskId) -> Vec<SlotPart> {
        let slots = self.tasks.get(&task).into_iter().flat_map(|placed| &placed.seats.slots);
        slots.map(|slot| slot.part).collect()
    }

    /// Whether all tasks on the devices of a task have room there, also those that leave them and
    /// may fail to. One that is on none has room: it waits for that before it comes.
    pub fn has_grown_room(&self, task: TaskId) -> bool {
        let Some(own) = self.tasks.get(&task) else { return true };
        let on = |slot: &Slot| self.devices.iter().find(|device| device.uuid == slot.device);
        match own.state {
            PlacementState::Away | PlacementState::Unsettled | PlacementState::Paused => true,
            PlacementState::Leaving => false,
            PlacementState::Coming | PlacementState::Attaching | PlacementState::Running => {
                let mut devices = own.seats.slots.iter().filter_map(on);
                devices.all(|device| self.used_on(device, true) <= device.memory)
            }
        }
    }

    /// The memory on a device of other tasks that left it and have not come to another one yet.
    fn kept_on(&self, device: &Device, own: TaskId) -> Bytes {
        let is_between = |(task, placed): &(&TaskId, &Placed)| {
            self.moves == Moves::ByDriver
                && !placed.is_parked
                && **task != own
                && matches!(
                    placed.state,
                    PlacementState::Away | PlacementState::Attaching | PlacementState::Coming
                )
        };
        let between = self.tasks.iter().filter(is_between);
        let left = between.filter_map(|(_, placed)| placed.moving.as_ref()).flat_map(|it| &it.from);
        let kept = left.filter(|slot| slot.device == device.uuid);
        let kept = kept.map(|slot| slot.part.memory_of(device.memory));
        kept.fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// Takes their devices from tasks that have not started and were to start as guests, and from
    /// all that have not started if a task is stuck where it is. They may wait for room that a task
    /// between devices keeps there, while that task waits for theirs. Returns whether there were
    /// any.
    pub(super) fn displace_launches(&mut self) -> bool {
        let (has_stuck, mut found) = (self.has_stuck(), false);
        for waiting in self.waiting.iter_mut().filter(|it| it.is_placed) {
            let placed = self.tasks.get(&waiting.task);
            let is_guest = placed.is_some_and(|it| it.seats.devices() != it.seats.booked);
            if (is_guest || has_stuck) && matches!(waiting.aim, Aim::Launch(_)) {
                (waiting.is_placed, found) = (false, true);
            }
        }
        found
    }

    /// A task that left its devices keeps nothing of them.
    pub fn parked(&mut self, task: TaskId) -> Vec<FollowUp> {
        let placed = self.tasks.get_mut(&task);
        placed.into_iter().for_each(|placed| placed.is_parked = true);
        self.advance()
    }

    /// A task that has grown on the device that it booked, and leaves its guests no room.
    pub(super) fn outgrown(&self) -> Option<TaskId> {
        let is_full = |device: &&Device| self.used_on(device, false) > device.memory;
        let mut full = self.devices.iter().filter(|_| self.can_move()).filter(is_full);
        full.find_map(|device| {
            let is_home = |placed: &Placed| {
                let mut places = placed.seats.slots.iter().zip(&placed.seats.booked);
                places.any(|(slot, booked)| slot.device == *booked && *booked == device.uuid)
            };
            let home = self.tasks.iter().find(|(_, placed)| is_home(placed));
            home.map(|(task, _)| *task)
        })
    }

    /// The memory that the tasks on a device may count on, those included that leave it or not.
    fn used_on(&self, device: &Device, with_leaving: bool) -> Bytes {
        let is_present = |placed: &&Placed| match placed.state {
            PlacementState::Coming | PlacementState::Attaching | PlacementState::Running => true,
            PlacementState::Leaving => with_leaving,
            PlacementState::Away | PlacementState::Unsettled | PlacementState::Paused => false,
        };
        let slots = self.tasks.values().filter(is_present).flat_map(|placed| &placed.seats.slots);
        let used = |slot: &Slot| slot.part.memory_of(device.memory);
        let here = slots.filter(|slot| slot.device == device.uuid).map(used);
        here.fold(Bytes::ZERO, Bytes::saturating_add)
    }
}
