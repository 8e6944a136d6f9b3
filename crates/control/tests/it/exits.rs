//! In which ways jobs are taken back, through the state machine.

use gpool_model::agent::{Order, TaskIs};
use gpool_model::job::{EndCause, ExitStatus, JobState};
use gpool_model::life::Again;
use gpool_model::*;

use crate::harness::*;

/// A job that gives way to a higher priority, in those ways.
fn gives_way(exits: &[Exit]) -> NewJob {
    let mut new = NewJob { priority: -1, ..job("1") };
    new.life.preemptible = Some(true);
    new.life.exits = exits.iter().copied().collect();
    new
}

fn one_device() -> Harness {
    Harness::with_policy(1, Policy::from_preset("priority").expect("there is one"))
}

#[test]
fn who_saves_is_told_by_its_signal_and_is_run_again_as_its_next_attempt() {
    let mut harness = one_device();
    let mut new = gives_way(&[Exit::Checkpoint, Exit::Kill]);
    let grace = Some(Millis::from_mins(5));
    new.life.checkpoint = Some(Checkpoint { signal: 10, grace });
    new.life.retry = Some(gpool_model::life::Retry {
        most: 1,
        on: std::collections::BTreeSet::new(),
        exits: std::collections::BTreeSet::new(),
        backoff: Millis::ZERO,
    });
    let victim = harness.add(new);
    harness.started(victim);
    harness.take_orders();
    let winner = harness.add(job("1"));
    let orders = harness.take_orders();
    let [Order::Stop { grace: told, signal, .. }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((Some(*told), *signal), (grace, Some(10)));
    // Said again after a restart, as it was said.
    let now = harness.now;
    harness.say(victim, TaskIs::Ended(end(now, Some(ExitStatus::Code(0)), true)));
    assert_eq!(harness.state(victim), JobState::Pending);
    assert_eq!(harness.state(winner), JobState::Starting);
    let job = &harness.control.world().job(victim).expect("it is there").job;
    assert_eq!((job.attempt, job.course.n_retries), (Attempt(2), 0));
    let again = &job.course.past[0].again;
    assert!(matches!(again, Again::TakenBack { exit: Exit::Checkpoint, .. }), "{again:?}");
}

#[test]
fn who_is_cancelled_while_it_saves_is_not_waited_for() {
    let mut harness = one_device();
    let victim = harness.add(gives_way(&[Exit::Checkpoint]));
    harness.started(victim);
    harness.add(job("1"));
    harness.take_orders();
    harness.command(&ana(), Command::Cancel { jobs: vec![victim] }).expect("it is hers");
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { signal: None, .. }]), "{orders:?}");
}

#[test]
fn who_may_be_ended_for_good_is_not_run_again() {
    let mut harness = one_device();
    let victim = harness.add(gives_way(&[Exit::Kill]));
    harness.started(victim);
    let winner = harness.add(job("1"));
    let now = harness.now;
    harness.say(victim, TaskIs::Ended(end(now, Some(ExitStatus::Signal(15)), true)));
    let ended = harness.end_of(victim);
    assert_eq!(ended.outcome, Outcome::Cancelled);
    let cause = EndCause::TakenBack { why: TakenBack::Preempt, beneficiary: winner };
    assert_eq!(ended.cause, Some(cause));
}

#[test]
fn exits_that_can_not_be_are_refused_when_they_are_asked_for() {
    let mut harness = one_device();
    let refused = |harness: &mut Harness, new: NewJob| {
        matches!(
            harness.submit(&ana(), vec![new]),
            Err(Refusal::Invalid { field, .. }) if field == "exits"
        )
    };
    assert!(refused(&mut harness, gives_way(&[Exit::Pause])));
    let mut never = gives_way(&[Exit::Requeue]);
    never.life.requeue = Some(false);
    assert!(refused(&mut harness, never));
    assert!(!refused(&mut harness, gives_way(&[Exit::Pause, Exit::Kill])));
}
