//! Where the tasks of a node are, and what must move before another one starts. The state machine
//! around [`crate::spread`].
//!
//! A task moves in two steps: it leaves its devices, and comes to others when they have room. So
//! two tasks can also change places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpool_model::Device;
use gpool_model::agent::{MoveIs, MoveReason, TaskOrder, Terms};
use gpool_model::id::{DeviceUuid, Generation, TaskId};

use crate::action::{Action, FollowUp, FoundState, Moves, Seats};
use crate::moving::{Moving, on_devices};
use crate::placed::{Aim, Placed, PlacementState, WaitingTask};

mod pieces;
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
    waiting: VecDeque<WaitingTask>,
}

impl Places {
    /// Replaces the description of the devices.
    pub fn describe(&mut self, devices: Vec<Device>, moves: Moves) -> Vec<FollowUp> {
        (self.devices, self.moves, self.is_described) = (devices, moves, true);
        self.advance()
    }

    /// Replaces the devices on which no guest may be.
    pub fn close(&mut self, closed: BTreeSet<DeviceUuid>) -> Vec<FollowUp> {
        self.closed = closed;
        self.advance()
    }

    /// Notes a task that was already on this node. If it `is_settled`, its shepherd has no orders
    /// of earlier agents left.
    pub fn found(
        &mut self,
        task: TaskId,
        seats: Seats,
        is: FoundState,
        is_settled: bool,
    ) -> Vec<FollowUp> {
        let was = self.tasks.get(&task).map(|placed| placed.state);
        if seats.slots.is_empty() || (was.is_some() && !is_settled) {
            return Vec::new();
        }
        let state = match is {
            FoundState::Launching => PlacementState::Coming,
            FoundState::Running if is_settled => PlacementState::Running,
            FoundState::Running => PlacementState::Coming,
            FoundState::Paused if is_settled => PlacementState::Paused,
            FoundState::Detached if is_settled => PlacementState::Away,
            FoundState::Paused | FoundState::Detached => PlacementState::Unsettled,
        };
        self.waiting.retain(|waiting| waiting.task != task);
        let mut placed = Placed::new(seats, state);
        placed.moving = (state == PlacementState::Away).then(|| Moving::found(&placed.seats.slots));
        self.tasks.insert(task, placed);
        match state {
            PlacementState::Away => self.waits(task, Aim::Attach),
            // Other tasks may not be known yet.
            _ if was.is_none() => Vec::new(),
            _ => self.advance(),
        }
    }

    /// Places a task that should start. Its launch follows once nothing is in the way.
    pub fn arrive(&mut self, order: Box<TaskOrder>) -> Vec<FollowUp> {
        let task = order.task();
        let sharer = order.sharer.clone();
        let is_pinned = order.spec.yields().is_some();
        let seats = Seats { sharer, is_pinned, ..Seats::booked(&order.allocation.slots) };
        if seats.slots.is_empty() {
            return vec![FollowUp::Act(Action::Launch { order, seats })];
        }
        self.tasks.insert(task, Placed::new(seats, PlacementState::Away));
        self.waits(task, Aim::Launch(order))
    }

    /// A task should go on that is or was about to be paused. A paused one may have other booked
    /// devices than before.
    pub fn resume(
        &mut self,
        task: TaskId,
        generation: Generation,
        booked: &[DeviceUuid],
    ) -> Vec<FollowUp> {
        self.rebook(task, booked);
        self.go_on(task, generation)
    }

    /// Notes the devices that are booked for a paused task, if they are others.
    fn rebook(&mut self, task: TaskId, booked: &[DeviceUuid]) {
        let placed = self.tasks.get_mut(&task).filter(|it| it.state == PlacementState::Paused);
        let Some(placed) = placed.filter(|it| !booked.is_empty() && it.seats.booked != booked)
        else {
            return;
        };
        placed.seats.booked = booked.to_vec();
        self.assign_devices(task, booked);
    }

