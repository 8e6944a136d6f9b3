//! Moves that the driver makes, and those of tasks that keep memory which was called back.

use gpool_model::agent::{MoveIs, MoveReason};
use gpool_model::kind::Yields;
use gpool_model::{GpuRequest, Slot};
use gpool_node::converge::{Action, Input, Moves};

use super::{Machine, devices, share, uuid, whole};
use crate::converge::task;

/// Two shares that are booked together, and use a device each.
fn spread() -> Machine {
    let mut node = Machine::with(2, Moves::ByDriver);
    for number in 1..=2 {
        node.run(number, vec![share(0, 40, 80)]);
        node.start();
    }
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![1])]);
    node
}

#[test]
fn a_job_waits_until_a_guest_is_restored_elsewhere() {
    let mut node = spread();
    node.run(3, vec![whole(1)]);
    node.step(Input::Detached { task: task(2), is_done: true });
    assert!(node.launching.is_empty(), "the restore may fail");
    node.step(Input::Attached { task: task(2) });
    assert_eq!(node.launching.len(), 1);
}

#[test]
fn a_job_does_not_wait_for_a_guest_whose_own_device_has_no_room() {
    let mut node = spread();
    node.run(3, vec![whole(1)]);
    node.step(Input::Detached { task: task(2), is_done: true });
    node.step(Input::Parked { task: task(2) });
    assert_eq!(node.launching.len(), 1);
}

#[test]
fn a_new_agent_brings_a_task_back_that_an_earlier_one_sent_away() {
    let mut node = spread();
    node.restart();
    node.step(Input::Detached { task: task(2), is_done: true });
    assert!(node.away[&task(2)].is_some());
}

#[test]
fn a_guest_that_could_not_be_restored_elsewhere_gets_its_old_device_back() {
    let mut node = spread();
    node.run(3, vec![whole(1)]);
    node.step(Input::Detached { task: task(2), is_done: true });
    node.step(Input::NotAttached { task: task(2), left: vec![uuid(1)] });
    assert!(node.refused.contains(&task(3)), "its device is not free after all");
    assert_eq!(node.away[&task(2)], Some(vec![uuid(1)]));
    let reason = Some(MoveReason::Room { beneficiary: task(3) });
    assert_eq!(node.moves(), [(2, vec![1], vec![0], reason, MoveIs::NotReached)]);
}

#[test]
fn a_task_that_frees_its_devices_itself_is_no_guest() {
    let mut node = Machine::with(2, Moves::ByDriver);
    node.run(1, vec![share(0, 40, 80)]);
    node.start();
    node.run_with(2, vec![share(0, 40, 80)], |spec| {
        spec.request.gpus = GpuRequest::whole(1);
        spec.request.life.habits.yields = Some(Yields { signal: None, within: None });
    });
    node.start();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![0])]);
}

/// Two shares on a device, and another device with these slots on it.
fn lender(others: &[Slot]) -> Machine {
    let mut node = Machine::with(2, Moves::ByDriver);
    // They can't grow, so they have nothing from another device.
    let shares = [share(0, 20, 20), share(0, 20, 20)];
    for (number, slot) in (1..).zip(shares.iter().chain(others)) {
        node.run(number, vec![slot.clone()]);
        node.start();
    }
    node
}

/// Whether the second task of a node may go to the second device for its loan.
fn relocates(node: &mut Machine) -> bool {
    let (from, to) = (uuid(0), vec![uuid(1)]);
    let asked = Input::Relocate { task: task(2), from, to, beneficiary: task(1) };
    let actions = node.converge.step(asked);
    let reason = MoveReason::Loan { beneficiary: task(1) };
    match &actions[..] {
        [Action::Detach { task: moved, reason: why }] => {
            assert_eq!((*moved, *why), (task(2), reason));
            true
        }
        [Action::Stay { task: stays }] => {
            assert_eq!(*stays, task(2));
            false
        }
        _ => panic!("{actions:?}"),
    }
}

#[test]
fn a_borrower_goes_to_the_device_that_was_named() {
    let mut node = lender(&[]);
    node.relocate_to(2, 1);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![1])]);
    let reason = Some(MoveReason::Loan { beneficiary: task(1) });
    assert_eq!(node.moves(), [(2, vec![0], vec![1], reason, MoveIs::Done)]);
}

#[test]
fn a_borrower_stays_where_no_other_device_takes_it() {
    assert!(relocates(&mut lender(&[])));
    assert!(!relocates(&mut lender(&[whole(1)])), "a job has it alone");
    assert!(!relocates(&mut lender(&[share(1, 70, 70)])), "its request does not fit");
    let mut closed = lender(&[]);
    closed.close(&[1]);
    assert!(!relocates(&mut closed), "it is drained");
    let mut node = lender(&[]);
    node.step(Input::Devices { devices: devices(2), moves: Moves::No });
    assert!(!relocates(&mut node), "the driver can't");
    let mut node = lender(&[]);
    assert!(relocates(&mut node));
    assert!(!relocates(&mut node), "it is on its way");
    node.step(Input::Detached { task: task(2), is_done: false });
    assert!(!relocates(&mut node), "it could not leave");
}

#[test]
fn a_borrower_goes_elsewhere_if_a_job_gets_the_device_that_was_named() {
    let mut node = lender(&[]);
    node.relocate_to(2, 1);
    node.run(3, vec![whole(1)]);
    node.settle();
    assert_eq!(node.places(), [(1, vec![0]), (2, vec![0]), (3, vec![1])]);
}
