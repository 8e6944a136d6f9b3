//! Tasks with shares are spread over the devices of a node, and moved when a job gets one of them
//! as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::agent::{MoveIs, MoveReason, MoveReport, Order, Report, TaskIs, TaskReport};
use gpool_model::id::{DeviceUuid, Generation, Round, Term};
use gpool_model::unit::{Bytes, MilliGpu, Timestamp};
use gpool_model::{Device, JobSpec, Slot, SlotPart, TaskId};
use gpool_node::converge::{Action, Converge, Halting, Input, Moves, Seats};

use crate::converge::{end, run, task};

mod books;
mod driver;
mod resized;

const MEMORY: u64 = 80;

pub fn uuid(index: usize) -> DeviceUuid {
    DeviceUuid::new(format!("GPU-{index}"))
}

pub fn devices(number: u32) -> Vec<Device> {
    let device = |index: u32| {
        Device::new(index, uuid(index as usize), "H100".to_owned(), Bytes::new(MEMORY))
    };
    (0..number).map(device).collect()
}

pub fn whole(booked: usize) -> Slot {
    let index = u32::try_from(booked).expect("few");
    Slot { index, device: uuid(booked), part: SlotPart::Whole }
}

/// A share in 80ths of a device.
pub fn share(booked: usize, request: u64, limit: u64) -> Slot {
    let charge = MilliGpu::new(request * 1000 / MEMORY);
    let (memory, limit) = (Bytes::new(request), Bytes::new(limit));
    Slot { part: SlotPart::Share { charge, memory, limit }, ..whole(booked) }
}

/// A node as it really is.
struct Machine {
    converge: Converge,
    how: Moves,
    n_devices: u32,
    /// Where each program is, with whether it is paused.
    running: BTreeMap<TaskId, (Seats, bool)>,
    launching: Vec<(TaskId, Seats)>,
    /// Tasks that were ordered to leave their devices.
    leaving: Vec<TaskId>,
    /// Tasks that left their devices, and those that they were sent to.
    away: BTreeMap<TaskId, Option<Vec<DeviceUuid>>>,
    refused: BTreeSet<TaskId>,
    n_moves: usize,
    moves: Vec<MoveReport>,
}

fn put(seats: &mut Seats, devices: Vec<DeviceUuid>) {
    for (slot, uuid) in seats.slots.iter_mut().zip(devices) {
        slot.device = uuid;
    }
}

/// A reported move: the task, the devices that it left and came to, why, and the result.
type Told = (u64, Vec<u32>, Vec<u32>, Option<MoveReason>, MoveIs);

impl Machine {
    fn new(n_devices: u32) -> Self {
        Self::with(n_devices, Moves::Freely)
    }

    fn with(n_devices: u32, how: Moves) -> Self {
        let mut machine = Self {
            converge: Converge::default(),
            how,
            n_devices,
            running: BTreeMap::new(),
            launching: Vec::new(),
            leaving: Vec::new(),
            away: BTreeMap::new(),
            refused: BTreeSet::new(),
            n_moves: 0,
            moves: Vec::new(),
        };
        machine.describe();
        machine
    }

    fn describe(&mut self) {
        let (devices, moves) = (devices(self.n_devices), self.how);
        self.step(Input::Devices { devices, moves });
    }

    fn step(&mut self, input: Input) {
        for action in self.converge.step(input) {
            match action {
                Action::Launch { order, seats } => self.launching.push((order.task(), seats)),
                Action::Detach { task, .. } => self.leaving.push(task),
                Action::Attach { task, devices } => {
                    self.away.insert(task, Some(devices));
                }
                Action::Resume { task, generation, devices, .. } => {
                    let (seats, is_paused) = self.running.get_mut(&task).expect("it is paused");
                    put(seats, devices);
                    *is_paused = false;
                    let halting = Halting::Resumed;
                    self.check();
                    self.step(Input::Halted { task, generation, halting });
                }
                Action::Pause { task, generation, .. } => {
                    self.running.get_mut(&task).expect("it runs").1 = true;
                    let halting = Halting::Paused;
                    self.step(Input::Halted { task, generation, halting });
                }
                Action::Change { task, terms, .. } => {
                    let seats = self.running.get_mut(&task).map(|(seats, _)| seats);
                    seats.into_iter().for_each(|seats| terms.resize(&mut seats.slots));
                }
                Action::Report(Report::Task(TaskReport { task, is, .. })) => {
                    if matches!(is, TaskIs::Refused { .. }) {
                        self.refused.insert(task);
                    }
                }
                Action::Report(Report::Move(report)) => self.moves.push(report),
                _ => {}
            }
        }
        self.check();
    }

    fn run(&mut self, number: u64, slots: Vec<Slot>) {
        self.run_with(number, slots, |_| {});
    }

