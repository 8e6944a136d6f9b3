//! Another server takes over the durable state and asks the agent for its tasks.

use gpool_model::agent::{Order, Report, TaskIs, TaskReport};
use gpool_model::job::{EndCause, ExitStatus, JobState, Outcome};
use gpool_model::{Attempt, Command, Generation, Incarnation, JobId, JobVerb, TaskId, Term};

use crate::harness::{Harness, ana, end, inventory, job, tasks as said};

/// Whether the orders are questions of that term, and nothing else.
fn only_asked(orders: &[Order], asked: Term) -> bool {
    let is_asked = |order: &Order| matches!(order, Order::Sync { term, .. } if *term == asked);
    !orders.is_empty() && orders.iter().all(is_asked)
}

/// The agent connects again and reports its tasks.
fn sync(harness: &mut Harness, tasks: Vec<TaskReport>) {
    harness.report(inventory(1));
    let term = harness.term();
    assert!(only_asked(&harness.take_orders(), term), "asked before anything is placed");
    harness.report(said(term, tasks));
}

fn says(task: TaskId, is: TaskIs) -> TaskReport {
    TaskReport { task, generation: Generation(1), is }
}

/// Changes a report so that it comes from another agent, after a reboot.
fn rebooted(report: &mut Report) {
    if let Report::Inventory { stamp, .. } | Report::Tasks { stamp, .. } = report {
        stamp.incarnation = Incarnation::new("after the reboot");
    }
    if let Report::Inventory { boot_id, .. } = report {
        "boot-2".clone_into(boot_id);
    }
}

#[test]
fn running_jobs_are_adopted_and_waiting_jobs_stay_in_order() {
    let mut harness = Harness::new(1);
    let running = harness.add(job("1"));
    harness.started(running);
    let waiting: Vec<JobId> = (0..5).map(|_| harness.add(job("1"))).collect();
    let task = harness.task_of(running);
    let started_at = harness.now;
    harness.restart();
    sync(&mut harness, vec![says(task, TaskIs::Running { pid: 1, started_at })]);
    assert!(harness.take_orders().is_empty(), "running tasks get no orders");
    assert_eq!(harness.state(running), JobState::Running);
    for id in waiting {
        assert_eq!(harness.state(id), JobState::Pending);
    }
}

#[test]
fn a_job_that_ended_in_between_ends_with_its_own_exit_code() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    let next = harness.add(job("1"));
    let task = harness.task_of(id);
    let ended = end(harness.now, Some(ExitStatus::Code(7)), false);
    harness.restart();
    sync(&mut harness, vec![says(task, TaskIs::Ended(ended))]);
    assert_eq!(harness.end_of(id).exit, Some(ExitStatus::Code(7)));
    assert_eq!(harness.state(next), JobState::Starting);
}

#[test]
fn a_durable_start_that_was_not_ordered_is_ordered_once() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.restart();
    sync(&mut harness, vec![]);
    let orders = harness.take_orders();
    assert!(matches!(&orders[..], [Order::Run(order)] if order.task().job == id), "{orders:?}");
    assert_eq!(harness.state(id), JobState::Starting);
}

#[test]
fn a_task_that_left_no_trace_is_lost_and_says_so() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.restart();
    sync(&mut harness, vec![]);
    let end = harness.end_of(id);
    assert_eq!((end.outcome, &end.cause), (Outcome::Lost, &Some(EndCause::Vanished)));
}

#[test]
fn nothing_is_placed_before_the_agent_has_reported_its_tasks() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    let waiting = harness.add(job("1"));
    harness.started(id);
    harness.restart();
    harness.report(inventory(1));
    assert_eq!(harness.state(waiting), JobState::Pending);
    let taken = harness.add(job("1"));
    assert_eq!(harness.state(taken), JobState::Pending, "submissions are taken meanwhile");
}

#[test]
fn a_cancellation_that_the_agent_missed_is_ordered_again() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("own job");
    let task = harness.task_of(id);
    let started_at = harness.now;
    harness.restart();
    sync(&mut harness, vec![says(task, TaskIs::Running { pid: 1, started_at })]);
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { .. }]), "{orders:?}");
}

