//! When jobs may start, how long they run, and the consequences of their ends.

use std::sync::Arc;

use gpool_model::agent::{Order, Report, TaskEnd, TaskIs, TaskReport};
use gpool_model::command::ArchivedDependency;
use gpool_model::job::{DependencyKind, EndCause, ExitStatus, JobState};
use gpool_model::life::{OnUnmet, Retry, RetryOn};
use gpool_model::policy::{Caps, UserCaps};
use gpool_model::{
    Command, Dependency, Generation, GpuTime, JobId, JobPatch, JobRequest, JobVerb, LimitChange,
    MilliGpu, Millis, NewJob, Outcome, Policy, Refusal, Reply, SlotPart, Timestamp,
};

use crate::harness::{Harness, after, ana, bo, device, end, inventory, job, root, tasks};

fn retrying(most: u32, on: &[RetryOn]) -> NewJob {
    let mut job = job("1");
    let (on, exits) = (on.iter().copied().collect(), Default::default());
    job.life.retry = Some(Box::new(Retry { most, on, exits, backoff: Millis::ZERO }));
    job
}

fn edit(id: JobId, key: &str, change: impl FnOnce(&mut JobRequest)) -> Command {
    let patch = JobPatch::default().with(key, change);
    Command::Edit { job: id, version: None, patch, ends: Vec::new() }
}

/// Lets this much time pass, and the timer fire.
fn pass(harness: &mut Harness, span: Millis) {
    harness.now = harness.now.after(span);
    harness.step(vec![gpool_model::Event::TimerFired]);
}

#[test]
fn a_failed_attempt_is_followed_by_another_until_none_is_left() {
    let mut harness = Harness::new(1);
    let id = harness.add(retrying(1, &[RetryOn::Fail]));
    let dependent = harness.add(after(job("0"), id, DependencyKind::Fail));
    let first = harness.task_of(id);
    harness.started(id);
    harness.exited(id, 1);
    // The same step has started it again, in another attempt; the dependent job still waits.
    assert_eq!(harness.state(id), JobState::Starting);
    assert_eq!(harness.task_of(id).attempt, first.attempt.next());
    assert_eq!(harness.state(dependent), JobState::Waiting);
    // A report about the attempt that is over changes nothing.
    let is = TaskIs::Ended(end(harness.now, Some(ExitStatus::Code(0)), false));
    harness.report(Report::Task(TaskReport { task: first, generation: Generation(1), is }));
    assert_eq!(harness.state(id), JobState::Starting);
    harness.started(id);
    harness.exited(id, 1);
    assert_eq!(harness.end_of(id).outcome, Outcome::Failed);
    assert_eq!(harness.state(dependent), JobState::Starting);
}

#[test]
fn failures_of_nodes_use_no_retry() {
    let mut harness = Harness::new(1);
    let id = harness.add(retrying(1, &[RetryOn::Fail, RetryOn::Lost]));
    for _ in 0..3 {
        harness.started(id);
        let lost = end(harness.now, None, false);
        harness.say(id, TaskIs::Ended(TaskEnd { cause: Some(EndCause::Rebooted), ..lost }));
        assert_eq!(harness.state(id), JobState::Starting);
    }
    let row = harness.control.world().job(id).expect("it lives");
    assert_eq!((row.job.course.n_retries, row.job.course.n_node_failures), (0, 3));
}

#[test]
fn a_cancellation_overrides_a_retry() {
    let mut harness = Harness::new(1);
    let id = harness.add(retrying(5, &[RetryOn::Fail]));
    harness.started(id);
    harness
        .command(&ana(), Command::on(vec![id], JobVerb::Requeue { hold: false }))
        .expect("own job");
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("own job");
    let stopped = end(harness.now, Some(ExitStatus::Signal(15)), true);
    harness.say(id, TaskIs::Ended(stopped));
    assert_eq!(harness.end_of(id).outcome, Outcome::Cancelled);
}

#[test]
fn a_begin_time_is_waited_for_and_is_no_wait_that_counts() {
    let mut harness = Harness::new(1);
    let mut later = job("1");
    later.life.begin = Some(harness.now.after(Millis::from_hours(30)));
    let id = harness.add(later);
    assert_eq!(harness.state(id), JobState::Waiting);
    pass(&mut harness, Millis::from_hours(29));
    assert_eq!(harness.state(id), JobState::Waiting);
    harness.restart();
    harness.report(inventory(1));
    let term = harness.term();
    harness.report(tasks(term, vec![]));
    pass(&mut harness, Millis::from_hours(1));
    assert_eq!(harness.state(id), JobState::Starting);
    let row = harness.control.world().job(id).expect("it lives");
    assert_eq!(row.job.waited, Millis::ZERO);
}

