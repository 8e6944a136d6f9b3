//! Jobs of several tasks: they start together, run when all have started, and end together.

use gpool_model::SignalTo;
use gpool_model::agent::{Order, Report, TaskEnd, TaskIs, TaskOrder, TaskReport};
use gpool_model::job::Again;
use gpool_model::job::{EndCause, ExitStatus, JobState};
use gpool_model::life::{Life, Retry};
use gpool_model::*;

use crate::harness::{Harness, ana, end, job, tasks};

/// Two tasks on the node, one device each.
fn pair() -> NewJob {
    job("1").with(|it| it.gang = Gang::new(1, 2).expect("two tasks"))
}

fn task(harness: &Harness, id: JobId, rank: u32) -> TaskReport {
    let row = harness.control.world().job(id).expect("it is live");
    let task = TaskId { job: id, attempt: row.job.attempt, rank };
    TaskReport { task, generation: row.job.generation, is: TaskIs::Launching }
}

fn say(harness: &mut Harness, id: JobId, rank: u32, is: TaskIs) {
    let report = TaskReport { is, ..task(harness, id, rank) };
    harness.report(Report::Task(report));
}

fn started(harness: &mut Harness, id: JobId, rank: u32) {
    let started_at = harness.now;
    say(harness, id, rank, TaskIs::Running { pid: 4000 + rank, started_at });
}

fn exited(harness: &mut Harness, id: JobId, rank: u32, code: i32) {
    let end = end(harness.now, Some(ExitStatus::Code(code)), false);
    say(harness, id, rank, TaskIs::Ended(end));
}

fn stopped(harness: &mut Harness, id: JobId, rank: u32) {
    let end = end(harness.now, Some(ExitStatus::Signal(15)), true);
    say(harness, id, rank, TaskIs::Ended(end));
}

fn running(harness: &mut Harness) -> JobId {
    let id = harness.add(pair());
    started(harness, id, 0);
    started(harness, id, 1);
    harness.orders.clear();
    id
}

fn n_stops(orders: &[Order]) -> Vec<u32> {
    let stop = |order: &Order| match order {
        Order::Stop { task, .. } => Some(task.rank),
        _ => None,
    };
    orders.iter().filter_map(stop).collect()
}

fn violations(harness: &Harness) -> Vec<gpool_verify::Violation> {
    let snapshot = gpool_world::Snapshot { world: harness.control.world(), now: harness.now };
    gpool_verify::check(&snapshot)
}

#[test]
fn all_tasks_are_ordered_at_once_and_the_job_runs_when_all_have_started() {
    let mut harness = Harness::new(4);
    let id = harness.add(pair());
    let runs: Vec<(u32, Vec<NodeName>)> = harness
        .take_orders()
        .into_iter()
        .filter_map(|order| match order {
            Order::Run(run) => Some((run.task().rank, run.nodes)),
            _ => None,
        })
        .collect();
    let nodes = vec![NodeName::new("lab1"); 2];
    assert_eq!(runs, [(0, nodes.clone()), (1, nodes)]);
    started(&mut harness, id, 1);
    assert_eq!(harness.state(id), JobState::Starting);
    assert_eq!(violations(&harness), []);
    harness.now = harness.now.after(Millis::from_secs(1));
    started(&mut harness, id, 0);
    assert_eq!(harness.state(id), JobState::Running);
    let row = harness.control.world().job(id).expect("it runs");
    let Phase::Running { started_at, .. } = &row.job.phase else { panic!("it runs") };
    assert_eq!(harness.now.since(*started_at), Millis::from_secs(1), "as the first of them");
    assert_eq!(violations(&harness), []);
}

#[test]
fn it_has_succeeded_when_all_have_and_holds_its_place_until_then() {
    let mut harness = Harness::new(2);
    let id = running(&mut harness);
    let next = harness.add(job("1"));
    exited(&mut harness, id, 0, 0);
    assert_eq!(harness.state(id), JobState::Running);
    assert_eq!(harness.state(next), JobState::Pending, "all of it is held");
    assert!(matches!(harness.take_orders()[..], [Order::Acknowledge { .. }]));
    // A repeated report is acknowledged again and changes nothing.
    exited(&mut harness, id, 0, 3);
    assert_eq!(harness.state(id), JobState::Running);
    assert_eq!(violations(&harness), []);
    exited(&mut harness, id, 1, 0);
    assert_eq!(harness.state(id), JobState::Succeeded);
    assert_eq!(harness.state(next), JobState::Starting);
}

