//! Any sequence of jobs, ends, moves and restarts: every booked job starts, on devices with room.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::Slot;
use gpool_model::unit::Bytes;
use gpool_node::converge::Moves;
use proptest::prelude::*;

use super::{MEMORY, Machine, share, uuid, whole};
use crate::converge::task;

/// What happens to a node, with numbers to choose by.
#[derive(Debug, Clone)]
enum Event {
    Share {
        request: u64,
        above: u64,
        pieces: usize,
    },
    Whole {
        pieces: usize,
    },
    End(usize),
    Start,
    Move {
        succeeds: bool,
    },
    /// A task keeps a loan.
    Loan(u64, usize),
    Restart,
    Close(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (10_u64..60, 0_u64..60, 1_usize..3)
            .prop_map(|(request, above, pieces)| Event::Share { request, above, pieces }),
        3 => (1_usize..3).prop_map(|pieces| Event::Whole { pieces }),
        3 => any::<usize>().prop_map(Event::End),
        3 => Just(Event::Start),
        3 => prop::bool::weighted(0.9).prop_map(|succeeds| Event::Move { succeeds }),
        2 => (1_u64..9, 0_usize..3).prop_map(|(number, device)| Event::Loan(number, device)),
        1 => Just(Event::Restart),
        1 => (0_usize..8).prop_map(Event::Close),
    ]
}

/// The books of a server: what each task has booked.
#[derive(Default)]
struct Books {
    tasks: BTreeMap<u64, Vec<Slot>>,
}

impl Books {
    fn room(&self, index: usize) -> u64 {
        let slots = self.tasks.values().flatten().filter(|slot| slot.device == uuid(index));
        MEMORY - slots.map(|slot| slot.part.memory_of(Bytes::new(MEMORY)).get()).sum::<u64>()
    }

    /// Devices for a request, the fullest first.
    fn find(&self, pieces: usize, request: u64) -> Option<Vec<usize>> {
        let mut found: Vec<usize> = (0..3).filter(|index| self.room(*index) >= request).collect();
        found.sort_by_key(|index| (self.room(*index), *index));
        found.truncate(pieces);
        (found.len() == pieces).then_some(found)
    }
}

proptest! {
    #[test]
    fn every_booked_job_starts_and_no_device_has_too_much(
        events in proptest::collection::vec(event(), 1..60),
        how in prop_oneof![Just(Moves::Freely), Just(Moves::ByDriver)],
    ) {
        let mut node = Machine::with(3, how);
        let mut books = Books::default();
        let (mut number, mut has_failed) = (0, false);
        for event in events {
            match event {
                Event::Share { request, above, pieces } => {
                    let Some(found) = books.find(pieces, request) else { continue };
                    number += 1;
                    let limit = (request + above).min(MEMORY);
                    let slots: Vec<Slot> =
                        found.into_iter().map(|at| share(at, request, limit)).collect();
                    books.tasks.insert(number, slots.clone());
                    node.run(number, slots);
                }
                Event::Whole { pieces } => {
                    let Some(found) = books.find(pieces, MEMORY) else { continue };
                    number += 1;
                    let slots: Vec<Slot> = found.into_iter().map(whole).collect();
                    books.tasks.insert(number, slots.clone());
                    node.run(number, slots);
                }
                Event::End(pick) => {
                    let running: Vec<u64> =
                        node.running.keys().map(|task| task.job.number.0).collect();
                    let Some(ends) = running.get(pick % running.len().max(1)) else { continue };
                    node.end(*ends);
                    books.tasks.remove(ends);
                }
                Event::Start => node.start(),
                Event::Move { succeeds } => {
                    has_failed |= !succeeds;
                    node.carry_out(succeeds);
                }
                Event::Loan(number, device) => node.relocate_to(number, device),
                Event::Restart => {
                    node.restart();
                    // The server repeats the orders of tasks that it does not find.
                    let lost: Vec<(u64, Vec<Slot>)> = books
                        .tasks
                        .iter()
                        .filter(|(number, _)| !node.running.contains_key(&task(**number)))
                        .map(|(number, slots)| (*number, slots.clone()))
                        .collect();
                    for (number, slots) in lost {
                        node.run(number, slots);
                    }
                }
                Event::Close(mask) => {
                    let closed: Vec<usize> = (0..3).filter(|ix| mask >> ix & 1 == 1).collect();
                    node.close(&closed);
                }
            }
            books.tasks.retain(|number, _| !node.refused.contains(&task(*number)));
            prop_assert!(has_failed || node.refused.is_empty());
        }
        node.settle();
        for number in books.tasks.keys() {
            let is_there = node.running.contains_key(&task(*number));
            let is_refused = node.refused.contains(&task(*number));
            prop_assert!(is_there || is_refused, "{number} never started");
        }
    }
}