#[test]
fn a_deadline_that_can_not_be_kept_ends_the_job() {
    let mut harness = Harness::new(1);
    let blocker = harness.add(job("1"));
    let mut late = job("1");
    late.time_limit = Some(Millis::from_hours(2));
    late.life.deadline = Some(harness.now.after(Millis::from_hours(3)));
    let id = harness.add(late.clone());
    pass(&mut harness, Millis::from_hours(1));
    assert_eq!(harness.state(id), JobState::Pending);
    pass(&mut harness, Millis::new(1));
    assert_eq!(harness.end_of(id).cause, Some(EndCause::Deadline));
    assert_eq!(harness.state(blocker), JobState::Starting);
    let refused = harness.submit(&ana(), vec![late]);
    assert!(matches!(refused, Err(Refusal::Invalid { field, .. }) if field == "deadline"));
}

#[test]
fn a_limit_is_sent_again_until_the_agent_has_it() {
    let mut harness = Harness::new(1);
    let mut limited = job("1");
    limited.time_limit = Some(Millis::from_hours(1));
    let id = harness.add(limited);
    harness.started(id);
    let (task, before) = (harness.task_of(id), Generation(1));
    harness.take_orders();
    let change = LimitChange::Longer { by: Millis::from_hours(1) };
    harness.command(&ana(), Command::on(vec![id], JobVerb::Extend { change })).expect("own job");
    let is_limit = |order: &Order| {
        let wanted = Some(Millis::from_hours(2));
        matches!(order, Order::Change { terms, .. } if terms.limit == wanted)
    };
    assert!(harness.take_orders().iter().any(is_limit));
    // The order was lost: the agent's answer shows that.
    let is = TaskIs::Running { pid: 4242, started_at: harness.now };
    let report = TaskReport { task, generation: before, is };
    let term = harness.term();
    harness.report(tasks(term, vec![report.clone()]));
    assert!(harness.take_orders().iter().any(is_limit));
    let generation = before.next();
    harness.report(tasks(term, vec![TaskReport { generation, ..report }]));
    assert!(!harness.take_orders().iter().any(is_limit));
    assert_eq!(harness.state(id), JobState::Running);
}

/// Changes the GPUs of a job.
fn resized(id: JobId, gpus: &str) -> Command {
    edit(id, "gpus", |to| to.gpus = job(gpus).request.gpus)
}

#[test]
fn the_shares_of_a_running_job_grow_as_far_as_there_is_room() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("0.25"));
    let other = harness.add(job("0.5"));
    harness.started(id);
    harness.started(other);
    let waiting = harness.add(job("0.2"));
    harness.take_orders();
    pass(&mut harness, Millis::from_hours(1));
    harness.command(&ana(), resized(id, "0.3:1")).expect("there is room");
    let orders = harness.take_orders();
    let part = |order: &Order| match order {
        Order::Change { terms, .. } => Some(terms.parts[0]),
        _ => None,
    };
    let memory = device(0).memory;
    let parts: Vec<SlotPart> = orders.iter().filter_map(part).collect();
    let [SlotPart::Share { charge, limit, .. }] = parts[..] else { panic!("{orders:?}") };
    assert_eq!((charge, limit), (MilliGpu::new(300), memory));
    // Nothing is counted twice, and the rest is still allocated.
    harness.started(waiting);
    let refused = harness.command(&ana(), resized(id, "0.6"));
    let Err(Refusal::Invalid { field, why }) = refused else { panic!("{refused:?}") };
    assert_eq!(field, "gpus");
    assert!(why.contains("at most 0.3 of this job"), "{why}");
    for wrong in ["1", "2@0.3", "20G", "h100:0.3"] {
        let refused = harness.command(&ana(), resized(id, wrong));
        assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{wrong}: {refused:?}");
    }
    // Each hour counts with the size of that hour.
    pass(&mut harness, Millis::from_hours(1));
    harness.exited(other, 0);
    harness.command(&ana(), resized(id, "0.8")).expect("the other job has ended");
    pass(&mut harness, Millis::from_hours(1));
    let attained = harness.control.world().job(id).expect("it runs").job.attained(harness.now);
    assert_eq!(attained, GpuTime::of(MilliGpu::new(250 + 300 + 800), Millis::from_hours(1)));
}