#[test]
fn the_first_that_fails_takes_the_others_with_it_and_says_how_it_ended() {
    let mut harness = Harness::new(2);
    let id = running(&mut harness);
    exited(&mut harness, id, 1, 3);
    assert_eq!(harness.state(id), JobState::Stopping);
    assert_eq!(n_stops(&harness.take_orders()), [0], "whoever has ended is not told");
    assert_eq!(violations(&harness), []);
    stopped(&mut harness, id, 0);
    let end = harness.end_of(id);
    assert_eq!((end.outcome, end.exit), (Outcome::Failed, Some(ExitStatus::Code(3))));
    assert_eq!(end.cause, Some(EndCause::TaskFailed { rank: 1 }));
}

#[test]
fn a_launcher_ends_the_others_and_its_end_is_that_of_the_job() {
    for (code, outcome) in [(0, Outcome::Succeeded), (3, Outcome::Failed)] {
        let mut harness = Harness::new(2);
        let gang = Gang { launcher: 4, ..Gang::new(1, 2).expect("two tasks") };
        let id = harness.add(job("1").with(|it| it.gang = gang));
        started(&mut harness, id, 0);
        started(&mut harness, id, 1);
        harness.orders.clear();
        exited(&mut harness, id, 0, code);
        assert_eq!(harness.state(id), JobState::Stopping);
        assert_eq!(n_stops(&harness.take_orders()), [1]);
        assert_eq!(violations(&harness), []);
        stopped(&mut harness, id, 1);
        let end = harness.end_of(id);
        assert_eq!((end.outcome, end.exit), (outcome, Some(ExitStatus::Code(code))));
    }
}

#[test]
fn a_cancellation_overrides_the_retry_of_a_failing_gang() {
    let mut harness = Harness::new(2);
    let retry = Retry { most: 1, on: [].into(), exits: [].into(), backoff: Millis::ZERO };
    let life = Life { retry: Some(Box::new(retry)), ..Life::default() };
    let id = harness.add(pair().with(|it| it.life = life));
    started(&mut harness, id, 0);
    exited(&mut harness, id, 1, 3);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("it may");
    stopped(&mut harness, id, 0);
    assert_eq!(harness.end_of(id).outcome, Outcome::Cancelled);
}

#[test]
fn a_gang_that_fails_is_retried_as_a_whole() {
    let mut harness = Harness::new(2);
    let retry = Retry { most: 1, on: [].into(), exits: [].into(), backoff: Millis::ZERO };
    let life = Life { retry: Some(Box::new(retry)), ..Life::default() };
    let id = harness.add(pair().with(|it| it.life = life));
    started(&mut harness, id, 0);
    started(&mut harness, id, 1);
    exited(&mut harness, id, 0, 1);
    stopped(&mut harness, id, 1);
    assert_eq!(harness.state(id), JobState::Starting);
    let row = harness.control.world().job(id).expect("it starts again");
    assert_eq!(row.job.attempt, Attempt(2));
    assert_eq!(row.job.course.tasks, [], "nothing has come of it yet");
}

#[test]
fn a_task_whose_device_is_taken_pulls_the_whole_gang_back() {
    let mut harness = Harness::new(2);
    let id = harness.add(pair());
    started(&mut harness, id, 0);
    harness.orders.clear();
    say(&mut harness, id, 1, TaskIs::Refused { devices: vec![DeviceUuid::new("GPU-1")] });
    assert_eq!(harness.state(id), JobState::Stopping);
    assert_eq!(n_stops(&harness.orders), [0]);
    assert_eq!(violations(&harness), []);
    stopped(&mut harness, id, 0);
    let row = harness.control.world().job(id).expect("it goes on");
    assert_eq!(row.job.attempt, Attempt(2));
    assert_eq!(row.job.course.past[0].again, Again::TaskRefused { rank: 1 });
    assert_eq!(row.job.course.n_retries, 0);
}

#[test]
fn a_gang_of_which_nothing_was_launched_goes_back_at_once() {
    let mut harness = Harness::new(2);
    let id = harness.add(pair());
    for rank in [0, 1] {
        say(&mut harness, id, rank, TaskIs::Refused { devices: Vec::new() });
    }
    let row = harness.control.world().job(id).expect("it goes on");
    assert_eq!(row.job.attempt, Attempt(2));
    assert_eq!(harness.state(id), JobState::Starting, "on free devices");
}

