//! Shares that are resized while their tasks run.

use gpool_model::agent::{MoveIs, MoveReason, Order, Terms};
use gpool_model::id::{Generation, Term};
use gpool_node::converge::{Action, Input, Moves};

use super::{Machine, share};
use crate::converge::task;

#[test]
fn a_guest_goes_home_when_its_host_grows() {
    let mut node = Machine::new(2);
    node.run(1, vec![share(0, 20, 80)]);
    node.start();
    node.run(2, vec![share(0, 20, 80)]);
    node.start();
    node.run(3, vec![share(1, 50, 80)]);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![1]), (3, vec![1])]);
    let change = |generation: u64, size: u64| Order::Change {
        term: Term(1),
        task: task(3),
        generation: Generation(generation),
        terms: Terms { limit: None, parts: vec![share(1, size, 80).part] },
    };
    node.step(Input::Order(change(2, 60)));
    assert!(node.leaving.is_empty(), "both have room");
    node.step(Input::Changed { task: task(3), generation: Generation(2) });
    node.step(Input::Order(change(3, 70)));
    assert_eq!(node.leaving, [task(2)]);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![0]), (3, vec![1])]);
    let reason = Some(MoveReason::Room { beneficiary: task(3) });
    assert_eq!(node.moves(), [(2, vec![1], vec![0], reason, MoveIs::Done)]);
}

/// The order to shrink may come after the one to start, or be repeated after a lost connection.
#[test]
fn a_share_waits_until_another_one_has_shrunk_for_it() {
    for how in [Moves::No, Moves::Freely] {
        let mut node = Machine::with(1, how);
        node.run(1, vec![share(0, 60, 60)]);
        node.start();
        node.run(2, vec![share(0, 40, 40)]);
        node.settle();
        assert_eq!(node.places(), [(1, vec![0])], "{how:?}: there is no room for both");
        node.step(Input::Order(Order::Change {
            term: Term(1),
            task: task(1),
            generation: Generation(2),
            terms: Terms { limit: None, parts: vec![share(0, 40, 40).part] },
        }));
        node.settle();
        assert_eq!(node.places(), [(1, vec![0]), (2, vec![0])], "{how:?}");
    }
}

/// The server counts on the order to shrink, which may be lost and repeated after the one to grow.
#[test]
fn a_share_grows_once_another_one_has_shrunk_for_it() {
    for how in [Moves::No, Moves::Freely] {
        let mut node = Machine::with(1, how);
        for number in [1, 2] {
            node.run(number, vec![share(0, 40, 40)]);
            node.start();
        }
        let change = |number: u64, size: u64| {
            Input::Order(Order::Change {
                term: Term(1),
                task: task(number),
                generation: Generation(2),
                terms: Terms { limit: None, parts: vec![share(0, size, size).part] },
            })
        };
        let mut is_changed = |number, size| {
            let actions = node.converge.clone().step(change(number, size));
            node.step(change(number, size));
            actions.iter().any(|it| matches!(it, Action::Change { .. }))
        };
        let changed = [(2, 60), (1, 20), (2, 60)].map(|(number, size)| is_changed(number, size));
        assert_eq!(changed, [false, true, true], "{how:?}");
    }
}

/// The larger size counts on the device that it still uses, beside the task that it leaves for.
#[test]
fn a_guest_that_leaves_grows_once_it_has_left() {
    let mut node = Machine::new(2);
    node.run(1, vec![share(0, 20, 80)]);
    node.start();
    node.run(2, vec![share(0, 20, 80)]);
    node.start();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![1])]);
    node.run(3, vec![share(1, 80, 80)]);
    assert_eq!(node.leaving, [task(2)]);
    let change = Input::Order(Order::Change {
        term: Term(1),
        task: task(2),
        generation: Generation(2),
        terms: Terms { limit: None, parts: vec![share(0, 60, 80).part] },
    });
    let is_changed =
        |actions: &[Action]| actions.iter().any(|it| matches!(it, Action::Change { .. }));
    assert!(!is_changed(&node.converge.clone().step(change.clone())));
    node.settle();
    assert!(is_changed(&node.converge.clone().step(change)), "it has left");
}
