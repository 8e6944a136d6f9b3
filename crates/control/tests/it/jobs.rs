//! Actions of users on jobs, and the ends of jobs.

use gpool_model::SignalTo;
use gpool_model::agent::{Order, TaskEnd, TaskIs};
use gpool_model::job::{EndCause, ExitStatus, Holder, JobState, Outcome};
use gpool_model::{
    Command, DependencyKind, DeviceUuid, JobId, JobPatch, JobVerb, Millis, Phase, Refusal,
};

use crate::harness::{Harness, NODE, after, ana, bo, end, inventory, job, root};

#[test]
fn the_end_follows_from_the_exit_status_and_its_cause() {
    let code = |code| Some(ExitStatus::Code(code));
    let cases: [(Option<ExitStatus>, Option<EndCause>, Outcome); 7] = [
        (code(0), None, Outcome::Succeeded),
        (code(3), None, Outcome::Failed),
        (Some(ExitStatus::Signal(11)), None, Outcome::Failed),
        (Some(ExitStatus::Signal(9)), Some(EndCause::Oom), Outcome::Failed),
        (Some(ExitStatus::Signal(15)), Some(EndCause::TimeLimit), Outcome::TimedOut),
        (None, Some(EndCause::Rebooted), Outcome::Lost),
        (None, None, Outcome::Lost),
    ];
    for (exit, cause, outcome) in cases {
        let mut harness = Harness::new(1);
        let id = harness.add(job("1"));
        harness.started(id);
        let end = TaskEnd { cause, ..end(harness.now, exit, false) };
        harness.say(id, TaskIs::Ended(end));
        assert_eq!(harness.end_of(id).outcome, outcome, "{exit:?}");
    }
}

#[test]
fn a_shepherd_that_ends_before_its_program_starts_leaves_a_failed_job_with_a_cause() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    let end = TaskEnd { started_at: None, ..end(harness.now, None, true) };
    harness.say(id, TaskIs::Ended(end));
    let end = harness.end_of(id);
    assert_eq!(end.outcome, Outcome::Failed);
    assert!(matches!(end.cause, Some(EndCause::LaunchFailed { .. })), "{:?}", end.cause);
}

#[test]
fn cancelling_a_waiting_job_ends_it_at_once_and_a_running_one_when_it_has_ended() {
    let mut harness = Harness::new(1);
    let running = harness.add(job("1"));
    let waiting = harness.add(job("1"));
    harness.started(running);
    harness.take_orders();
    harness
        .command(&ana(), Command::on(vec![running, waiting], JobVerb::Cancel))
        .expect("own jobs");
    assert_eq!(harness.state(waiting), JobState::Cancelled);
    assert_eq!(harness.state(running), JobState::Stopping);
    assert!(matches!(harness.take_orders()[..], [Order::Stop { .. }]));
    let gone = end(harness.now, Some(ExitStatus::Signal(15)), true);
    harness.say(running, TaskIs::Ended(gone));
    assert_eq!(harness.state(running), JobState::Cancelled);
}

#[test]
fn a_job_that_ended_before_the_order_to_stop_is_not_cancelled() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("own job");
    harness.exited(id, 0);
    assert_eq!(harness.end_of(id).outcome, Outcome::Succeeded);
}

#[test]
fn the_device_of_a_stopping_job_is_given_out_only_when_it_has_ended() {
    let mut harness = Harness::new(1);
    let first = harness.add(job("1"));
    harness.started(first);
    let second = harness.add(job("1"));
    harness.command(&ana(), Command::on(vec![first], JobVerb::Cancel)).expect("own job");
    assert_eq!(harness.state(second), JobState::Pending);
    harness.say(first, TaskIs::Ended(end(harness.now, Some(ExitStatus::Signal(9)), true)));
    assert_eq!(harness.state(second), JobState::Starting);
}