#[test]
fn a_share_grows_within_the_limits_of_its_user() {
    let most = |gpus| UserCaps {
        all: Caps { gpus: Some(MilliGpu::new(gpus)), ..Caps::default() },
        ..UserCaps::default()
    };
    let policy = Policy { user_caps: most(500), ..Policy::fair() };
    let mut harness = Harness::with_policy(1, policy);
    let id = harness.add(job("0.25"));
    harness.started(id);
    harness.command(&ana(), resized(id, "0.5")).expect("within the limit");
    let refused = harness.command(&ana(), resized(id, "0.6"));
    assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{refused:?}");
    harness.command(&ana(), resized(id, "0.1")).expect("smaller");
}

#[test]
fn users_extend_running_jobs_up_to_their_allowance() {
    let mut harness = Harness::new(1);
    let mut limited = job("1");
    limited.time_limit = Some(Millis::from_hours(1));
    let id = harness.add(limited);
    harness.started(id);
    let to = |hours: u32| {
        let change = LimitChange::To { limit: Some(Millis::from_hours(hours)) };
        Command::on(vec![id], JobVerb::Extend { change })
    };
    harness.command(&ana(), to(4)).expect("three hours more");
    let refused = harness.command(&ana(), to(6));
    assert!(matches!(refused, Err(Refusal::ExtendTooLong { .. })), "{refused:?}");
    harness.command(&ana(), to(2)).expect("shorter");
    harness.command(&ana(), to(5)).expect("removed time may be added again");
    let refused = harness.command(&bo(), to(2));
    assert!(matches!(refused, Err(Refusal::NotPermitted { .. })));
    harness.command(&root(), to(100)).expect("an admin may");
}

#[test]
fn a_job_may_wait_for_another_to_start() {
    let mut harness = Harness::new(1);
    let id = harness.add(retrying(1, &[RetryOn::Fail]));
    let dependent = harness.add(after(job("0"), id, DependencyKind::Start));
    assert_eq!(harness.state(dependent), JobState::Waiting);
    harness.started(id);
    assert_eq!(harness.state(dependent), JobState::Starting);
    // A dependent that is submitted while the other job waits for its next run does not wait.
    let late = after(job("0"), id, DependencyKind::Start);
    harness.exited(id, 1);
    let late = harness.add(late);
    assert_eq!(harness.state(late), JobState::Starting);
    // A job that ends without a start is not waited for any longer.
    let waits = harness.add(job("1"));
    let last = harness.add(after(job("0"), waits, DependencyKind::Start));
    assert_eq!(harness.state(last), JobState::Waiting);
    harness.command(&ana(), Command::on(vec![waits], JobVerb::Cancel)).expect("own job");
    assert_eq!(harness.state(last), JobState::Starting);
    let snapshot = gpool_world::Snapshot { world: harness.control.world(), now: harness.now };
    assert_eq!(gpool_verify::check(&snapshot), []);
}

#[test]
fn a_delay_counts_from_the_start_of_the_other_job() {
    let mut harness = Harness::new(1);
    let delay = Some(Millis::from_mins(5));
    let delayed = |id| {
        let mut job = job("0");
        job.after.push(Dependency { delay, ..Dependency::new(id, DependencyKind::Start) });
        job
    };
    let first = harness.add(job("1"));
    let before = harness.add(delayed(first));
    harness.started(first);
    let started_at = Some(harness.now);
    pass(&mut harness, Millis::from_mins(2));
    assert_eq!(harness.state(before), JobState::Waiting);
    let after = harness.add(delayed(first));
    // The end of the other job does not matter, and neither does a restart.
    let ended = end(harness.now, Some(ExitStatus::Code(0)), false);
    harness.say(first, TaskIs::Ended(TaskEnd { started_at, ..ended }));
    harness.restart();
    harness.report(inventory(1));
    let term = harness.term();
    harness.report(tasks(term, vec![]));
    pass(&mut harness, Millis::from_mins(3).saturating_sub(Millis::new(1)));
    assert_eq!([before, after].map(|id| harness.state(id)), [JobState::Waiting; 2]);
    pass(&mut harness, Millis::new(1));
    assert_eq!([before, after].map(|id| harness.state(id)), [JobState::Starting; 2]);
    // A job that never started counts from its end.
    let mut held = job("1");
    held.standing.hold = true;
    let held = harness.add(held);
    let last = harness.add(delayed(held));
    harness.command(&ana(), Command::on(vec![held], JobVerb::Cancel)).expect("own job");
    assert_eq!(harness.state(last), JobState::Waiting);
    pass(&mut harness, Millis::from_mins(5));
    assert_eq!(harness.state(last), JobState::Starting);
}

