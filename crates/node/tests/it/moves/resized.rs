//! Shares that are resized while their tasks run.

use gpool_model::agent::{MoveIs, MoveReason, Order, Terms};
use gpool_model::id::{Generation, Term};
use gpool_node::converge::{Input, Moves};

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
