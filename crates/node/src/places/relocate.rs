//! Which tasks can move, and a move of one task that keeps memory which was called back.

use gpool_model::agent::MoveReason;
use gpool_model::id::{DeviceUuid, TaskId};

use super::Places;
use crate::action::{Action, FollowUp, Moves};
use crate::moving::{Moving, on_devices};
use crate::placed::{Placed, PlacementState};
use crate::spread::may_come;

impl Places {
    /// Whether the node can move tasks at all.
    pub(super) fn can_move(&self) -> bool {
        self.moves != Moves::No
    }

    /// Whether a task is on a device that it did not book.
    pub(super) fn has_guests(&self) -> bool {
        self.tasks.values().any(|placed| placed.seats.devices() != placed.seats.booked)
    }

    /// Whether some task can't move although it may be in the way.
    pub(super) fn has_stuck(&self) -> bool {
        !self.can_move() || self.tasks.values().any(|placed| placed.is_stuck)
    }

    /// Whether a task can never move.
    pub(super) fn is_pinned(&self, placed: &Placed) -> bool {
        self.moves == Moves::ByDriver && placed.seats.is_pinned
    }

    /// Whether a task can be sent to other devices now.
    pub(super) fn can_leave(&self, placed: &Placed) -> bool {
        self.can_move()
            && placed.state == PlacementState::Running
            && !placed.is_stuck
            && !self.is_pinned(placed)
    }

    /// Lets a running task leave for these devices.
    pub(super) fn leave(
        &mut self,
        task: TaskId,
        devices: &[DeviceUuid],
        reason: MoveReason,
    ) -> Action {
        if let Some(placed) = self.tasks.get_mut(&task) {
            placed.state = PlacementState::Leaving;
            let from = placed.seats.slots.clone();
            let to = on_devices(&from, &self.devices, devices);
            placed.moving = Some(Moving { from, to, reason: Some(reason) });
        }
        Action::Detach { task, reason }
    }

    /// Moves a task from a device to the first of others that takes it.
    pub fn relocate(
        &mut self,
        task: TaskId,
        (from, to): (&DeviceUuid, &[DeviceUuid]),
        beneficiary: TaskId,
    ) -> FollowUp {
        let chosen = to.iter().map(|to| self.devices_with(task, from, to));
        let chosen = chosen.flatten().find(|devices| self.may_come(task, devices));
        // A waiting task may be about to get the device.
        let is_quiet = self.waiting.iter().all(|waiting| waiting.is_placed);
        let can_leave = self.tasks.get(&task).is_some_and(|placed| self.can_leave(placed));
        FollowUp::Act(match chosen.filter(|_| is_quiet && can_leave) {
            Some(devices) => self.leave(task, &devices, MoveReason::Loan { beneficiary }),
            None => Action::Stay { task },
        })
    }

    /// A task that left for its loan comes to the devices that were chosen then, if they still take
    /// it. The devices of other moves are chosen again.
    pub(super) fn try_loan_target(&mut self, task: TaskId) -> bool {
        let moving = self.tasks.get(&task).and_then(|placed| placed.moving.as_ref());
        let is_loan = |it: &&Moving| matches!(it.reason, Some(MoveReason::Loan { .. }));
        let Some(moving) = moving.filter(is_loan) else { return false };
        let devices: Vec<DeviceUuid> = moving.to.iter().map(|it| it.device.clone()).collect();
        let comes = self.may_come(task, &devices);
        if comes {
            self.assign_devices(task, &devices);
        }
        comes
    }

    /// The devices of a task with one in the place of another.
    fn devices_with(
        &self,
        task: TaskId,
        from: &DeviceUuid,
        to: &DeviceUuid,
    ) -> Option<Vec<DeviceUuid>> {
        let mut devices = self.tasks.get(&task)?.seats.devices();
        if devices.contains(to) {
            return None;
        }
        let left = devices.iter_mut().find(|device| *device == from)?;
        left.clone_from(to);
        Some(devices)
    }

    /// Whether a task may be on these devices, with all others where they are.
    fn may_come(&self, task: TaskId, devices: &[DeviceUuid]) -> bool {
        let (pieces, owners) = self.pieces(Some(task));
        let spaces = self.spaces();
        let own: Vec<usize> = (0..owners.len()).filter(|ix| owners[*ix] == task).collect();
        let comes = |(ix, uuid): (&usize, &DeviceUuid)| {
            let at = self.devices.iter().position(|device| device.uuid == *uuid);
            at.is_some_and(|at| may_come(&spaces, &pieces, *ix, at))
        };
        own.len() == devices.len() && own.iter().zip(devices).all(comes)
    }
}
