//! Where the tasks of a node are, and what must move before another one starts. The state machine
//! around [`crate::spread`].
//!
//! A task moves in two steps: it leaves its devices, and comes to others when they have room. So
//! two tasks can also change places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpool_model::agent::{MoveIs, MoveReason, TaskOrder, Terms};
use gpool_model::id::{DeviceUuid, Generation, ProjectName, TaskId};
use gpool_model::{Device, DeviceHealth, SlotPart};

use crate::action::{Action, Found, Moves, Seats, Step};
use crate::moving::{Moving, on_devices};
use crate::placed::{Aim, Placed, State, Waiting};
use crate::spread::{Among, Guests, Piece, Space, spread};

mod relocate;
mod room;

/// The devices of a node with the tasks on them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    devices: Vec<Device>,
    /// Whether the devices are known. Before that, nothing is placed.
    is_described: bool,
    /// How the node moves running tasks.
    moves: Moves,
    /// Devices on which no guest may be: drained or reserved.
    closed: BTreeSet<DeviceUuid>,
    tasks: BTreeMap<TaskId, Placed>,
    /// Tasks that wait for their devices, oldest first.
    waiting: VecDeque<Waiting>,
}

impl Places {
    /// Replaces the description of the devices.
    pub fn describe(&mut self, devices: Vec<Device>, moves: Moves) -> Vec<Step> {
        (self.devices, self.moves, self.is_described) = (devices, moves, true);
        self.advance()
    }

    /// Replaces the devices on which no guest may be.
    pub fn close(&mut self, closed: BTreeSet<DeviceUuid>) -> Vec<Step> {
        self.closed = closed;
        self.advance()
    }

    /// Notes a task that was already on this node. If it `is_settled`, its shepherd has no orders
    /// of earlier agents left.
    pub fn found(&mut self, task: TaskId, seats: Seats, is: Found, is_settled: bool) -> Vec<Step> {
        let was = self.tasks.get(&task).map(|placed| placed.state);
        if seats.slots.is_empty() || (was.is_some() && !is_settled) {
            return Vec::new();
        }
        let state = match is {
            Found::Launching => State::Coming,
            Found::Running if is_settled => State::Running,
            Found::Running => State::Coming,
            Found::Paused if is_settled => State::Paused,
            Found::Detached if is_settled => State::Away,
            Found::Paused | Found::Detached => State::Unsettled,
        };
        self.waiting.retain(|waiting| waiting.task != task);
        let mut placed = Placed::new(seats, state);
        placed.moving = (state == State::Away).then(|| Moving::found(&placed.seats.slots));
        self.tasks.insert(task, placed);
        match state {
            State::Away => self.waits(task, Aim::Attach),
            // Other tasks may not be known yet.
            _ if was.is_none() => Vec::new(),
            _ => self.advance(),
        }
    }

    /// Places a task that should start. Its launch follows once nothing is in the way.
    pub fn arrive(&mut self, order: Box<TaskOrder>) -> Vec<Step> {
        let task = order.task();
        let sharer = order.sharer.clone();
        let is_pinned = order.spec.yields().is_some();
        let seats = Seats { sharer, is_pinned, ..Seats::booked(&order.allocation.slots) };
        if seats.slots.is_empty() {
            return vec![Step::Act(Action::Launch { order, seats })];
        }
        self.tasks.insert(task, Placed::new(seats, State::Away));
        self.waits(task, Aim::Launch(order))
    }

    /// A task should go on that is or was about to be paused. A paused one may have other booked
    /// devices than before.
    pub fn resume(
        &mut self,
        task: TaskId,
        generation: Generation,
        booked: &[DeviceUuid],
    ) -> Vec<Step> {
        self.rebook(task, booked);
        self.go_on(task, generation)
    }

    /// Notes the devices that are booked for a paused task, if they are others.
    fn rebook(&mut self, task: TaskId, booked: &[DeviceUuid]) {
        let placed = self.tasks.get_mut(&task).filter(|it| it.state == State::Paused);
        let Some(placed) = placed.filter(|it| !booked.is_empty() && it.seats.booked != booked)
        else {
            return;
        };
        placed.seats.booked = booked.to_vec();
        self.put(task, booked);
    }