#[test]
fn a_task_of_a_job_that_is_over_is_stopped_or_forgotten() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    let task = harness.task_of(id);
    harness.exited(id, 0);
    harness.restart();
    let stranger = TaskId { job: JobId::single(900), attempt: Attempt(1), rank: 0 };
    let started_at = harness.now;
    let exit = Some(ExitStatus::Code(0));
    let ended = end(harness.now, exit, false);
    sync(
        &mut harness,
        vec![
            says(task, TaskIs::Ended(ended)),
            says(stranger, TaskIs::Running { pid: 1, started_at }),
        ],
    );
    let orders = harness.take_orders();
    let [Order::Acknowledge { task: known, .. }, Order::Stop { task: unknown, .. }] = &orders[..]
    else {
        panic!("{orders:?}")
    };
    assert_eq!((*known, *unknown), (task, stranger));
}

#[test]
fn reports_of_an_earlier_term_or_attempt_change_nothing() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    let old_term = harness.term();
    harness.restart();
    harness.report(inventory(1));
    let before = harness.control.revision();
    harness.report(said(old_term, vec![]));
    assert_eq!(harness.control.revision(), before, "a late answer to an earlier question");
    assert_eq!(harness.state(id), JobState::Running);
    let later = TaskId { attempt: Attempt(2), ..harness.task_of(id) };
    let ended = end(harness.now, Some(ExitStatus::Code(0)), false);
    harness.report(Report::Task(says(later, TaskIs::Ended(ended))));
    assert_eq!(harness.state(id), JobState::Running, "an attempt that is not this one");
}

#[test]
fn an_answer_that_comes_again_ends_nothing_that_was_started_since() {
    let mut harness = Harness::new(1);
    let term = harness.term();
    let starting = harness.add(job("1"));
    harness.report(said(term, vec![]));
    assert_eq!(harness.state(starting), JobState::Starting);
    harness.started(starting);
    harness.report(said(term, vec![]));
    assert_eq!(harness.state(starting), JobState::Running);
}

#[test]
fn after_a_reboot_nothing_is_launched_that_may_have_run() {
    let mut harness = Harness::new(2);
    let starting = harness.add(job("1"));
    let running = harness.add(job("1"));
    let waiting = harness.add(job("1"));
    harness.started(running);
    harness.restart();
    let mut report = inventory(2);
    rebooted(&mut report);
    harness.report(report);
    harness.take_orders();
    let term = harness.term();
    let mut answer = said(term, vec![]);
    rebooted(&mut answer);
    harness.report(answer);
    for id in [starting, running] {
        let end = harness.end_of(id);
        assert_eq!((end.outcome, &end.cause), (Outcome::Lost, &Some(EndCause::Rebooted)));
    }
    assert_eq!(harness.state(waiting), JobState::Starting);
    let orders = harness.take_orders();
    assert!(matches!(&orders[..], [Order::Run(order)] if order.task().job == waiting));
}

#[test]
fn a_node_that_rebooted_while_the_server_ran_is_asked_for_its_tasks() {
    let mut harness = Harness::new(1);
    let running = harness.add(job("1"));
    harness.started(running);
    harness.take_orders();
    let mut report = inventory(1);
    rebooted(&mut report);
    harness.report(report);
    let term = harness.term();
    assert!(only_asked(&harness.take_orders(), term));
    let mut answer = said(term, vec![]);
    rebooted(&mut answer);
    harness.report(answer);
    assert_eq!(harness.end_of(running).cause, Some(EndCause::Rebooted));
}

#[test]
fn on_a_full_disk_jobs_end_and_none_starts() {
    let mut harness = Harness::new(1);
    let running = harness.add(job("1"));
    let waiting = harness.add(job("1"));
    harness.started(running);
    harness.step(vec![gpool_model::Event::DiskFull { is_full: true }]);
    harness.exited(running, 3);
    assert_eq!(harness.state(running), JobState::Failed);
    assert_eq!(harness.state(waiting), JobState::Pending);
    harness.step(vec![gpool_model::Event::DiskFull { is_full: false }]);
    assert_eq!(harness.state(waiting), JobState::Starting, "there is room again");
}

#[test]
fn a_server_that_is_going_to_stop_starts_nothing_more() {
    let mut harness = Harness::new(1);
    let running = harness.add(job("1"));
    let waiting = harness.add(job("1"));
    harness.started(running);
    harness.step(vec![gpool_model::Event::ServerStopping]);
    harness.exited(running, 0);
    assert_eq!(harness.state(waiting), JobState::Pending);
    harness.restart();
    sync(&mut harness, vec![]);
    assert_eq!(harness.state(waiting), JobState::Starting, "the next one does");
}