#[test]
fn users_can_not_change_jobs_of_others_and_root_can() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    let jobs = vec![id];
    for command in [
        Command::on(jobs.clone(), JobVerb::Cancel),
        Command::on(jobs.clone(), JobVerb::Signal { signal: 10, to: SignalTo::Job }),
        Command::Edit { job: id, version: None, patch: JobPatch::default(), ends: Vec::new() },
    ] {
        let refused = harness.command(&bo(), command);
        assert!(matches!(refused, Err(Refusal::NotPermitted { .. })), "{refused:?}");
    }
    assert!(harness.command(&root(), Command::on(jobs, JobVerb::Cancel)).is_ok());
}

#[test]
fn a_request_for_several_jobs_is_carried_out_for_all_or_none() {
    let mut harness = Harness::new(0);
    let held = harness.add(job("0").with(|it| it.standing.hold = true));
    let absent = JobId::single(77);
    let refused = harness.command(&ana(), Command::on(vec![held, absent], JobVerb::Cancel));
    assert!(matches!(refused, Err(Refusal::NoSuchJob { .. })));
    assert_eq!(harness.state(held), JobState::Held);
}

#[test]
fn held_jobs_are_skipped_and_only_their_holder_releases_them() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1").with(|it| it.standing.hold = true));
    assert_eq!(harness.state(id), JobState::Held);
    harness.command(&root(), Command::on(vec![id], JobVerb::Hold)).expect("root may");
    let row = harness.control.world().job(id).expect("it is live");
    assert!(matches!(row.job.phase, Phase::Held { by: Holder::Admin, .. }));
    let refused = harness.command(&ana(), Command::on(vec![id], JobVerb::Release { at: None }));
    assert!(matches!(refused, Err(Refusal::HeldByAdmin { .. })));
    harness
        .command(&root(), Command::on(vec![id], JobVerb::Release { at: None }))
        .expect("root may");
    assert_eq!(harness.state(id), JobState::Starting);
    let refused = harness.command(&ana(), Command::on(vec![id], JobVerb::Release { at: None }));
    assert!(matches!(refused, Err(Refusal::WrongState { .. })));
}

#[test]
fn time_held_does_not_count_as_waiting() {
    let mut harness = Harness::new(1);
    let running = harness.add(job("1"));
    harness.started(running);
    let id = harness.add(job("1"));
    let later = |harness: &mut Harness| harness.now = harness.now.after(Millis::from_mins(10));
    later(&mut harness);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Hold)).expect("own job");
    later(&mut harness);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Release { at: None })).expect("own job");
    later(&mut harness);
    harness.exited(running, 0);
    let row = harness.control.world().job(id).expect("it is live");
    assert_eq!(row.job.waited, Millis::from_mins(20));
}

#[test]
fn a_job_starts_after_the_one_it_waits_for_or_ends_with_it() {
    let mut harness = Harness::new(1);
    let first = harness.add(job("1"));
    harness.started(first);
    let on_ok = harness.add(after(job("0"), first, DependencyKind::Ok));
    let on_fail = harness.add(after(job("0"), first, DependencyKind::Fail));
    let on_end = harness.add(after(job("0"), first, DependencyKind::End));
    let behind = harness.add(after(job("0"), on_fail, DependencyKind::Ok));
    for id in [on_ok, on_fail, on_end, behind] {
        assert_eq!(harness.state(id), JobState::Waiting);
    }
    harness.exited(first, 0);
    assert_eq!(harness.state(on_ok), JobState::Starting);
    assert_eq!(harness.state(on_end), JobState::Starting);
    assert_eq!(harness.state(on_fail), JobState::Cancelled);
    assert_eq!(harness.state(behind), JobState::Cancelled, "the dependent job ends too");
    let cause = harness.end_of(behind).cause.clone();
    assert_eq!(cause, Some(EndCause::DependencyFailed { job: on_fail }));
}

#[test]
fn a_long_chain_of_dependencies_ends_without_recursion() {
    let mut harness = Harness::new(0);
    let first = harness.add(job("0").with(|it| it.standing.hold = true));
    let mut last = first;
    for _ in 0..5_000 {
        last = harness.add(after(job("0"), last, DependencyKind::Ok));
    }
    harness.command(&ana(), Command::on(vec![first], JobVerb::Cancel)).expect("own job");
    assert_eq!(harness.state(last), JobState::Cancelled);
    assert!(harness.control.world().jobs().is_empty());
}

