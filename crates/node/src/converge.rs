//! The state machine of an agent. Orders may come twice, late, in any order, or not at all; a task
//! is still launched only once. This module does no I/O: the agent carries out the actions and
//! returns their results as inputs.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::SignalTo;
use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskIs, TaskOrder, TaskReport, Terms};
use gpool_model::id::{DeviceUuid, Generation, RequestId, TaskId, Term};
use gpool_model::unit::{Millis, Timestamp};

pub use crate::action::{Action, Halting, Input, Moves, Seats};
use crate::action::{FollowUp, FoundState, Halt};
use crate::done::Done;
use crate::places::Places;
use crate::task::{Ending, Growth, Task, TaskState};

/// The tasks of an agent, and the orders for them.
#[derive(Debug, Clone, Default)]
pub struct Converge {
    /// The highest term of all orders.
    term: Term,
    tasks: BTreeMap<TaskId, Task>,
    places: Places,
    done: Done,
    /// Requests for signals that were carried out in this term.
    signalled: BTreeSet<RequestId>,
}

impl Converge {
    /// The state of an agent that has just started. `done` are tasks with ends that were
    /// acknowledged in earlier runs of the agent, oldest first.
    #[must_use]
    pub fn new(done: impl IntoIterator<Item = TaskId>) -> Self {
        let mut converge = Self::default();
        for task in done {
            converge.done.insert(task, None);
        }
        converge
    }

    /// Processes one input; returns the actions in the order to carry them out.
    #[must_use]
    pub fn step(&mut self, input: Input) -> Vec<Action> {
        let mut actions = self.react(input);
        actions.extend(self.grow());
        actions
    }

    fn react(&mut self, input: Input) -> Vec<Action> {
        let steps = match input {
            Input::Order(order) => return self.obey(order),
            Input::Devices { devices, moves } => self.places.describe(devices, moves),
            Input::Found { report, seats, is_detached, is_settled } => {
                return self.found(report, (seats, is_detached, is_settled));
            }
            Input::Started { task, pid, started_at } => return self.started(task, pid, started_at),
            Input::Relocate { task, from, to, beneficiary } => {
                vec![self.places.relocate(task, (&from, &to), beneficiary)]
            }
            Input::Detached { task, is_done } => self.places.detached(task, is_done),
            Input::Parked { task } => self.places.parked(task),
            Input::Attached { task } => self.places.attached(task),
            Input::NotAttached { task, left } => self.places.not_attached(task, &left),
            Input::Changed { task, generation } => return self.changed(task, generation),
            Input::Halted { task, generation, halting } => {
                return self.halted(task, generation, halting);
            }
            Input::Refused { task, devices } => return self.refused(task, devices),
            Input::Ended { task, end } => return self.ended(task, end),
        };
        self.follow(steps)
    }