#[test]
fn a_path_that_is_missing_holds_the_gang() {
    let mut harness = Harness::new(2);
    let id = harness.add(pair());
    let missing = TaskEnd {
        started_at: None,
        cause: Some(EndCause::NodeLacks(Lack::Path("/data".to_owned()))),
        ..end(harness.now, None, false)
    };
    say(&mut harness, id, 1, TaskIs::Ended(missing.clone()));
    say(&mut harness, id, 0, TaskIs::Ended(missing));
    assert_eq!(harness.state(id), JobState::Held);
    assert_eq!(violations(&harness), []);
}

#[test]
fn cancel_requeue_and_signal_reach_every_task_that_has_not_ended() {
    let mut harness = Harness::new(2);
    let id = running(&mut harness);
    harness
        .command(&ana(), Command::on(vec![id], JobVerb::Signal { signal: 10, to: SignalTo::Job }))
        .expect("it may");
    let signals = harness.take_orders();
    assert_eq!(signals.len(), 2, "{signals:?}");
    harness
        .command(&ana(), Command::on(vec![id], JobVerb::Requeue { hold: true }))
        .expect("it may");
    assert_eq!(n_stops(&harness.take_orders()), [0, 1]);
    stopped(&mut harness, id, 1);
    assert_eq!(harness.state(id), JobState::Stopping);
    stopped(&mut harness, id, 0);
    assert_eq!(harness.state(id), JobState::Held);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Release { at: None })).expect("it may");
    started(&mut harness, id, 0);
    started(&mut harness, id, 1);
    exited(&mut harness, id, 0, 0);
    harness.orders.clear();
    harness
        .command(&ana(), Command::on(vec![id], JobVerb::Signal { signal: 10, to: SignalTo::Job }))
        .expect("it may");
    assert_eq!(harness.take_orders().len(), 1);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("it may");
    assert_eq!(n_stops(&harness.take_orders()), [1]);
    stopped(&mut harness, id, 1);
    assert_eq!(harness.end_of(id).outcome, Outcome::Cancelled);
}

#[test]
fn a_gang_is_paused_when_its_last_task_ends_instead() {
    let mut harness = Harness::new(2);
    let id = running(&mut harness);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Pause)).expect("hers");
    let started_at = harness.now;
    say(&mut harness, id, 0, TaskIs::Paused { pid: 4000, started_at });
    exited(&mut harness, id, 1, 0);
    assert_eq!(violations(&harness), []);
    harness.orders.clear();
    harness.command(&ana(), Command::on(vec![id], JobVerb::Resume)).expect("hers");
    assert_eq!(harness.state(id), JobState::Running);
    let resumed = |order: &Order| match order {
        Order::Resume { task, .. } => Some(task.rank),
        _ => None,
    };
    let resumed: Vec<u32> = harness.take_orders().iter().filter_map(resumed).collect();
    assert_eq!(resumed, [0]);
    exited(&mut harness, id, 0, 0);
    assert_eq!(harness.end_of(id).outcome, Outcome::Succeeded);
}

#[test]
fn a_gang_keeps_its_devices_until_all_its_tasks_are_paused() {
    let mut harness = Harness::new(2);
    let id = running(&mut harness);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Pause)).expect("hers");
    let other = harness.add(job("1"));
    let started_at = harness.now;
    say(&mut harness, id, 0, TaskIs::Paused { pid: 4000, started_at });
    assert_eq!(harness.state(other), JobState::Pending, "the other task may not be paused");
    let why = "it has managed memory".to_owned();
    say(&mut harness, id, 1, TaskIs::NotPaused { pid: 4001, started_at, why });
    assert_eq!(harness.state(id), JobState::Running);
    assert_eq!(violations(&harness), []);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Pause)).expect("hers");
    say(&mut harness, id, 1, TaskIs::Paused { pid: 4001, started_at });
    assert_eq!(harness.state(other), JobState::Pending);
    say(&mut harness, id, 0, TaskIs::Paused { pid: 4000, started_at });
    assert_eq!(harness.state(other), JobState::Starting);
    assert_eq!(violations(&harness), []);
}

#[test]
fn after_a_restart_each_task_is_asked_for_and_one_that_is_gone_is_lost() {
    let mut harness = Harness::new(2);
    let id = running(&mut harness);
    exited(&mut harness, id, 0, 0);
    let found = TaskReport {
        is: TaskIs::Running { pid: 1, started_at: harness.now },
        ..task(&harness, id, 1)
    };
    harness.restart();
    harness.report(crate::harness::inventory(2));
    let term = harness.term();
    harness.report(tasks(term, vec![found]));
    assert_eq!(harness.state(id), JobState::Running, "the agent need not know an ended task");
    harness.restart();
    harness.report(crate::harness::inventory(2));
    let term = harness.term();
    harness.report(tasks(term, vec![]));
    let end = harness.end_of(id);
    assert_eq!((end.outcome, &end.cause), (Outcome::Lost, &Some(EndCause::Vanished)));
}