    fn run_with(&mut self, number: u64, slots: Vec<Slot>, change: impl FnOnce(&mut JobSpec)) {
        let Order::Run(mut order) = run(1, number, 1) else { unreachable!() };
        order.allocation.slots = slots;
        change(Arc::make_mut(&mut order.spec));
        self.step(Input::Order(Order::Run(order)));
    }

    /// Starts the programs that are being launched.
    fn start(&mut self) {
        for (task, seats) in std::mem::take(&mut self.launching) {
            self.running.insert(task, (seats, false));
            self.step(Input::Started { task, pid: 7, started_at: Timestamp::ZERO });
        }
    }

    /// Carries out all detaching and attaching that was ordered before.
    fn carry_out(&mut self, succeeds: bool) {
        for task in std::mem::take(&mut self.leaving) {
            if self.running.contains_key(&task) {
                if succeeds {
                    self.away.insert(task, None);
                }
                self.step(Input::Detached { task, is_done: succeeds });
            }
        }
        let coming: Vec<TaskId> =
            self.away.iter().filter(|(_, to)| to.is_some()).map(|(task, _)| *task).collect();
        for task in coming {
            let (Some((seats, _)), Some(to)) =
                (self.running.get_mut(&task), self.away.get(&task).cloned().flatten())
            else {
                continue;
            };
            if succeeds || to == seats.devices() {
                self.n_moves += 1;
                put(seats, to);
                self.away.remove(&task);
                self.step(Input::Attached { task });
            } else {
                let left = seats.devices();
                self.away.insert(task, None);
                self.step(Input::NotAttached { task, left });
            }
        }
    }

    /// A task should leave its device for another one.
    fn relocate_to(&mut self, number: u64, device: usize) {
        let task = task(number);
        let Some((seats, _)) = self.running.get(&task) else { return };
        let (from, to) = (seats.slots[0].device.clone(), vec![uuid(device)]);
        self.step(Input::Relocate { task, from, to, beneficiary: self::task(1) });
    }

    fn settle(&mut self) {
        while !self.launching.is_empty()
            || !self.leaving.is_empty()
            || self.away.values().any(Option::is_some)
        {
            self.start();
            self.carry_out(true);
        }
    }

    fn end(&mut self, number: u64) {
        let task = task(number);
        self.running.remove(&task);
        self.away.remove(&task);
        self.launching.retain(|(launching, _)| *launching != task);
        self.step(Input::Ended { task, end: end(false) });
    }

    /// A new agent finds the tasks.
    fn restart(&mut self) {
        self.converge = Converge::default();
        self.leaving.clear();
        self.launching.clear();
        self.away.values_mut().for_each(|to| *to = None);
        for (task, (seats, is_paused)) in self.running.clone() {
            let (pid, started_at) = (7, Timestamp::ZERO);
            let is = match is_paused {
                false => TaskIs::Running { pid, started_at },
                true => TaskIs::Paused { pid, started_at },
            };
            let report = TaskReport { task, generation: Generation(1), is };
            let is_detached = self.away.contains_key(&task);
            self.step(Input::Found { report, seats, is_detached, is_settled: true });
        }
        self.describe();
    }

    fn close(&mut self, closed: &[usize]) {
        let closed = closed.iter().map(|index| uuid(*index)).collect();
        self.step(Input::Order(Order::Sync { term: Term(1), round: Round(1), closed }));
    }

    fn moves(&self) -> Vec<Told> {
        let told = |it: &MoveReport| {
            let (from, to) = it.changed();
            (it.task.job.number.0, from, to, it.reason, it.is)
        };
        self.moves.iter().map(told).collect()
    }

    /// The devices of the running tasks, by number.
    fn places(&self) -> Vec<(u64, Vec<u32>)> {
        let place = |(task, (seats, _)): (&TaskId, &(Seats, bool))| {
            let indexes = seats.slots.iter().map(|slot| {
                let at = (0..self.n_devices).find(|index| uuid(*index as usize) == slot.device);
                at.expect("a device of this node")
            });
            (task.job.number.0, indexes.collect())
        };
        self.running.iter().map(place).collect()
    }

    /// No device has more than fits, and one that a task has alone has no other.
    fn check(&self) {
        let launching = self.launching.iter().map(|(task, seats)| (*task, seats));
        let is_active = |(task, (_, is_paused)): &(&TaskId, &(Seats, bool))| {
            !is_paused && !self.away.contains_key(*task)
        };
        let active = self.running.iter().filter(is_active);
        let all: Vec<(TaskId, &Seats)> =
            active.map(|(task, (seats, _))| (*task, seats)).chain(launching).collect();
        for index in 0..self.n_devices as usize {
            let on = |(task, seats): &(TaskId, &Seats)| {
                let slots = seats.slots.iter().filter(|slot| slot.device == uuid(index));
                slots.map(|slot| (*task, slot.part)).collect::<Vec<_>>()
            };
            let here: Vec<(TaskId, SlotPart)> = all.iter().flat_map(on).collect();
            let memory: u64 =
                here.iter().map(|(_, part)| part.memory_of(Bytes::new(MEMORY)).get()).sum();
            assert!(memory <= MEMORY, "too much on GPU {index}: {here:?}");
            let tasks: BTreeSet<TaskId> = here.iter().map(|(task, _)| *task).collect();
            assert_eq!(tasks.len(), here.len(), "two parts of a task on GPU {index}");
        }
    }
}