#[test]
fn a_delay_counts_from_the_start_of_an_archived_job() {
    let mut harness = Harness::new(1);
    let archived = JobId::single(99);
    let began_at = harness.now;
    let ends = vec![ArchivedDependency { job: archived, outcome: Outcome::Failed, began_at }];
    let delay = Some(Millis::from_mins(5));
    let after = Dependency { delay, ..Dependency::new(archived, DependencyKind::Start) };
    let mut delayed = job("0");
    delayed.after.push(after);
    let submit = Command::Submit {
        jobs: vec![delayed],
        key: None,
        ends: ends.clone(),
        array_ends: vec![],
        dry_run: false,
    };
    let Ok(Reply::Submitted { first: new, .. }) = harness.command(&ana(), submit) else { panic!() };
    let mut held = job("0");
    held.standing.hold = true;
    let edited = harness.add(held);
    let patch = JobPatch::default().with("after", |to| to.after.push(after));
    let edit = Command::Edit { job: edited, version: None, patch, ends };
    harness.command(&ana(), edit).expect("own job");
    let release = Command::on(vec![edited], JobVerb::Release { at: None });
    harness.command(&ana(), release).expect("own job");
    let states = |harness: &Harness| [JobId::single(new.0), edited].map(|id| harness.state(id));
    pass(&mut harness, Millis::from_mins(5).saturating_sub(Millis::new(1)));
    assert_eq!(states(&harness), [JobState::Waiting; 2]);
    pass(&mut harness, Millis::new(1));
    assert_eq!(states(&harness), [JobState::Starting; 2]);
}

#[test]
fn one_of_several_is_enough_and_none_is_not() {
    let mut harness = Harness::new(4);
    let [one, two] = [harness.add(job("1")), harness.add(job("1"))];
    let mut first = job("0");
    let ok = |job| Dependency::new(job, DependencyKind::Ok);
    first.life.after_one = vec![ok(one), ok(two)].into();
    let mut kept = first.clone();
    kept.life.on_unmet = OnUnmet::Keep;
    let waits = harness.add(first.clone());
    let keeps = harness.add(kept);
    for id in [one, two] {
        harness.started(id);
        assert_eq!(harness.state(waits), JobState::Waiting);
        harness.exited(id, 1);
    }
    assert_eq!(harness.end_of(waits).cause, Some(EndCause::DependencyFailed { job: two }));
    assert_eq!(harness.state(keeps), JobState::Waiting);
    harness.command(&ana(), edit(keeps, "after_one", |_| ())).expect("own job");
    assert_eq!(harness.state(keeps), JobState::Starting);
}

#[test]
fn cycles_are_refused_however_long() {
    let mut harness = Harness::new(0);
    let held = job("0").with(|it| it.standing.hold = true);
    let first = harness.add(held);
    let mut last = first;
    for _ in 0..5000 {
        last = harness.add(after(job("0"), last, DependencyKind::End));
    }
    let after = vec![Dependency::new(last, DependencyKind::Ok)];
    match harness.command(&ana(), edit(first, "after", |to| to.after = after.into())) {
        Err(Refusal::DependencyCycle { jobs }) => assert_eq!(jobs.len(), 5001),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn caps_hold_back_only_their_own_user_s_jobs() {
    let mut policy = Policy::fair();
    let gpus = Some(MilliGpu::from_devices(2));
    let caps = Caps { gpus, pending_jobs: Some(2), running_jobs: None };
    policy.user_caps =
        UserCaps { all: Caps::default(), of: [(Arc::from("ana"), caps)].into_iter().collect() };
    let mut harness = Harness::with_policy(4, policy);
    let ids: Vec<JobId> = (0..3).map(|_| harness.add(job("1"))).collect();
    let states: Vec<JobState> = ids.iter().map(|id| harness.state(*id)).collect();
    assert_eq!(states, [JobState::Starting, JobState::Starting, JobState::Pending]);
    harness.submit(&bo(), vec![job("1")]).expect("another user");
    assert_eq!(harness.control.world().n_pending(), 1, "the other user's job has started");
    harness.add(job("1").with(|it| it.standing.hold = true));
    let refused = harness.submit(&ana(), vec![job("1")]);
    assert!(matches!(refused, Err(Refusal::UserCap { most: 2, .. })), "{refused:?}");
    harness.started(ids[0]);
    harness.exited(ids[0], 0);
    assert_eq!(harness.state(ids[2]), JobState::Starting);
}

#[test]
fn a_held_job_is_released_at_its_moment() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1").with(|it| it.standing.hold = true));
    let at = Some(Timestamp::new(harness.now.get() + 60_000));
    harness.command(&ana(), Command::on(vec![id], JobVerb::Release { at })).expect("own job");
    assert_eq!(harness.state(id), JobState::Held);
    pass(&mut harness, Millis::from_mins(1));
    assert_eq!(harness.state(id), JobState::Starting);
}