    fn go_on(&mut self, task: TaskId, generation: Generation) -> Vec<Step> {
        let Some(placed) = self.tasks.get_mut(&task) else {
            let (devices, booked) = (Vec::new(), Vec::new());
            return vec![Step::Act(Action::Resume { task, generation, devices, booked })];
        };
        match placed.state {
            State::Paused => {
                self.waiting.retain(|waiting| waiting.task != task);
                self.waits(task, Aim::Resume(generation))
            }
            // It has no devices to resume on before its move is over.
            State::Leaving | State::Attaching => {
                placed.resume = Some(generation);
                Vec::new()
            }
            State::Away => {
                let own = self.waiting.iter_mut().find(|waiting| waiting.task == task);
                own.into_iter().for_each(|waiting| waiting.aim = Aim::Resume(generation));
                Vec::new()
            }
            // The server repeats the order.
            State::Unsettled => Vec::new(),
            State::Coming | State::Running => {
                vec![Step::Act(placed.seats.resume(task, generation))]
            }
        }
    }

    /// Whether a task resumes once its move is over.
    pub fn resumes_later(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|placed| placed.resume.is_some())
    }

    /// A task does not resume after its move: a later order is to pause it.
    pub fn cancel_resume(&mut self, task: TaskId) {
        self.tasks.get_mut(&task).into_iter().for_each(|placed| placed.resume = None);
    }

    fn waits(&mut self, task: TaskId, aim: Aim) -> Vec<Step> {
        self.waiting.push_back(Waiting { task, is_placed: false, aim });
        self.advance()
    }

    /// Where each task is, or goes.
    pub fn seats(&self) -> impl Iterator<Item = (TaskId, &Seats)> {
        self.tasks.iter().map(|(task, placed)| (*task, &placed.seats))
    }

    /// Whether a task waits to be launched.
    pub fn is_waiting(&self, task: TaskId) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|it| it.task == task && matches!(it.aim, Aim::Launch(_)))
    }

    /// Changes the terms of a task. Where it outgrows its device, guests there move away.
    pub fn change(&mut self, task: TaskId, generation: Generation, terms: &Terms) -> Vec<Step> {
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.task == task);
        if let Some(waiting) = waiting {
            waiting.is_placed = false;
            if let Aim::Launch(order) = &mut waiting.aim {
                order.generation = generation;
                std::sync::Arc::make_mut(&mut order.spec).time_limit = terms.limit;
                terms.resize(&mut order.allocation.slots);
            }
        }
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        terms.resize(&mut placed.seats.slots);
        self.advance()
    }

    /// The program of a task was started on its devices.
    pub fn started(&mut self, task: TaskId) -> Vec<Step> {
        self.runs(task, &[State::Coming])
    }

    /// A task has come to its devices from others.
    pub fn attached(&mut self, task: TaskId) -> Vec<Step> {
        self.runs(task, &[State::Attaching])
    }

    /// A task goes on after a pause.
    pub fn resumed(&mut self, task: TaskId) -> Vec<Step> {
        self.runs(task, &[State::Coming, State::Paused])
    }

    /// A task uses its devices, if it was in one of these states.
    fn runs(&mut self, task: TaskId, from: &[State]) -> Vec<Step> {
        let placed = self.tasks.get_mut(&task).filter(|placed| from.contains(&placed.state));
        let Some(placed) = placed else { return Vec::new() };
        placed.state = State::Running;
        let resume = placed.resume.take();
        let mut steps: Vec<Step> = placed.report(task, MoveIs::Done).into_iter().collect();
        steps.extend(self.advance());
        if let Some(generation) = resume {
            steps.extend(self.go_on(task, generation));
        }
        steps
    }

    /// A task is paused, and others may use its devices.
    pub fn paused(&mut self, task: TaskId) -> Vec<Step> {
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        (placed.state, placed.moving) = (State::Paused, None);
        self.waiting.retain(|waiting| waiting.task != task);
        match placed.resume.take() {
            Some(generation) => self.waits(task, Aim::Resume(generation)),
            None => self.advance(),
        }
    }

    /// A task could not resume on other devices: it is paused, and resumes on these.
    pub fn not_resumed(&mut self, task: TaskId, devices: &[DeviceUuid]) -> Vec<Step> {
        let steps = self.paused(task);
        self.rebook(task, devices);
        steps
    }

    /// A task has left its devices, or could not.
    pub fn detached(&mut self, task: TaskId, is_done: bool) -> Vec<Step> {
        // An earlier agent may have sent it away by the driver, which takes long.
        let by_driver = self.moves != Moves::Freely;
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        let was_sent = by_driver && is_done && placed.state == State::Running;
        let is_news = placed.state == State::Leaving || was_sent;
        if !is_news {
            return Vec::new();
        }
        if is_done {
            placed.state = State::Away;
            placed.moving.get_or_insert_with(|| Moving::found(&placed.seats.slots));
            let aim = placed.resume.take().map_or(Aim::Attach, Aim::Resume);
            let is_placed = self.comes_to_chosen(task);
            self.waiting.push_back(Waiting { task, is_placed, aim });
            return self.advance();
        }
        (placed.state, placed.is_stuck) = (State::Attaching, true);
        let mut steps: Vec<Step> = placed.report(task, MoveIs::NotLeft).into_iter().collect();
        self.choose_again();
        steps.extend(self.attached(task));
        steps
    }

    /// A task could not come to its devices. Only those that it left are certain to take it.
    pub fn not_attached(&mut self, task: TaskId, left: &[DeviceUuid]) -> Vec<Step> {
        // An earlier agent may have sent it to devices that its claim shows already.
        let by_driver = self.moves != Moves::Freely;
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        placed.is_stuck = true;
        let was_sent = by_driver && placed.state == State::Running;
        if placed.state != State::Attaching && !was_sent {
            return Vec::new();
        }
        placed.state = State::Away;
        let aim = placed.resume.take().map_or(Aim::Attach, Aim::Resume);
        let mut steps: Vec<Step> = placed.report(task, MoveIs::NotReached).into_iter().collect();
        self.put(task, left);
        self.choose_again();
        self.waiting.push_back(Waiting { task, is_placed: true, aim });
        steps.extend(self.advance());
        steps
    }

    /// Chooses the devices of waiting tasks again: they need other moves.
    fn choose_again(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.is_placed = false);
    }

    /// A task has ended, or was refused.
    pub fn left(&mut self, task: TaskId) -> Vec<Step> {
        self.waiting.retain(|waiting| waiting.task != task);
        match self.tasks.remove(&task) {
            Some(_) => self.advance(),
            None => Vec::new(),
        }
    }

    /// Places waiting tasks, and starts those whose devices have room.
    fn advance(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let is_unsettled = self.tasks.values().any(|placed| placed.state == State::Unsettled);
        if is_unsettled || !self.is_described {
            return steps;
        }
        self.avoid_closed();
        // Its tasks are where the server booked them, unless the driver moved some before.
        let has_choice = self.can_move() || self.has_guests();
        let mut next = 0;
        while let Some(waiting) = self.waiting.get(next) {
            let (task, is_launch) = (waiting.task, matches!(waiting.aim, Aim::Launch(_)));
            if !waiting.is_placed && has_choice {
                match self.plan(Some(task)) {
                    Some(places) => {
                        steps.extend(self.move_to(&places, self.reason(task)));
                    }
                    None if self.is_unsettled() => break,
                    // It is between devices, and comes before tasks that have not started.
                    None if !is_launch && self.displace_launches() => {
                        let first = self.waiting.remove(next);
                        first.into_iter().for_each(|it| self.waiting.push_front(it));
                        next = 0;
                        continue;
                    }
                    // If all can move, a task that was found has ended, and says so soon.
                    None if !(is_launch && self.has_stuck()) => {
                        next += 1;
                        continue;
                    }
                    None => {
                        self.waiting.remove(next);
                        let placed = self.tasks.remove(&task);
                        let booked = placed.map(|placed| placed.seats.booked);
                        steps.push(Step::Refuse(task, booked.unwrap_or_default()));
                        continue;
                    }
                }
            }
            self.waiting[next].is_placed = true;
            let waiting = &self.waiting[next];
            if (has_choice || self.is_share(waiting.task)) && !self.has_room(waiting) {
                next += 1;
            } else if let Some(waiting) = self.waiting.remove(next) {
                steps.push(Step::Act(self.start(waiting)));
            }
        }
        let outgrown = self.outgrown().map(|beneficiary| MoveReason::Room { beneficiary });
        let has_to_leave = self.tasks.values().any(|placed| self.has_to_leave(placed));
        if let Some(reason) = outgrown.or(has_to_leave.then_some(MoveReason::Closed)) {
            // A guest that can't move stays.
            let places = self.plan(None);
            steps.extend(places.map(|it| self.move_to(&it, reason)).unwrap_or_default());
        }
        steps
    }

    /// Whether a task is on a device that was closed for guests, and can be moved.
    fn has_to_leave(&self, placed: &Placed) -> bool {
        self.can_leave(placed) && is_guest_on(&self.closed, &placed.seats)
    }

    /// Chooses the devices of waiting tasks again that were to come to one that was closed since.
    fn avoid_closed(&mut self) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.is_placed) {
            let placed = self.tasks.get(&waiting.task);
            waiting.is_placed = !placed.is_some_and(|it| is_guest_on(&self.closed, &it.seats));
        }
    }

    /// Whether some task is about to become movable.
    fn is_unsettled(&self) -> bool {
        let is_unsettled =
            |state| matches!(state, State::Coming | State::Attaching | State::Leaving);
        self.tasks.values().any(|placed| is_unsettled(placed.state) && !placed.is_stuck)
    }

    fn start(&mut self, waiting: Waiting) -> Action {
        let Waiting { task, aim, .. } = waiting;
        let placed = self.tasks.get_mut(&task).expect("a waiting task has devices");
        placed.state = match aim {
            Aim::Attach => State::Attaching,
            Aim::Launch(_) | Aim::Resume(_) => State::Coming,
        };
        let seats = placed.seats.clone();
        match aim {
            Aim::Launch(order) => Action::Launch { order, seats },
            Aim::Resume(generation) => seats.resume(task, generation),
            Aim::Attach => Action::Attach { task, devices: seats.devices() },
        }
    }

    /// The positions of the devices for all tasks that use any or are about to, and for `new`.
    /// `None` if a task would have to move that can't.
    fn plan(&self, new: Option<TaskId>) -> Option<BTreeMap<TaskId, Vec<usize>>> {
        let (pieces, owners) = self.pieces(new);
        let mut by_task: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
        for (task, at) in owners.into_iter().zip(spread(&self.spaces(), &pieces)?) {
            by_task.entry(task).or_default().push(at);
        }
        Some(by_task)
    }

    fn spaces(&self) -> Vec<Space<'_>> {
        self.devices.iter().map(|device| self.space(device)).collect()
    }

    /// The parts of devices of all tasks that use any or are about to, and of `new`, each with its
    /// task.
    fn pieces(&self, new: Option<TaskId>) -> (Vec<Piece>, Vec<TaskId>) {
        let is_placed =
            |task| self.waiting.iter().any(|waiting| waiting.task == task && waiting.is_placed);
        let (mut pieces, mut owners) = (Vec::new(), Vec::new());
        for (number, (task, placed)) in self.tasks.iter().enumerate() {
            let uses = match placed.state {
                State::Coming | State::Attaching | State::Running => true,
                State::Away | State::Unsettled | State::Paused | State::Leaving => false,
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
    fn among(&self, seats: &Seats) -> Among {
        let Some(sharer) = &seats.sharer else { return Among::default() };
        let mut projects: Vec<&ProjectName> =
            self.tasks.values().filter_map(|it| Some(&it.seats.sharer.as_ref()?.project)).collect();
        projects.sort_unstable();
        let project = projects.partition_point(|it| **it < sharer.project);
        Among { with: sharer.with.unwrap_or_default(), uid: sharer.uid, project }
    }

    /// The positions of the devices where a task is, and of those that are booked for it; `None` if
    /// the node has lost one.
    fn positions(&self, seats: &Seats) -> Option<Vec<(usize, usize)>> {
        let at = |uuid: &DeviceUuid| self.devices.iter().position(|device| device.uuid == *uuid);
        let slots = seats.slots.iter().zip(&seats.booked);
        slots.map(|(slot, booked)| Some((at(&slot.device)?, at(booked)?))).collect()
    }

    fn space<'d>(&self, device: &'d Device) -> Space<'d> {
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

    /// The reason for moves that make room for a task.
    fn reason(&self, task: TaskId) -> MoveReason {
        let own = self.tasks.get(&task).and_then(|placed| placed.moving.as_ref()?.reason);
        own.unwrap_or(MoveReason::Room { beneficiary: task })
    }

    /// Notes the places of tasks that use no device, and lets the others leave theirs if they
    /// should be elsewhere. Those are placed again once they have left.
    fn move_to(&mut self, places: &BTreeMap<TaskId, Vec<usize>>, reason: MoveReason) -> Vec<Step> {
        let mut steps = Vec::new();
        for (task, places) in places {
            let devices: Vec<DeviceUuid> =
                places.iter().map(|at| self.devices[*at].uuid.clone()).collect();
            let Some(placed) = self.tasks.get(task) else { continue };
            match placed.state {
                State::Running if placed.seats.devices() != devices => {
                    steps.push(Step::Act(self.leave(*task, &devices, reason)));
                }
                State::Away | State::Paused => self.put(*task, &devices),
                State::Unsettled
                | State::Running
                | State::Coming
                | State::Attaching
                | State::Leaving => {}
            }
        }
        steps
    }

    fn put(&mut self, task: TaskId, devices: &[DeviceUuid]) {
        let Some(placed) = self.tasks.get_mut(&task) else { return };
        placed.seats.slots = on_devices(&placed.seats.slots, &self.devices, devices);
    }
}

/// Whether a task is on one of these devices without a booking.
fn is_guest_on(devices: &BTreeSet<DeviceUuid>, seats: &Seats) -> bool {
    let mut places = seats.slots.iter().zip(&seats.booked);
    places.any(|(slot, booked)| slot.device != *booked && devices.contains(&slot.device))
}
