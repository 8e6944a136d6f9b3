//! No effect leaves before the state that it depends on is durable.

use gpool_model::agent::{Order, TaskIs};
use gpool_model::{Command, Refusal, Reply, RequestId};

use crate::harness::{Harness, ana, end, job};

fn submit(gpus: &str) -> Command {
    Command::Submit {
        jobs: vec![job(gpus)],
        key: None,
        ends: vec![],
        array_ends: vec![],
        dry_run: false,
    }
}

fn waiting_reply(harness: &Harness, request: RequestId) -> Option<&Result<Reply, Refusal>> {
    let mut waiting = harness.control.waiting_replies();
    waiting.find_map(|(of, reply)| (of == request).then_some(reply))
}

#[test]
fn a_submission_is_answered_and_started_only_when_durable() {
    let mut harness = Harness::new(2);
    harness.slow_store();
    let request = harness.ask(&ana(), submit("1"));
    assert!(!harness.replies.contains_key(&request), "answered before the commit");
    assert!(harness.orders.is_empty(), "started before the commit");
    let other = harness.ask(&ana(), submit("1"));
    let first_of = |harness: &Harness, request| match waiting_reply(harness, request) {
        Some(Ok(Reply::Submitted { first, .. })) => Some(first.0),
        _ => None,
    };
    assert_eq!([request, other].map(|it| first_of(&harness, it)), [Some(1), Some(2)]);
    harness.catch_up();
    assert_eq!(first_of(&harness, request), None);
    assert!(matches!(harness.replies[&request], Ok(Reply::Submitted { n_jobs: 1, .. })));
    assert!(matches!(harness.orders[..], [Order::Run(_), Order::Run(_)]));
}

#[test]
fn a_submission_with_room_starts_in_the_same_commit() {
    let mut harness = Harness::new(2);
    let before = harness.control.revision();
    harness.add(job("1"));
    assert_eq!(harness.control.revision(), before.next());
}

#[test]
fn an_end_and_the_start_that_it_makes_room_for_share_a_commit() {
    let mut harness = Harness::new(1);
    let first = harness.add(job("1"));
    harness.add(job("1"));
    harness.started(first);
    harness.take_orders();
    let before = harness.control.revision();
    harness.exited(first, 0);
    assert_eq!(harness.control.revision(), before.next());
    let orders = harness.take_orders();
    assert!(orders.iter().any(|order| matches!(order, Order::Run(_))), "{orders:?}");
    assert!(orders.iter().any(|order| matches!(order, Order::Acknowledge { .. })), "{orders:?}");
}

#[test]
fn an_end_is_acknowledged_only_when_durable() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.take_orders();
    harness.slow_store();
    let exit = Some(gpool_model::job::ExitStatus::Code(0));
    let is = TaskIs::Ended(end(harness.now, exit, false));
    harness.say(id, is);
    assert!(harness.orders.is_empty(), "{:?}", harness.orders);
    harness.catch_up();
    assert!(matches!(harness.orders[..], [Order::Acknowledge { .. }]));
}

#[test]
fn commits_in_flight_release_their_effects_in_order() {
    let mut harness = Harness::new(1);
    harness.slow_store();
    let first = harness.ask(&ana(), submit("1"));
    let durable_later = harness.in_flight.clone();
    let second = harness.ask(&ana(), submit("1"));
    let revision = durable_later[0];
    harness.step(vec![gpool_model::Event::Committed { revision }]);
    assert!(harness.replies.contains_key(&first));
    assert!(!harness.replies.contains_key(&second));
    harness.catch_up();
    assert!(harness.replies.contains_key(&second));
}

#[test]
fn every_event_that_changed_something_is_journaled_once_without_gaps() {
    let mut harness = Harness::new(2);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.started(id);
    harness.exited(id, 0);
    let seqs: Vec<u64> = harness.journal.iter().map(|entry| entry.seq.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    // Started the server, inventory, tasks, submitted, planned, started (once), ended.
    assert_eq!(seqs.len(), 7);
}
