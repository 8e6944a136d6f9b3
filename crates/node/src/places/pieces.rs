//! The tasks and devices of a node as pieces and spaces, for [`crate::spread`].

use std::collections::BTreeMap;

use gpool_model::id::{DeviceUuid, ProjectName, TaskId};
use gpool_model::{Device, DeviceHealth, SlotPart};

use super::Places;
use crate::action::Seats;
use crate::placed::PlacementState;
use crate::spread::{Among, Guests, Piece, Space, spread};

impl Places {
    /// The positions of the devices for all tasks that use any or are about to, and for `new`.
    /// `None` if a task would have to move that can't.
    pub(super) fn plan(&self, new: Option<TaskId>) -> Option<BTreeMap<TaskId, Vec<usize>>> {
        let (pieces, owners) = self.pieces(new);
        let mut by_task: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
        for (task, at) in owners.into_iter().zip(spread(&self.spaces(), &pieces)?) {
            by_task.entry(task).or_default().push(at);
        }
        Some(by_task)
    }

    pub(super) fn spaces(&self) -> Vec<Space<'_>> {
        self.devices.iter().map(|device| self.space(device)).collect()
    }

    /// The parts of devices of all tasks that use any or are about to, and of `new`, each with its
    /// task.
    pub(super) fn pieces(&self, new: Option<TaskId>) -> (Vec<Piece>, Vec<TaskId>) {
        let is_placed =
            |task| self.waiting.iter().any(|waiting| waiting.task == task && waiting.is_placed);
        let (mut pieces, mut owners) = (Vec::new(), Vec::new());
        for (number, (task, placed)) in self.tasks.iter().enumerate() {
            let uses = match placed.state {
                PlacementState::Coming | PlacementState::Attaching | PlacementState::Running => {
                    true
                }
                PlacementState::Away
                | PlacementState::Unsettled
                | PlacementState::Paused
                | PlacementState::Leaving => false,
            };
            let is_new = new == Some(*task);
            let Some(places) = self.positions(&placed.seats) else { continue };
            if !(uses || is_new || is_placed(*task)) {
                continue;
            }
            let is_movable = self.can_leave(placed);
            for (slot, (at, booked)) in placed.seats.slots.iter().zip(places) {
                let share = match slot.part {
                    SlotPart::Share { memory, limit, .. } => Some((memory, limit)),
                    SlotPart::Whole | SlotPart::Instance { .. } => None,
                };
                let at = Some(at).filter(|_| !is_new);
                let can_move = is_movable && share.is_some();
                let (among, is_pinned) = (self.among(&placed.seats), self.is_pinned(placed));
                pieces.push(Piece { task: number, booked, at, share, can_move, is_pinned, among });
                owners.push(*task);
            }
        }
        (pieces, owners)
    }

    /// The tasks that may share a device with a task, by the position of its project.
    pub(super) fn among(&self, seats: &Seats) -> Among {
        let Some(sharer) = &seats.sharer else { return Among::default() };
        let mut projects: Vec<&ProjectName> =
            self.tasks.values().filter_map(|it| Some(&it.seats.sharer.as_ref()?.project)).collect();
        projects.sort_unstable();
        let project = projects.partition_point(|it| **it < sharer.project);
        Among { with: sharer.with.unwrap_or_default(), uid: sharer.uid, project }
    }

    /// The positions of the devices where a task is, and of those that are booked for it; `None` if
    /// the node has lost one.
    pub(super) fn positions(&self, seats: &Seats) -> Option<Vec<(usize, usize)>> {
        let at = |uuid: &DeviceUuid| self.devices.iter().position(|device| device.uuid == *uuid);
        let slots = seats.slots.iter().zip(&seats.booked);
        slots.map(|(slot, booked)| Some((at(&slot.device)?, at(booked)?))).collect()
    }

    pub(super) fn space<'d>(&self, device: &'d Device) -> Space<'d> {
        let is_fit = device.health == DeviceHealth::Healthy
            && device.unmanaged.is_empty()
            && !device.is_divided()
            && device.instance.is_none();
        let guests = match self.closed.contains(&device.uuid) {
            true => Guests::Leave,
            false if is_fit && self.can_move() => Guests::Come,
            false => Guests::Stay,
        };
        Space { model: &device.model, memory: device.memory, guests }
    }
}