#[test]
fn a_device_that_closes_before_a_guest_comes_is_not_waited_for() {
    let mut node = Machine::with(3, Moves::ByDriver);
    node.run(1, vec![share(0, 10, 10)]);
    node.run(2, vec![share(0, 10, 10), share(1, 10, 10)]);
    node.run(3, vec![share(0, 35, 71)]);
    node.run(4, vec![share(0, 25, 25), share(1, 25, 25)]);
    node.start();
    // It is to come to device 1 once the second task has left.
    node.run(5, vec![share(2, 46, 46)]);
    assert_eq!(node.leaving, [task(2)]);
    node.close(&[1]);
    node.settle();
    let places = node.places();
    assert!(places.iter().any(|(number, at)| *number == 5 && *at != [1]), "{places:?}");
}

/// A guest leaves a closed device, and keeps room on its other one. A job that is about to start
/// there as a guest waits for that room, and must not keep the guest from coming back.
#[test]
fn a_task_between_devices_comes_before_one_that_has_not_started() {
    let mut node = Machine::with(3, Moves::ByDriver);
    node.run(1, vec![share(0, 27, 36), share(1, 27, 36)]);
    node.run(2, vec![share(0, 45, 45), share(1, 45, 45)]);
    assert_eq!(node.launching[1].1.devices(), [uuid(0), uuid(2)]);
    node.close(&[1, 2]);
    node.run(3, vec![share(2, 11, 52)]);
    node.run(4, vec![share(2, 29, 29)]);
    node.settle();
    let places = [(1, vec![0, 1]), (2, vec![0, 1]), (3, vec![2]), (4, vec![2])];
    assert_eq!(node.places(), places);
}

/// It can't leave the closed device, so other tasks are placed beside it.
#[test]
fn a_stuck_guest_on_a_closed_device_holds_up_no_other_task() {
    let mut node = Machine::with(3, Moves::ByDriver);
    node.run(1, vec![share(0, 36, 36)]);
    node.run(2, vec![share(0, 20, 45)]);
    node.run(3, vec![share(0, 16, 16), share(1, 16, 16)]);
    node.start();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![1]), (3, vec![0, 1])]);
    node.run(4, vec![share(1, 45, 45), share(2, 45, 45)]);
    assert_eq!(node.leaving, [task(2)]);
    node.carry_out(false);
    node.close(&[1]);
    node.settle();
    assert_eq!(node.places()[2..], [(3, vec![0, 2]), (4, vec![1, 2])]);
}

/// A task leaves for a device where a stuck guest takes its room. Another job waits for the room
/// that it left, and is refused once it can't go anywhere else.
#[test]
fn a_task_between_devices_gets_its_room_back_from_a_job_that_waits_for_it() {
    let mut node = Machine::with(3, Moves::ByDriver);
    node.run(1, vec![share(0, 35, 35), share(1, 35, 35)]);
    node.run(2, vec![share(0, 12, 46), share(1, 12, 46)]);
    node.run(3, vec![share(2, 40, 52)]);
    node.run(4, vec![share(0, 19, 19)]);
    node.run(5, vec![share(1, 29, 29), share(2, 29, 29)]);
    node.start();
    node.end(3);
    node.close(&[0, 2]);
    node.carry_out(false);
    node.end(1);
    node.run(6, vec![share(2, 50, 50)]);
    node.run(7, vec![share(1, 10, 10)]);
    node.end(4);
    node.start();
    node.end(7);
    node.run(8, vec![share(1, 31, 31)]);
    assert_eq!(node.leaving, [task(5), task(6)]);
    node.settle();
    assert_eq!(node.refused, BTreeSet::from([task(8)]), "{:?}", node.places());
    assert_eq!(node.places(), [(2, vec![0, 2]), (5, vec![1, 2]), (6, vec![1])]);
}
