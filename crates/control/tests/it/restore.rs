//! A server takes over the state of a backup: more may have happened since than it knows.

use gpool_model::agent::{Order, TaskIs, TaskReport};
use gpool_model::job::{EndCause, JobState};
use gpool_model::{Attempt, Command, Event, Generation};

use crate::harness::{Harness, ana, inventory, job, tasks};

#[test]
fn what_may_have_run_since_the_backup_gets_no_attempt_that_was_given_out() {
    let mut harness = Harness::new(2);
    let running = harness.add(job("1"));
    harness.started(running);
    let starting = harness.add(job("1"));
    let pending = harness.add(job("2"));
    let held = harness.add(job("1"));
    harness.command(&ana(), Command::Hold { jobs: vec![held] }).expect("it waits");
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
    // The next start is no restore.
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
