//! A server takes over the state of a backup: more may have happened since than the backup shows.

use gpool_model::agent::{Order, TaskIs, TaskReport};
use gpool_model::job::{EndCause, JobState};
use gpool_model::{Attempt, Command, Event, Generation, JobVerb, TaskId, Term};

use crate::harness::{Harness, ana, inventory, job, tasks};

#[test]
fn a_job_that_may_have_run_since_the_backup_gets_a_new_attempt() {
    let mut harness = Harness::new(2);
    let running = harness.add(job("1"));
    harness.started(running);
    let starting = harness.add(job("1"));
    let pending = harness.add(job("2"));
    let held = harness.add(job("1"));
    harness.command(&ana(), Command::on(vec![held], JobVerb::Hold)).expect("it waits");
    let (task, started_at) = (harness.task_of(running), harness.now);
    harness.restart();
    let term = harness.term().next();
    harness.step(vec![Event::ServerStarted { term, n_skipped_jobs: 1000 }]);
    harness.report(inventory(2));
    let is = TaskIs::Running { pid: 1, started_at };
    harness.take_orders();
    harness.report(tasks(term, vec![TaskReport { task, generation: Generation(1), is }]));
    assert_eq!(harness.state(running), JobState::Running, "it is the run that is known");
    assert_eq!(harness.state(starting), JobState::Lost, "whether it ran is not known");
    assert_eq!(harness.end_of(starting).cause, Some(EndCause::Vanished));
    harness.exited(running, 0);
    let runs = |order: &Order| match order {
        Order::Run(order) => Some(order.task()),
        _ => None,
    };
    let ordered: Vec<_> = harness.take_orders().iter().filter_map(runs).collect();
    let attempts: Vec<_> = ordered.iter().map(|task| (task.job, task.attempt)).collect();
    assert_eq!(attempts, [(pending, Attempt(2))]);
    let row = harness.control.world().job(held).expect("it is held");
    assert_eq!((row.job.phase.state(), row.job.attempt), (JobState::Held, Attempt(2)));
    // The next start of the server is not a restore.
    harness.restart();
    let row = harness.control.world().job(held).expect("it is held");
    assert_eq!(row.job.attempt, Attempt(2));
}

#[test]
fn a_server_that_is_killed_before_the_agent_answered_still_knows_that_it_was_restored() {
    let mut harness = Harness::new(1);
    let starting = harness.add(job("1"));
    harness.restart();
    let term = harness.term().next();
    harness.step(vec![Event::ServerStarted { term, n_skipped_jobs: 1000 }]);
    harness.restart();
    harness.report(inventory(1));
    harness.report(tasks(harness.term(), vec![]));
    assert_eq!(harness.state(starting), JobState::Lost, "whether it ran is not known");
    assert_eq!(harness.end_of(starting).cause, Some(EndCause::Vanished));
}

/// Takes over the same state as after a restore.
fn restored(harness: &mut Harness) -> Term {
    harness.restart();
    let term = Term(harness.term().0 + 1_000_000);
    harness.step(vec![Event::ServerStarted { term, n_skipped_jobs: 1000 }]);
    harness.report(inventory(2));
    harness.take_orders();
    term
}

#[test]
fn a_restored_server_orders_with_a_generation_that_no_agent_has_seen() {
    let mut harness = Harness::new(2);
    let running = harness.add(job("1"));
    harness.started(running);
    let (task, started_at) = (harness.task_of(running), harness.now);
    let mut seen = Generation(40);
    for _ in 0..2 {
        let term = restored(&mut harness);
        let is = TaskIs::Running { pid: 1, started_at };
        harness.report(tasks(term, vec![TaskReport { task, generation: seen, is }]));
        let of_limit = |order: &Order| match order {
            Order::Change { generation, .. } => Some(*generation),
            _ => None,
        };
        let limits: Vec<_> = harness.take_orders().iter().filter_map(of_limit).collect();
        assert!(limits.iter().any(|generation| *generation > seen), "{limits:?}");
        // As after that many changes and another restore of the same backup.
        seen = Generation(limits[0].0 + 40);
    }
    let term = restored(&mut harness);
    let is = TaskIs::Running { pid: 1, started_at };
    harness.report(tasks(term, vec![TaskReport { task, generation: seen, is }]));
    harness.take_orders();
    harness.command(&ana(), Command::on(vec![running], JobVerb::Cancel)).expect("it runs");
    let orders = harness.take_orders();
    let stops = |order: &Order| {
        matches!(order, Order::Stop { task: of, generation, .. }
            if *of == task && *generation > seen)
    };
    assert!(orders.iter().any(stops), "{orders:?}");
}

#[test]
fn a_job_whose_attempts_ran_after_the_backup_runs_as_another_one() {
    let mut harness = Harness::new(2);
    harness.add(job("2"));
    let held = harness.add(job("1"));
    harness.command(&ana(), Command::on(vec![held], JobVerb::Hold)).expect("it waits");
    let ran = harness.add(job("1"));
    harness.command(&ana(), Command::on(vec![ran], JobVerb::Hold)).expect("it waits");
    harness.take_orders();
    let term = restored(&mut harness);
    let task = TaskId { job: held, attempt: Attempt(5), rank: 0 };
    let is = TaskIs::Running { pid: 1, started_at: harness.now };
    harness.report(tasks(term, vec![TaskReport { task, generation: Generation(1), is }]));
    let row = harness.control.world().job(held).expect("it is held");
    assert_eq!(row.job.attempt, Attempt(6), "the run that is newer than the backup is not its");
    // The agent knows the ends of attempts 2 and 3.
    harness
        .command(&ana(), Command::on(vec![ran], JobVerb::Release { at: None }))
        .expect("it is held");
    for attempt in [2, 3] {
        let task = harness.task_of(ran);
        assert_eq!(task.attempt, Attempt(attempt));
        harness.say(ran, TaskIs::Over);
    }
    harness.started(ran);
    let row = harness.control.world().job(ran).expect("it runs");
    assert_eq!((row.job.phase.state(), row.job.attempt), (JobState::Running, Attempt(4)));
    harness.say(ran, TaskIs::Over);
    assert_eq!(harness.state(ran), JobState::Lost);
}
