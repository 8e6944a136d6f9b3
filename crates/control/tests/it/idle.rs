//! The release of the devices of idle jobs, through the state machine.

use gpool_model::agent::{Order, Report, TaskIs};
use gpool_model::job::{Holder, JobState};
use gpool_model::kind::OnIdle;
use gpool_model::node::IdleTask;
use gpool_model::*;

use crate::harness::*;

fn releasing() -> Harness {
    Harness::with_policy(
        1,
        Policy { idle: OnIdle::Release, ..Policy::from_preset("priority").expect("there is one") },
    )
}

/// A notebook with a gate or without one, that runs.
fn notebook(harness: &mut Harness) -> JobId {
    let mut new = job("1");
    new.standing.priority = -1;
    new.life.habits.kind = Some(JobKind::Notebook);
    let id = harness.add(new);
    let orders = harness.take_orders();
    let Some(Order::Run(order)) = orders.last() else { panic!("{orders:?}") };
    assert!(order.has_gate);
    harness.started(id);
    harness.now = harness.now.after(Millis::from_hours(1));
    id
}

/// Reports which tasks are idle, and which ones need their released devices.
fn facts(harness: &mut Harness, idle: &[IdleTask], returning: &[TaskId]) {
    let mut report = inventory(1);
    if let Report::Inventory { facts, .. } = &mut report {
        (facts.idle, facts.returning) = (idle.to_vec(), returning.to_vec());
    }
    harness.report(report);
}

fn is_idle(harness: &mut Harness, id: JobId, has_gate: bool) {
    let (task, since) = (harness.task_of(id), harness.now);
    facts(harness, &[IdleTask { task, since, has_gate }], &[]);
}

/// A notebook with released devices.
fn released() -> (Harness, JobId) {
    let mut harness = releasing();
    let id = notebook(&mut harness);
    is_idle(&mut harness, id, true);
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Pause { runs_on: true, .. }]), "{orders:?}");
    harness.say(id, TaskIs::Paused { pid: 4242, started_at: harness.now });
    (harness, id)
}

fn running(harness: &Harness, id: JobId) -> bool {
    harness.state(id) == JobState::Running
}

fn not_released(harness: &Harness, id: JobId) -> Option<String> {
    let job = &harness.control.world().job(id).expect("it lives").job;
    job.course.not_released.as_deref().map(str::to_owned)
}

#[test]
fn a_released_job_gets_its_device_back_in_queue_order_once_it_needs_it() {
    let (mut harness, id) = released();
    let other = harness.add(job("1"));
    harness.started(other);
    let urgent = harness.add(job("1"));
    let mut later = job("1");
    later.standing.priority = -2;
    let later = harness.add(later);
    let task = harness.task_of(id);
    facts(&mut harness, &[], &[task]);
    let holder =
        |harness: &Harness| harness.control.world().job(id).expect("it lives").job.holder();
    assert_eq!(holder(&harness), None);
    harness.exited(other, 0);
    assert_eq!(harness.state(urgent), JobState::Starting);
    harness.started(urgent);
    harness.take_orders();
    harness.exited(urgent, 0);
    assert!(running(&harness, id));
    let orders = harness.take_orders();
    assert!(orders.iter().any(|order| matches!(order, Order::Resume { .. })), "{orders:?}");
    assert_eq!(harness.task_of(id), task, "the same run");
    assert_eq!(harness.state(later), JobState::Pending);
}

#[test]
fn a_free_device_stays_free_until_the_job_needs_it() {
    let (mut harness, id) = released();
    facts(&mut harness, &[], &[]);
    assert_eq!(harness.state(id), JobState::Paused);
    let job = &harness.control.world().job(id).expect("it lives").job;
    assert_eq!(job.holder(), Some(Holder::Idle));
    assert_eq!(harness.control.world().nodes()[0].devices[0].holders.len(), 0);
    harness.restart();
    harness.report(inventory(1));
    let task = harness.task_of(id);
    facts(&mut harness, &[], &[task]);
    let generation = harness.control.world().job(id).expect("it lives").job.generation;
    let is = TaskIs::Paused { pid: 4242, started_at: harness.now };
    let term = harness.term();
    harness.report(tasks(term, vec![agent::TaskReport { task, generation, is }]));
    assert!(running(&harness, id), "the report also counts after a restart");
}

#[test]
fn a_hold_or_a_resume_of_the_user_comes_first() {
    let (mut harness, id) = released();
    harness.command(&ana(), Command::on(vec![id], JobVerb::Hold)).expect("it is hers");
    let task = harness.task_of(id);
    facts(&mut harness, &[], &[task]);
    assert_eq!(harness.state(id), JobState::Paused);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Resume)).expect("it is hers");
    assert!(running(&harness, id));
}

#[test]
fn a_job_that_can_not_be_released_runs_on_and_says_why() {
    let mut harness = releasing();
    let id = notebook(&mut harness);
    is_idle(&mut harness, id, false);
    assert!(running(&harness, id) && harness.take_orders().is_empty());
    assert!(not_released(&harness, id).is_some_and(|why| why.contains("no gate")));
    harness.now = harness.now.after(Millis::from_hours(1));
    is_idle(&mut harness, id, true);
    let why = "it has managed memory".to_owned();
    let is = TaskIs::NotPaused { pid: 4242, started_at: harness.now, why: why.clone() };
    harness.say(id, is);
    assert!(running(&harness, id));
    assert_eq!(not_released(&harness, id), Some(why));
    // Another attempt follows, since the reason may be gone.
    harness.now = harness.now.after(Millis::from_hours(1));
    is_idle(&mut harness, id, true);
    assert_eq!(harness.state(id), JobState::Paused);
    assert_eq!(not_released(&harness, id), None);
}

#[test]
fn the_policy_does_not_apply_to_other_kinds_unless_they_ask() {
    let cancelling = Policy { idle: OnIdle::Cancel, ..Policy::fair() };
    let mut harness = Harness::with_policy(2, cancelling);
    let plain = harness.add(job("1"));
    let mut asks = job("1");
    asks.life.habits.idle_after = Some(Millis::from_mins(1));
    let asks = harness.add(asks);
    let ids = [plain, asks];
    ids.into_iter().for_each(|id| harness.started(id));
    harness.now = harness.now.after(Millis::from_hours(1));
    let since = harness.now;
    let idle = ids.map(|id| IdleTask { task: harness.task_of(id), since, has_gate: false });
    let mut report = inventory(2);
    if let Report::Inventory { facts, .. } = &mut report {
        facts.idle = idle.to_vec();
    }
    harness.report(report);
    assert_eq!(harness.state(plain), JobState::Running);
    assert_eq!(harness.state(asks), JobState::Stopping);
}