#[test]
fn of_two_edits_at_once_the_second_is_refused() {
    let mut harness = Harness::new(0);
    let id = harness.add(job("0").with(|it| it.standing.hold = true));
    let edit = |version, note: &str| Command::Edit {
        job: id,
        version: Some(version),
        patch: JobPatch::default().with("note", |to| to.standing.note = Some(note.to_owned())),
        ends: Vec::new(),
    };
    assert!(harness.command(&ana(), edit(1, "mine")).is_ok());
    let second = harness.command(&root(), edit(1, "no, mine"));
    assert!(matches!(second, Err(Refusal::VersionConflict { expected: 1, found: 2, .. })));
    let row = harness.control.world().job(id).expect("it is live");
    assert_eq!(row.job.note.as_deref(), Some("mine"));
}

#[test]
fn a_refused_start_goes_back_to_the_queue_in_the_same_attempt() {
    let mut harness = Harness::new(2);
    let id = harness.add(job("1"));
    // The agent reports a process of another user on device 0, then refuses.
    let mut report = inventory(2);
    if let gpool_model::agent::Report::Inventory { devices, .. } = &mut report {
        devices[0].unmanaged.push(gpool_model::DeviceProcess {
            pid: 41822,
            user: Some("eve".to_owned()),
            name: Some("python".to_owned()),
            memory: None,
            seen_since: harness.now,
        });
    }
    harness.report(report);
    harness.take_orders();
    harness.say(id, TaskIs::Refused { devices: vec![DeviceUuid::new("GPU-0")] });
    let orders = harness.take_orders();
    let Some(Order::Run(order)) = orders.iter().find(|order| matches!(order, Order::Run(_))) else {
        panic!("not started again: {orders:?}");
    };
    assert_eq!(order.allocation.slots[0].index, 1);
    assert_eq!((order.task().attempt.0, order.generation.0), (1, 2));
}

#[test]
fn devices_that_are_not_allowed_are_not_given_out() {
    let mut harness = Harness::new(3);
    let allow = |devices: &[&str]| Command::AllowDevices {
        node: gpool_model::NodeName::new(NODE),
        devices: Some(devices.iter().map(|device| (*device).to_owned()).collect()),
    };
    let refused = harness.command(&ana(), allow(&["1"]));
    assert!(matches!(refused, Err(Refusal::NotPermitted { .. })));
    let refused = harness.command(&root(), allow(&["1", "9"]));
    assert!(matches!(refused, Err(Refusal::NoSuchDevice { n_devices: 3, .. })));
    harness.command(&root(), allow(&["1", "GPU-2"])).expect("root may");
    let id = harness.add(job("2"));
    let row = harness.control.world().job(id).expect("it is live");
    let indexes: Vec<u32> =
        row.job.phase.allocations()[0].slots.iter().map(|slot| slot.index).collect();
    assert_eq!(indexes, [1, 2]);
    let refused = harness.submit(&ana(), vec![job("3")]);
    assert!(matches!(refused, Err(Refusal::ImpossibleGpus { n_kept_back: 1, .. })), "{refused:?}");
}

#[test]
fn a_held_job_ends_with_a_job_that_it_waited_for_and_is_not_released_into_the_queue() {
    let mut harness = Harness::new(1);
    let first = harness.add(job("1"));
    harness.started(first);
    let second = harness.add(after(job("1"), first, DependencyKind::Ok));
    let patient = harness.add(after(job("1"), first, DependencyKind::Fail));
    harness.command(&ana(), Command::on(vec![second, patient], JobVerb::Hold)).expect("own jobs");
    harness.exited(first, 3);
    assert_eq!(harness.state(second), JobState::Cancelled);
    assert_eq!(harness.end_of(second).cause, Some(EndCause::DependencyFailed { job: first }));
    assert_eq!(harness.state(patient), JobState::Held, "it may start, once it is released");
    harness
        .command(&ana(), Command::on(vec![patient], JobVerb::Release { at: None }))
        .expect("own job");
    assert_eq!(harness.state(patient), JobState::Starting);
}