    /// Returns the reports of all known tasks.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskReport> {
        self.tasks.iter().map(|(task, known)| known.report(*task)).collect()
    }

    /// Returns where each task with devices is, or goes.
    pub fn seats(&self) -> impl Iterator<Item = (TaskId, &Seats)> {
        self.places.seats()
    }

    fn obey(&mut self, order: Order) -> Vec<Action> {
        let term = order.term();
        if term < self.term {
            return Vec::new();
        }
        if term > self.term {
            self.term = term;
            self.signalled.clear();
        }
        match order {
            Order::Sync { term, round, closed } => {
                let steps = self.places.close(closed);
                let mut actions = self.follow(steps);
                let (stamp, tasks) = (Stamp::default(), self.tasks());
                actions.push(Action::Report(Report::Tasks { stamp, term, round, tasks }));
                actions
            }
            Order::Run(order) => self.run(order),
            Order::Stop { task, generation, grace, signal, .. } => {
                self.stop(task, generation, Ending { grace, signal })
            }
            Order::Change { task, generation, terms, .. } => self.change(task, generation, &terms),
            Order::Pause { task, generation, runs_on, .. } => {
                self.halt(task, generation, Ok(runs_on))
            }
            Order::Resume { task, generation, devices, .. } => {
                self.halt(task, generation, Err(devices))
            }
            Order::Signal { task, signal, to, request, .. } => {
                self.signal(task, (signal, to), request)
            }
            Order::Acknowledge { task, generation, .. } => self.acknowledged(task, generation),
        }
    }

    fn run(&mut self, order: Box<TaskOrder>) -> Vec<Action> {
        let (task, generation) = (order.task(), order.generation);
        if self.done.bars(task, generation) {
            return self.barred(task, generation);
        }
        if let Some(known) = self.tasks.get_mut(&task) {
            let newer = generation > known.generation;
            if newer && known.goes_on() {
                // The task is under way; only its terms can change.
                let parts = order.allocation.slots.iter().map(|slot| slot.part).collect();
                let mut actions = self.report(task);
                let terms = Terms { limit: order.spec.time_limit, parts };
                actions.extend(self.change(task, generation, &terms));
                return actions;
            }
            known.generation = known.generation.max(generation);
            if !(newer && matches!(known.state, TaskState::Refused { .. })) {
                // A server that repeats an order may have missed the report.
                return self.report(task);
            }
        }
        self.tasks.insert(task, Task::new(generation, TaskState::Launching { stop: None }));
        let steps = self.places.arrive(order);
        self.follow(steps)
    }

    /// Carries out what follows for the devices.
    fn follow(&mut self, steps: Vec<FollowUp>) -> Vec<Action> {
        let mut actions = Vec::new();
        for step in steps {
            match step {
                FollowUp::Act(action) => actions.push(action),
                FollowUp::Refuse(task, devices) => actions.extend(self.refused(task, devices)),
            }
        }
        actions
    }

    /// The actions of a change, and those of tasks that waited for the devices of this one.
    fn then_release(&mut self, task: TaskId, mut actions: Vec<Action>) -> Vec<Action> {
        let steps = self.places.release(task);
        actions.extend(self.follow(steps));
        actions
    }

    /// Answers an order for a task that is not launched any more. Without the answer, a server that
    /// does not know the end would repeat the order forever.
    fn barred(&self, task: TaskId, generation: Generation) -> Vec<Action> {
        let over = TaskReport { task, generation, is: TaskIs::Over };
        let is_over = self.done.is_over(task);
        is_over.then_some(Action::Report(Report::Task(over))).into_iter().collect()
    }

    fn stop(&mut self, task: TaskId, generation: Generation, ending: Ending) -> Vec<Action> {
        let prevent = |known: &mut Task| {
            known.state = TaskState::Preventing { ending };
            vec![Action::Prevent { task, generation: known.generation }]
        };
        let Some(known) = self.tasks.get_mut(&task) else {
            if self.done.bars(task, generation) {
                return self.barred(task, generation);
            }
            let mut known = Task::new(generation, TaskState::Preventing { ending });
            let actions = prevent(&mut known);
            self.tasks.insert(task, known);
            return actions;
        };
        if generation < known.generation {
            return Vec::new();
        }
        known.generation = generation;
        match &mut known.state {
            TaskState::Launching { .. } if self.places.is_waiting(task) => {
                let actions = prevent(known);
                self.then_release(task, actions)
            }
            TaskState::Launching { stop } | TaskState::Running { stop, .. } => {
                // A repeated order changes nothing, unless it ends the task sooner.
                if stop.is_some_and(|earlier| earlier.covers(ending)) {
                    return Vec::new();
                }
                *stop = Some(ending);
                vec![ending.action(task)]
            }
            TaskState::Preventing { .. } => Vec::new(),
            TaskState::Refused { .. } => prevent(known),
            TaskState::Ended(_) => self.report(task),
        }
    }

    /// New terms never launch a task. Their generation counts only once it is noted in the claim.
    /// The server repeats terms that have no room yet.
    fn change(&mut self, task: TaskId, generation: Generation, terms: &Terms) -> Vec<Action> {
        match self.tasks.get_mut(&task) {
            Some(_) if !self.places.may_grow(task, terms) => Vec::new(),
            Some(known) if known.goes_on() && generation > known.generation => {
                let before = match known.growth.take() {
                    Some(growth) => growth.before,
                    None => self.places.parts(task),
                };
                let growth = Growth { generation, terms: terms.clone(), before };
                let mut change = Vec::new();
                if self.places.is_waiting(task) {
                    change = self.changed(task, generation);
                } else if growth.is_more() {
                    known.growth = Some(Box::new(growth));
                } else {
                    change.push(Action::Change { task, generation, terms: growth.terms });
                }
                let steps = self.places.change(task, generation, terms);
                let mut actions = self.follow(steps);
                actions.extend(change);
                actions
            }
            // A server that repeats an order may have missed the report.
            Some(_) => self.report(task),
            None => Vec::new(),
        }
    }

    /// Lets shares grow once there is room for them. A share may get all its new memory at once, so
    /// the tasks that leave for it have left before that.
    fn grow(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (task, known) in &mut self.tasks {
            let has_room = |_: &mut Box<Growth>| self.places.has_grown_room(*task);
            if let Some(growth) = known.growth.take_if(has_room).filter(|_| known.goes_on()) {
                let Growth { generation, terms, .. } = *growth;
                actions.push(Action::Change { task: *task, generation, terms });
            }
        }
        actions
    }

    fn changed(&mut self, task: TaskId, generation: Generation) -> Vec<Action> {
        match self.tasks.get_mut(&task) {
            Some(known) if known.goes_on() && generation > known.generation => {
                known.generation = generation;
                // It was an earlier order that did not work.
                if let TaskState::Running { halt: halt @ Halt::Stays(..), .. } = &mut known.state {
                    *halt = Halt::Done;
                }
                self.report(task)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Only a running task without a stop order is paused or resumed. `order` says whether its
    /// processes run on during a pause, or on which devices it resumes. The action is repeated
    /// until the reported state fits.
    fn halt(
        &mut self,
        task: TaskId,
        generation: Generation,
        order: Result<bool, Vec<DeviceUuid>>,
    ) -> Vec<Action> {
        let Some(known) = self.tasks.get_mut(&task) else { return Vec::new() };
        let TaskState::Running { stop: None, halt, .. } = &mut known.state else {
            return self.report(task);
        };
        if generation < known.generation {
            return Vec::new();
        }
        let is_repeated = generation == known.generation;
        (known.generation, known.halt_generation) = (generation, generation);
        match (&*halt, order) {
            (Halt::No, Err(_)) => self.report(task),
            // After a newer order the shepherd answers: an earlier agent may have ordered it to
            // resume the task meanwhile.
            (Halt::Done | Halt::Stays(..), Ok(_)) if is_repeated => self.report(task),
            // The order did not work, and the server may not know it yet.
            (Halt::Stays(..), Err(_)) if is_repeated => self.report(task),
            (_, Ok(runs_on)) => {
                *halt = Halt::Pausing;
                self.places.cancel_resume(task);
                vec![Action::Pause { task, generation, runs_on }]
            }
            (was, Err(devices)) => {
                *halt = was.ordered_to_go_on();
                let steps = self.places.resume(task, generation, &devices);
                self.follow(steps)
            }
        }
    }

    fn halted(&mut self, task: TaskId, generation: Generation, halting: Halting) -> Vec<Action> {
        let Some(known) = self.tasks.get_mut(&task) else { return Vec::new() };
        let TaskState::Running { halt, .. } = &mut known.state else { return Vec::new() };
        // There was a newer order to pause or resume it since. One to resume waits for the end of a
        // move, and an earlier pause is that end too.
        let is_old = generation < known.halt_generation;
        if is_old && !(halting == Halting::Paused && self.places.resumes_later(task)) {
            return Vec::new();
        }
        known.generation = known.generation.max(generation);
        let steps;
        (steps, *halt) = match halting {
            Halting::Paused if is_old => (self.places.paused(task), Halt::Going),
            Halting::Paused => (self.places.paused(task), Halt::Done),
            Halting::Resumed => (self.places.resumed(task), Halt::No),
            // It uses the same devices as before.
            Halting::NotPaused { why } => (Vec::new(), Halt::Failed(why)),
            Halting::NotMoved { why, devices: own } => {
                (self.places.not_resumed(task, &own), Halt::Stays(why, own))
            }
        };
        let mut actions = self.report(task);
        actions.extend(self.follow(steps));
        actions
    }

    fn signal(&mut self, task: TaskId, it: (i32, SignalTo), request: RequestId) -> Vec<Action> {
        let running = self
            .tasks
            .get(&task)
            .is_some_and(|known| matches!(known.state, TaskState::Running { .. }));
        // A signal that comes too early may be lost, but it must not be sent late.
        if !self.signalled.insert(request) || !running {
            return Vec::new();
        }
        while self.signalled.len() > Done::MOST {
            self.signalled.pop_first();
        }
        vec![Action::Signal { task, signal: it.0, to: it.1 }]
    }

    fn acknowledged(&mut self, task: TaskId, acknowledged: Generation) -> Vec<Action> {
        match self.tasks.get(&task).map(|known| (&known.state, known.generation)) {
            // For an earlier launch: the server does not know the end of this one.
            Some((_, generation)) if acknowledged < generation => Vec::new(),
            // Placed elsewhere; a later generation may come back to this node.
            Some((TaskState::Refused { .. }, generation)) => {
                self.tasks.remove(&task);
                self.done.insert(task, Some(generation));
                Vec::new()
            }
            Some((TaskState::Ended(_), _)) => {
                self.tasks.remove(&task);
                self.done.insert(task, None);
                vec![Action::Forget(task)]
            }
            // It has not ended here, even if the server assumes so.
            Some(_) => Vec::new(),
            None => {
                self.done.insert(task, Some(acknowledged));
                Vec::new()
            }
        }
    }

    fn found(
        &mut self,
        report: TaskReport,
        (seats, is_detached, is_settled): (Seats, bool, bool),
    ) -> Vec<Action> {
        let TaskReport { task, generation, is } = report;
        if self.done.is_over(task) {
            return match is {
                TaskIs::Ended(_) => vec![Action::Forget(task)],
                // The server assumes that it has ended, so end it.
                _ => vec![Action::Stop { task, grace: Millis::ZERO, signal: None }],
            };
        }
        let known = self.tasks.get(&task);
        // The claim does not know of a newer order, which the shepherd has yet to read: it may be
        // behind one to resume.
        let is_ordered = known.filter(|known| generation < known.halt_generation);
        let ordered = is_ordered.and_then(|known| match &known.state {
            TaskState::Running { halt: halt @ (Halt::Pausing | Halt::Going), .. } => {
                Some(halt.clone())
            }
            _ => None,
        });
        let generation = known.map_or(generation, |known| known.generation.max(generation));
        let halt_generation = known.map(|known| known.halt_generation).unwrap_or_default();
        let stop = match known.map(|known| &known.state) {
            Some(TaskState::Ended(_)) => return Vec::new(),
            Some(TaskState::Preventing { ending }) => Some(*ending),
            Some(TaskState::Launching { stop } | TaskState::Running { stop, .. }) => *stop,
            Some(TaskState::Refused { .. }) | None => None,
        };
        let is_paused = matches!(is, TaskIs::Paused { .. });
        let state = match is {
            TaskIs::Launching => TaskState::Launching { stop },
            TaskIs::Running { pid, started_at } => {
                TaskState::Running { pid, started_at, stop, halt: Halt::No }
            }
            TaskIs::Paused { pid, started_at } => {
                TaskState::Running { pid, started_at, stop, halt: ordered.unwrap_or(Halt::Done) }
            }
            TaskIs::NotMoved { pid, started_at, why, devices } => {
                TaskState::Running { pid, started_at, stop, halt: Halt::Stays(why, devices) }
            }
            TaskIs::NotPaused { pid, started_at, why } => {
                TaskState::Running { pid, started_at, stop, halt: Halt::Failed(why) }
            }
            TaskIs::Ended(end) => TaskState::Ended(end),
            TaskIs::Refused { devices } => TaskState::Refused { devices },
            // A found task is never in this state.
            TaskIs::Over => return Vec::new(),
        };
        let goes_on = matches!(state, TaskState::Launching { .. } | TaskState::Running { .. });
        let found = match state {
            TaskState::Running { .. } if is_paused => FoundState::Paused,
            TaskState::Running { halt: Halt::Done | Halt::Stays(..), .. } => FoundState::Paused,
            TaskState::Running { .. } if is_detached => FoundState::Detached,
            TaskState::Running { .. } => FoundState::Running,
            _ => FoundState::Launching,
        };
        self.tasks.insert(task, Task { halt_generation, ..Task::new(generation, state) });
        let steps = match goes_on {
            true => self.places.found(task, seats, found, is_settled),
            false => self.places.release(task),
        };
        let mut actions = self.report(task);
        actions.extend(self.follow(steps));
        actions.extend(stop.filter(|_| goes_on).map(|ending| ending.action(task)));
        actions
    }

    fn started(&mut self, task: TaskId, pid: u32, started_at: Timestamp) -> Vec<Action> {
        let Some(known) = self.tasks.get_mut(&task) else { return Vec::new() };
        let stop = match &known.state {
            TaskState::Launching { stop } => *stop,
            TaskState::Preventing { ending } => Some(*ending),
            // Repeated after a reconnection, or out of date.
            TaskState::Running { .. } | TaskState::Ended(_) | TaskState::Refused { .. } => {
                return Vec::new();
            }
        };
        known.state = TaskState::Running { pid, started_at, stop, halt: Halt::No };
        let mut actions = self.report(task);
        let steps = self.places.started(task);
        actions.extend(self.follow(steps));
        actions
    }

    fn refused(&mut self, task: TaskId, devices: Vec<DeviceUuid>) -> Vec<Action> {
        let Some(known) = self.tasks.get_mut(&task) else { return Vec::new() };
        let actions = match known.state {
            TaskState::Launching { stop: None } => {
                known.state = TaskState::Refused { devices };
                self.report(task)
            }
            TaskState::Launching { stop: Some(ending) } => {
                known.state = TaskState::Preventing { ending };
                vec![Action::Prevent { task, generation: known.generation }]
            }
            _ => return Vec::new(),
        };
        self.then_release(task, actions)
    }

    fn ended(&mut self, task: TaskId, end: TaskEnd) -> Vec<Action> {
        match self.tasks.get_mut(&task) {
            Some(known) if !matches!(known.state, TaskState::Ended(_)) => {
                known.state = TaskState::Ended(end);
                let actions = self.report(task);
                self.then_release(task, actions)
            }
            // A task that was acknowledged before it ended here leaves nothing behind either.
            None if self.done.is_over(task) => vec![Action::Forget(task)],
            Some(_) | None => Vec::new(),
        }
    }

    fn report(&self, task: TaskId) -> Vec<Action> {
        let report = self.tasks.get(&task).map(|known| Report::Task(known.report(task)));
        report.map(Action::Report).into_iter().collect()
    }
}