    fn go_on(&mut self, task: TaskId, generation: Generation) -> Vec<FollowUp> {
        let Some(placed) = self.tasks.get_mut(&task) else {
            let (devices, booked) = (Vec::new(), Vec::new());
            return vec![FollowUp::Act(Action::Resume { task, generation, devices, booked })];
        };
        match placed.state {
            PlacementState::Paused => {
                self.waiting.retain(|waiting| waiting.task != task);
                self.waits(task, Aim::Resume(generation))
            }
            // It has no devices to resume on before its move is over.
            PlacementState::Leaving | PlacementState::Attaching => {
                placed.resume = Some(generation);
                Vec::new()
            }
            PlacementState::Away => {
                let own = self.waiting.iter_mut().find(|waiting| waiting.task == task);
                own.into_iter().for_each(|waiting| waiting.aim = Aim::Resume(generation));
                Vec::new()
            }
            // The server repeats the order.
            PlacementState::Unsettled => Vec::new(),
            PlacementState::Coming | PlacementState::Running => {
                vec![FollowUp::Act(placed.seats.resume(task, generation))]
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

    fn waits(&mut self, task: TaskId, aim: Aim) -> Vec<FollowUp> {
        self.waiting.push_back(WaitingTask { task, is_placed: false, aim });
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
    pub fn change(&mut self, task: TaskId, generation: Generation, terms: &Terms) -> Vec<FollowUp> {
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
    pub fn started(&mut self, task: TaskId) -> Vec<FollowUp> {
        self.runs(task, &[PlacementState::Coming])
    }

    /// A task has come to its devices from others.
    pub fn attached(&mut self, task: TaskId) -> Vec<FollowUp> {
        self.runs(task, &[PlacementState::Attaching])
    }

    /// A task goes on after a pause.
    pub fn resumed(&mut self, task: TaskId) -> Vec<FollowUp> {
        self.runs(task, &[PlacementState::Coming, PlacementState::Paused])
    }

    /// A task uses its devices, if it was in one of these states.
    fn runs(&mut self, task: TaskId, from: &[PlacementState]) -> Vec<FollowUp> {
        let placed = self.tasks.get_mut(&task).filter(|placed| from.contains(&placed.state));
        let Some(placed) = placed else { return Vec::new() };
        placed.state = PlacementState::Running;
        let resume = placed.resume.take();
        let mut steps: Vec<FollowUp> = placed.report(task, MoveIs::Done).into_iter().collect();
        steps.extend(self.advance());
        if let Some(generation) = resume {
            steps.extend(self.go_on(task, generation));
        }
        steps
    }

    /// A task is paused, and others may use its devices.
    pub fn paused(&mut self, task: TaskId) -> Vec<FollowUp> {
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        (placed.state, placed.moving) = (PlacementState::Paused, None);
        self.waiting.retain(|waiting| waiting.task != task);
        match placed.resume.take() {
            Some(generation) => self.waits(task, Aim::Resume(generation)),
            None => self.advance(),
        }
    }

    /// A task could not resume on other devices: it is paused, and resumes on these.
    pub fn not_resumed(&mut self, task: TaskId, devices: &[DeviceUuid]) -> Vec<FollowUp> {
        let steps = self.paused(task);
        self.rebook(task, devices);
        steps
    }

    /// A task has left its devices, or could not.
    pub fn detached(&mut self, task: TaskId, is_done: bool) -> Vec<FollowUp> {
        // An earlier agent may have sent it away by the driver, which takes long.
        let by_driver = self.moves != Moves::Freely;
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        let was_sent = by_driver && is_done && placed.state == PlacementState::Running;
        let is_news = placed.state == PlacementState::Leaving || was_sent;
        if !is_news {
            return Vec::new();
        }
        if is_done {
            placed.state = PlacementState::Away;
            placed.moving.get_or_insert_with(|| Moving::found(&placed.seats.slots));
            let aim = placed.resume.take().map_or(Aim::Attach, Aim::Resume);
            let is_placed = self.try_loan_target(task);
            self.waiting.push_back(WaitingTask { task, is_placed, aim });
            return self.advance();
        }
        (placed.state, placed.is_stuck) = (PlacementState::Attaching, true);
        let mut steps: Vec<FollowUp> = placed.report(task, MoveIs::NotLeft).into_iter().collect();
        self.choose_again();
        steps.extend(self.attached(task));
        steps
    }

    /// A task could not come to its devices. Only those that it left are certain to take it.
    pub fn not_attached(&mut self, task: TaskId, previous: &[DeviceUuid]) -> Vec<FollowUp> {
        // An earlier agent may have sent it to devices that its claim shows already.
        let by_driver = self.moves != Moves::Freely;
        let Some(placed) = self.tasks.get_mut(&task) else { return Vec::new() };
        placed.is_stuck = true;
        let was_sent = by_driver && placed.state == PlacementState::Running;
        if placed.state != PlacementState::Attaching && !was_sent {
            return Vec::new();
        }
        placed.state = PlacementState::Away;
        let aim = placed.resume.take().map_or(Aim::Attach, Aim::Resume);
        let mut steps: Vec<FollowUp> =
            placed.report(task, MoveIs::NotReached).into_iter().collect();
        self.assign_devices(task, previous);
        self.choose_again();
        self.waiting.push_back(WaitingTask { task, is_placed: true, aim });
        steps.extend(self.advance());
        steps
    }

    /// Chooses the devices of waiting tasks again: they need other moves.
    fn choose_again(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.is_placed = false);
    }

    /// A task has ended, or was refused.
    pub fn release(&mut self, task: TaskId) -> Vec<FollowUp> {
        self.waiting.retain(|waiting| waiting.task != task);
        match self.tasks.remove(&task) {
            Some(_) => self.advance(),
            None => Vec::new(),
        }
    }

    /// Places waiting tasks, and starts those whose devices have room.
    fn advance(&mut self) -> Vec<FollowUp> {
        let mut steps = Vec::new();
        let is_unsettled =
            self.tasks.values().any(|placed| placed.state == PlacementState::Unsettled);
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
                        steps.push(FollowUp::Refuse(task, booked.unwrap_or_default()));
                        continue;
                    }
                }
            }
            self.waiting[next].is_placed = true;
            let waiting = &self.waiting[next];
            if (has_choice || self.is_share(waiting.task)) && !self.has_room(waiting) {
                next += 1;
            } else if let Some(waiting) = self.waiting.remove(next) {
                steps.push(FollowUp::Act(self.start(waiting)));
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
        let is_unsettled = |state| {
            matches!(
                state,
                PlacementState::Coming | PlacementState::Attaching | PlacementState::Leaving
            )
        };
        self.tasks.values().any(|placed| is_unsettled(placed.state) && !placed.is_stuck)
    }

    fn start(&mut self, waiting: WaitingTask) -> Action {
        let WaitingTask { task, aim, .. } = waiting;
        let placed = self.tasks.get_mut(&task).expect("a waiting task has devices");
        placed.state = match aim {
            Aim::Attach => PlacementState::Attaching,
            Aim::Launch(_) | Aim::Resume(_) => PlacementState::Coming,
        };
        let seats = placed.seats.clone();
        match aim {
            Aim::Launch(order) => Action::Launch { order, seats },
            Aim::Resume(generation) => seats.resume(task, generation),
            Aim::Attach => Action::Attach { task, devices: seats.devices() },
        }
    }

    /// The reason for moves that make room for a task.
    fn reason(&self, task: TaskId) -> MoveReason {
        let own = self.tasks.get(&task).and_then(|placed| placed.moving.as_ref()?.reason);
        own.unwrap_or(MoveReason::Room { beneficiary: task })
    }

    /// Notes the places of tasks that use no device, and lets the others leave theirs if they
    /// should be elsewhere. Those are placed again once they have left.
    fn move_to(
        &mut self,
        places: &BTreeMap<TaskId, Vec<usize>>,
        reason: MoveReason,
    ) -> Vec<FollowUp> {
        let mut steps = Vec::new();
        for (task, places) in places {
            let devices: Vec<DeviceUuid> =
                places.iter().map(|at| self.devices[*at].uuid.clone()).collect();
            let Some(placed) = self.tasks.get(task) else { continue };
            match placed.state {
                PlacementState::Running if placed.seats.devices() != devices => {
                    steps.push(FollowUp::Act(self.leave(*task, &devices, reason)));
                }
                PlacementState::Away | PlacementState::Paused => {
                    self.assign_devices(*task, &devices)
                }
                PlacementState::Unsettled
                | PlacementState::Running
                | PlacementState::Coming
                | PlacementState::Attaching
                | PlacementState::Leaving => {}
            }
        }
        steps
    }

    fn assign_devices(&mut self, task: TaskId, devices: &[DeviceUuid]) {
        let Some(placed) = self.tasks.get_mut(&task) else { return };
        placed.seats.slots = on_devices(&placed.seats.slots, &self.devices, devices);
    }
}

/// Whether a task is on one of these devices without a booking.
fn is_guest_on(devices: &BTreeSet<DeviceUuid>, seats: &Seats) -> bool {
    let mut places = seats.slots.iter().zip(&seats.booked);
    places.any(|(slot, booked)| slot.device != *booked && devices.contains(&slot.device))
}