#[test]
fn a_task_that_started_is_never_ordered_again_though_its_gang_has_not() {
    let mut harness = Harness::new(2);
    let id = harness.add(pair());
    started(&mut harness, id, 0);
    let waits = task(&harness, id, 1);
    harness.restart();
    harness.report(crate::harness::inventory(2));
    let term = harness.term();
    harness.orders.clear();
    harness.report(tasks(term, vec![waits]));
    assert_eq!(harness.state(id), JobState::Stopping, "one is lost, so the other ends");
    let mut stops = n_stops(&harness.orders);
    stops.dedup();
    assert_eq!(stops, [1], "an order to stop may be said twice");
}

#[test]
fn a_gang_that_no_nodes_could_ever_hold_is_refused_with_what_would_fit() {
    let mut harness = Harness::new(2);
    let two = job("1").with(|it| it.gang = Gang::new(2, 1).expect("two nodes"));
    let refused = harness.submit(&ana(), vec![two.clone()]).expect_err("there is one node");
    let Refusal::TooFewNodes { able, largest, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((able, largest), (1, None));
    let three = job("1").with(|it| it.gang = Gang::new(1, 3).expect("three tasks"));
    let refused = harness.submit(&ana(), vec![three]).expect_err("it has two devices");
    assert!(matches!(refused, Refusal::ImpossibleGpus { .. }), "{refused:?}");
    harness.add(two.with(|it| it.allow_unsatisfiable = true));
}

#[test]
fn tasks_that_may_be_anywhere_are_refused_if_there_could_never_be_room_for_all() {
    let mut harness = Harness::new(2);
    let tasks = |n| job("1").with(|it| it.gang = Gang::anywhere(n).expect("some tasks"));
    harness.add(tasks(2));
    let refused = harness.submit(&ana(), vec![tasks(3)]).expect_err("there are two devices");
    let Refusal::TooFewNodes { able, largest, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((able, largest), (2, None));
    let large = job("2").with(|it| it.gang = Gang::anywhere(2).expect("two tasks"));
    let refused = harness.submit(&ana(), vec![large]).expect_err("each needs two of a node");
    let Refusal::TooFewNodes { able, largest, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((able, largest), (1, Some(1)));
}

/// Returns the last order to run a task.
fn last_run(harness: &mut Harness) -> TaskOrder {
    let runs = harness.take_orders().into_iter().filter_map(|order| match order {
        Order::Run(run) => Some(*run),
        _ => None,
    });
    runs.last().expect("it was ordered")
}

#[test]
fn tasks_that_may_be_anywhere_are_joined_by_one_task_after_the_other() {
    let mut harness = Harness::new(3);
    let gang = Gang::anywhere(2).and_then(|gang| gang.growing_to(3)).expect("up to three");
    let id = harness.add(job("1").with(|it| {
        it.gang = gang;
        it.time_limit = Some(Millis::from_hours(1));
    }));
    started(&mut harness, id, 0);
    started(&mut harness, id, 1);
    assert_eq!(joiners(&harness, id), [(2, JobState::Starting)]);
    let joined = last_run(&mut harness);
    let joins = joined.spec.joins.as_deref().expect("it joins");
    assert_eq!((joined.spec.gang, joins.gang, joins.first_rank), (Gang::SINGLE, gang, 2));
    assert_eq!(violations(&harness), []);
}

/// A job of one task that may grow by two nodes.
fn growing() -> NewJob {
    let gang = Gang::SINGLE.growing_to(3).expect("three nodes");
    job("1").with(|it| {
        it.gang = gang;
        it.time_limit = Some(Millis::from_hours(1));
    })
}

fn joiners(harness: &Harness, id: JobId) -> Vec<(u64, JobState)> {
    let rows = harness.control.world().joiners_of(id);
    rows.map(|row| (row.job.id.number.0, row.job.phase.state())).collect()
}

#[test]
fn a_job_is_joined_by_one_node_after_the_other_while_there_is_room() {
    let mut harness = Harness::new(2);
    let id = harness.add(growing());
    assert_eq!(joiners(&harness, id), [], "it does not run yet");
    started(&mut harness, id, 0);
    assert_eq!(joiners(&harness, id), [(2, JobState::Starting)]);
    let joined = last_run(&mut harness);
    let joins = joined.spec.joins.as_deref().expect("it joins");
    assert_eq!((joins.job, joins.attempt, joins.first_rank), (id, Attempt::FIRST, 1));
    assert_eq!(joins.nodes, [NodeName::new("lab1")]);
    assert_eq!(joined.master_addr, "127.0.0.1");
    started(&mut harness, JobId::single(2), 0);
    // The third node waits for free capacity, and no fourth is added.
    assert_eq!(joiners(&harness, id), [(2, JobState::Running), (3, JobState::Pending)]);
    harness.now = harness.now.after(Millis::from_secs(60));
    harness.step(vec![Event::TimerFired]);
    assert_eq!(joiners(&harness, id).len(), 2);
    assert_eq!(violations(&harness), []);
}

#[test]
fn jobs_of_the_project_preempt_a_joined_job_which_waits_again() {
    let mut harness = Harness::new(2);
    let id = harness.add(growing());
    started(&mut harness, id, 0);
    started(&mut harness, JobId::single(2), 0);
    let other = harness.add(job("1"));
    let row = harness.control.world().job(JobId::single(2)).expect("it is leaving");
    let Phase::Stopping { cause, .. } = &row.job.phase else { panic!("it is leaving") };
    let (why, exit) = (TakenBack::Shrink, Exit::Requeue);
    assert_eq!(*cause, gpool_model::job::StopCause::TakenBack { why, beneficiary: other, exit });
    stopped(&mut harness, JobId::single(2), 0);
    assert_eq!(harness.state(other), JobState::Starting);
    assert_eq!(harness.state(id), JobState::Running, "and is not touched");
    assert_eq!(joiners(&harness, id), [(2, JobState::Pending), (3, JobState::Pending)]);
    assert_eq!(violations(&harness), []);
}

#[test]
fn a_joined_job_ends_with_the_run() {
    let mut harness = Harness::new(2);
    let id = harness.add(growing());
    started(&mut harness, id, 0);
    started(&mut harness, JobId::single(2), 0);
    exited(&mut harness, id, 0, 0);
    assert_eq!(harness.state(id), JobState::Succeeded);
    assert_eq!(joiners(&harness, id), [(2, JobState::Stopping)], "the third is gone");
    let waited = harness.end_of(JobId::single(3));
    assert_eq!(waited.cause, Some(EndCause::GangEnded { job: id }));
    stopped(&mut harness, JobId::single(2), 0);
    let joined = harness.end_of(JobId::single(2));
    assert_eq!(joined.cause, Some(EndCause::GangEnded { job: id }));
    assert_eq!(joined.outcome, Outcome::Cancelled);
    assert_eq!(violations(&harness), []);
}

#[test]
fn the_next_run_of_a_job_is_joined_anew() {
    let mut harness = Harness::new(2);
    let id = harness.add(growing());
    started(&mut harness, id, 0);
    started(&mut harness, JobId::single(2), 0);
    let requeue = Command::on(vec![id], JobVerb::Requeue { hold: false });
    harness.command(&ana(), requeue).expect("it may");
    stopped(&mut harness, id, 0);
    stopped(&mut harness, JobId::single(2), 0);
    started(&mut harness, id, 0);
    assert_eq!(joiners(&harness, id), [(4, JobState::Starting)]);
    let row = harness.control.world().job(JobId::single(4)).expect("it starts");
    assert_eq!(row.spec.joins.as_ref().map(|it| it.attempt), Some(Attempt(2)));
    assert_eq!(violations(&harness), []);
}

#[test]
fn a_joined_job_that_ended_by_itself_is_not_replaced() {
    let mut harness = Harness::new(4);
    let id = harness.add(growing());
    started(&mut harness, id, 0);
    for number in [2, 3] {
        started(&mut harness, JobId::single(number), 0);
        exited(&mut harness, JobId::single(number), 0, 0);
    }
    assert_eq!(joiners(&harness, id), []);
    assert_eq!(harness.state(id), JobState::Running);
    assert_eq!(harness.control.world().cluster().last_job, JobNumber(3));
}

#[test]
fn a_hold_on_the_joining_job_stops_the_growth() {
    let mut harness = Harness::new(1);
    let id = harness.add(growing());
    started(&mut harness, id, 0);
    let waiting = JobId::single(2);
    harness.command(&ana(), Command::on(vec![waiting], JobVerb::Hold)).expect("it may");
    harness.now = harness.now.after(Millis::from_secs(60));
    harness.step(vec![Event::TimerFired]);
    assert_eq!(joiners(&harness, id), [(2, JobState::Held)]);
}
