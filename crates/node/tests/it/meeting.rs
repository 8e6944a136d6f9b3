//! Moves that meet a pause, a resume or a new agent.

use gpool_model::Slot;
use gpool_model::agent::{MoveReason, Order, TaskIs, TaskReport, Terms};
use gpool_model::id::{Generation, Term};
use gpool_model::unit::Timestamp;
use gpool_node::converge::{Action, Converge, Halting, Input, Moves, Seats};

use crate::converge::{end, run, task};
use crate::moves::{devices, share, uuid, whole};

/// Two shares of one device. The second is a guest on another device.
fn spread() -> Converge {
    let mut converge = Converge::default();
    let _ = converge.step(Input::Devices { devices: devices(2), moves: Moves::Freely });
    for number in 1..=2 {
        assert!(launches(&start_order(&mut converge, number, vec![share(0, 40, 80)])));
        let (task, started_at) = (task(number), Timestamp::ZERO);
        let _ = converge.step(Input::Started { task, pid: 7, started_at });
    }
    converge
}

/// The same, and the guest was ordered to leave for a third task.
fn moving() -> Converge {
    let mut converge = spread();
    let actions = start_order(&mut converge, 3, vec![whole(1)]);
    let reason = MoveReason::Room { beneficiary: task(3) };
    assert!(actions.contains(&Action::Detach { task: task(2), reason }), "{actions:?}");
    converge
}

/// The actions that follow from an order to start a task with these slots.
fn start_order(converge: &mut Converge, number: u64, slots: Vec<Slot>) -> Vec<Action> {
    let Order::Run(mut order) = run(1, number, 1) else { unreachable!() };
    order.allocation.slots = slots;
    converge.step(Input::Order(Order::Run(order)))
}

fn launches(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Launch { .. }))
}

#[test]
fn a_task_that_is_paused_while_it_moves_leaves_its_devices_to_others() {
    let mut converge = moving();
    let (moved, term, generation) = (task(2), Term(1), Generation(2));
    let actions = converge.step(Input::Detached { task: moved, is_done: true });
    assert!(actions.iter().any(|action| matches!(action, Action::Attach { .. })));
    let pause = Order::Pause { term, task: moved, generation, runs_on: false };
    let _ = converge.step(Input::Order(pause));
    let halting = Halting::Paused;
    let _ = converge.step(Input::Halted { task: moved, generation, halting });
    let _ = converge.step(Input::Attached { task: moved });
    let _ = converge.step(Input::Ended { task: task(1), end: end(false) });
    assert!(launches(&start_order(&mut converge, 4, vec![whole(0)])));
}

#[test]
fn a_task_that_should_resume_while_it_moves_resumes_where_it_has_room() {
    let mut converge = moving();
    let (moved, term) = (task(2), Term(1));
    for (generation, pauses) in [(2, true), (3, false)] {
        let generation = Generation(generation);
        let order = match pauses {
            true => Order::Pause { term, task: moved, generation, runs_on: false },
            false => Order::Resume { term, task: moved, generation, devices: Vec::new() },
        };
        let actions = converge.step(Input::Order(order));
        let resumes = |action: &Action| matches!(action, Action::Resume { .. });
        assert!(!actions.iter().any(resumes), "it is between devices");
    }
    let actions = converge.step(Input::Detached { task: moved, is_done: true });
    let (generation, at) = (Generation(3), vec![uuid(0)]);
    let resume = Action::Resume { task: moved, generation, devices: at.clone(), booked: at };
    assert!(actions.contains(&resume), "{actions:?}");
}

/// Whether a task resumes after a pause that ended its move. The orders of these generations came
/// before that: those of even ones pause it, the others resume it.
fn resumes_after(generations: &[u64]) -> bool {
    let mut converge = moving();
    let (moved, term) = (task(2), Term(1));
    let _ = converge.step(Input::Detached { task: moved, is_done: true });
    for generation in generations {
        let is_pause = generation % 2 == 0;
        let generation = Generation(*generation);
        let order = match is_pause {
            true => Order::Pause { term, task: moved, generation, runs_on: false },
            false => Order::Resume { term, task: moved, generation, devices: Vec::new() },
        };
        let actions = converge.step(Input::Order(order));
        let resumes = |action: &Action| matches!(action, Action::Resume { .. });
        assert!(!actions.iter().any(resumes), "it comes to its devices");
    }
    let mut pauses = generations.iter().filter(|it| **it % 2 == 0);
    let halted = |generation: &u64| {
        let (generation, halting) = (Generation(*generation), Halting::Paused);
        Input::Halted { task: moved, generation, halting }
    };
    let resumes = |generation| {
        let actions = converge.step(halted(generation));
        actions.iter().any(|action| matches!(action, Action::Resume { .. }))
    };
    pauses.any(resumes)
}