#[test]
fn two_notebooks_burst_until_a_third_job_needs_a_gpu() {
    let mut node = Machine::new(2);
    node.run(1, vec![share(0, 40, 80)]);
    node.start();
    node.run(2, vec![share(0, 40, 80)]);
    node.start();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![1])]);
    node.run(3, vec![whole(1)]);
    assert_eq!(node.leaving, [task(2)]);
    assert!(node.launching.is_empty(), "not before the notebook has moved");
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![0]), (3, vec![1])]);
    let reason = Some(MoveReason::Room { beneficiary: task(3) });
    assert_eq!(node.moves(), [(2, vec![1], vec![0], reason, MoveIs::Done)]);
    node.end(3);
    assert!(node.leaving.is_empty(), "no task moves without need");
}

#[test]
fn a_job_waits_for_a_guest_that_has_not_started() {
    let mut node = Machine::new(2);
    node.run(1, vec![share(0, 40, 80)]);
    node.run(2, vec![share(0, 40, 80)]);
    node.run(3, vec![whole(1)]);
    assert!(node.leaving.is_empty() && node.launching.len() == 2);
    node.start();
    assert_eq!(node.leaving.len(), 1);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![0]), (3, vec![1])]);
}

#[test]
fn a_job_is_refused_if_a_guest_can_not_move_and_stopped_while_it_waits() {
    let mut node = Machine::new(2);
    node.run(1, vec![share(0, 40, 80)]);
    node.run(2, vec![share(0, 40, 80)]);
    node.start();
    node.run(3, vec![whole(1)]);
    let stop = Order::Stop {
        term: Term(1),
        task: task(3),
        generation: Generation(1),
        grace: Default::default(),
        signal: None,
    };
    let actions = node.converge.step(Input::Order(stop));
    assert_eq!(actions, [Action::Prevent { task: task(3), generation: Generation(1) }]);
    node.end(3);
    node.run(4, vec![whole(1)]);
    node.carry_out(false);
    assert!(node.refused.contains(&task(4)), "{:?}", node.converge.tasks());
    let reason = Some(MoveReason::Room { beneficiary: task(3) });
    assert_eq!(node.moves().last(), Some(&(2, vec![1], vec![0], reason, MoveIs::NotLeft)));
    // The guest has ended, so the next job gets the device.
    node.end(2);
    node.run(5, vec![whole(1)]);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (5, vec![1])]);
}

#[test]
fn a_job_waits_for_a_found_task_that_says_its_end_late() {
    let mut node = Machine::new(1);
    node.run(1, vec![whole(0)]);
    node.start();
    // The server knows that task 1 has ended; the new agent does not yet.
    node.restart();
    node.run(2, vec![whole(0)]);
    assert!(node.launching.is_empty() && node.refused.is_empty());
    node.end(1);
    node.start();
    assert_eq!(node.places(), [(2, vec![0])]);
}

#[test]
fn guests_leave_devices_that_are_drained_or_reserved() {
    let mut node = Machine::new(3);
    for number in 1..=2 {
        node.run(number, vec![share(0, 40, 80)]);
        node.start();
    }
    node.close(&[1]);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![2])]);
    let closed = Some(MoveReason::Closed);
    assert_eq!(node.moves(), [(2, vec![1], vec![2], closed, MoveIs::Done)]);
    node.close(&[1, 2]);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![0])]);
}

#[test]
fn a_paused_task_leaves_its_device_and_comes_back_to_a_free_one() {
    let mut node = Machine::new(2);
    node.run(1, vec![share(0, 40, 80)]);
    node.start();
    let (term, task, generation) = (Term(1), task(1), Generation(2));
    node.step(Input::Order(Order::Pause { term, task, generation, runs_on: false }));
    node.run(2, vec![whole(0)]);
    node.start();
    // The server resumes it when its books have room: on the device that the other job left.
    node.end(2);
    node.run(3, vec![share(0, 40, 80)]);
    node.start();
    assert_eq!(node.places(), [(1, vec![0]), (3, vec![0])]);
    node.step(Input::Order(Order::Resume {
        term,
        task,
        generation: Generation(3),
        devices: Vec::new(),
    }));
    node.settle();
    assert!(!node.running[&task].1);
}