#[test]
fn a_pause_that_ends_a_move_is_followed_by_the_last_order() {
    assert!(resumes_after(&[2, 3]));
    assert!(!resumes_after(&[2, 3, 4]));
}

/// The host may get all its memory once its claim shows the new size, and its guest may fail to
/// leave.
#[test]
fn a_host_grows_once_its_guest_has_left() {
    let mut converge = spread();
    assert!(launches(&start_order(&mut converge, 3, vec![share(1, 30, 80)])));
    let started_at = Timestamp::ZERO;
    let _ = converge.step(Input::Started { task: task(3), pid: 7, started_at });
    let (term, host, generation) = (Term(1), task(3), Generation(2));
    let terms = Terms { limit: None, parts: vec![share(1, 60, 80).part] };
    let order = Order::Change { term, task: host, generation, terms: terms.clone() };
    let actions = converge.step(Input::Order(order));
    let reason = MoveReason::Room { beneficiary: host };
    let leaves = Action::Detach { task: task(2), reason };
    assert_eq!(actions, [leaves]);
    let change = Action::Change { task: host, generation, terms };
    let mut failed = converge.clone();
    let actions = failed.step(Input::Detached { task: task(2), is_done: false });
    assert!(!actions.contains(&change), "{actions:?}");
    let actions = converge.step(Input::Detached { task: task(2), is_done: true });
    assert!(actions.contains(&change), "{actions:?}");
}

/// A guest that should grow goes home, and may fail to leave.
#[test]
fn a_guest_grows_once_it_has_left_its_host() {
    let mut converge = spread();
    assert!(launches(&start_order(&mut converge, 3, vec![share(1, 40, 80)])));
    let started_at = Timestamp::ZERO;
    let _ = converge.step(Input::Started { task: task(3), pid: 7, started_at });
    let _ = converge.step(Input::Ended { task: task(1), end: end(false) });
    let (term, guest, generation) = (Term(1), task(2), Generation(2));
    let terms = Terms { limit: None, parts: vec![share(0, 60, 80).part] };
    let order = Order::Change { term, task: guest, generation, terms: terms.clone() };
    let actions = converge.step(Input::Order(order));
    let reason = MoveReason::Room { beneficiary: task(3) };
    assert_eq!(actions, [Action::Detach { task: guest, reason }]);
    let change = Action::Change { task: guest, generation, terms };
    let mut failed = converge.clone();
    let actions = failed.step(Input::Detached { task: guest, is_done: false });
    assert!(!actions.contains(&change), "{actions:?}");
    let actions = converge.step(Input::Detached { task: guest, is_done: true });
    assert!(actions.contains(&change), "{actions:?}");
}

#[test]
fn a_new_agent_waits_for_a_shepherd_that_may_have_orders_of_the_last_one() {
    let mut converge = Converge::default();
    let _ = converge.step(Input::Devices { devices: devices(2), moves: Moves::Freely });
    let guest = share(1, 40, 80);
    let found = |is_detached, is_settled| {
        let is = TaskIs::Running { pid: 7, started_at: Timestamp::ZERO };
        let report = TaskReport { task: task(1), generation: Generation(1), is };
        let seats = Seats { slots: vec![guest.clone()], booked: vec![uuid(0)], ..Seats::default() };
        Input::Found { report, seats, is_detached, is_settled }
    };
    let _ = converge.step(found(true, false));
    assert!(!launches(&start_order(&mut converge, 2, vec![whole(1)])), "it may come to GPU 1");
    let actions = converge.step(found(false, true));
    let leaves = |it: &Action| matches!(it, Action::Detach { .. });
    assert!(!launches(&actions) && actions.iter().any(leaves));
    let actions = converge.step(Input::Detached { task: task(1), is_done: true });
    assert!(launches(&actions), "{actions:?}");
}
