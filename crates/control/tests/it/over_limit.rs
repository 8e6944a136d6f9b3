//! Jobs that use more GPU memory than their limit, and the policy for them.

use gpool_model::agent::Report;
use gpool_model::device::Overshoot;
use gpool_model::job::JobState;
use gpool_model::over_limit::OverLimit;
use gpool_model::*;

use crate::harness::*;

fn with(over_limit: OverLimit) -> Harness {
    let policy = Policy::from_preset("priority").expect("there is one");
    Harness::with_policy(1, Policy { over_limit, ..policy })
}

fn start(harness: &mut Harness, kind: JobKind) -> JobId {
    let mut new = job("0.25");
    new.life.habits.kind = Some(kind);
    let id = harness.add(new);
    harness.started(id);
    harness.take_orders();
    id
}

/// Reports that this many samples in succession showed a job above its limit.
fn over(harness: &mut Harness, id: JobId, n_samples: u32) {
    let (task, limit, used) = (harness.task_of(id), Bytes::from_gib(4), Bytes::from_gib(9));
    let mut report = inventory(1);
    if let Report::Inventory { devices, .. } = &mut report {
        devices[0].overshoots = vec![Overshoot { task, limit, used, n_samples }];
    }
    harness.report(report);
}

#[test]
fn the_policy_acts_once_after_enough_samples() {
    let mut harness = with(OverLimit::Cancel);
    let id = start(&mut harness, JobKind::Notebook);
    over(&mut harness, id, Overshoot::SAMPLES - 1);
    assert_eq!(harness.state(id), JobState::Running);
    over(&mut harness, id, Overshoot::SAMPLES);
    assert_eq!(harness.state(id), JobState::Stopping);
    harness.take_orders();
    over(&mut harness, id, Overshoot::SAMPLES);
    assert!(harness.take_orders().is_empty());
}

#[test]
fn a_requeue_spares_notebooks_and_jobs_that_must_not_run_twice() {
    let mut harness = with(OverLimit::Requeue);
    let [notebook, batch] =
        [JobKind::Notebook, JobKind::Train].map(|kind| start(&mut harness, kind));
    for (id, state) in [(notebook, JobState::Running), (batch, JobState::Stopping)] {
        over(&mut harness, id, Overshoot::SAMPLES);
        assert_eq!(harness.state(id), state, "job {id}");
    }
    let mut once = job("0.25");
    once.life.requeue = Some(false);
    let once = harness.add(once);
    harness.started(once);
    over(&mut harness, once, Overshoot::SAMPLES);
    assert_eq!(harness.state(once), JobState::Running);
}

#[test]
fn by_default_it_is_only_reported() {
    let mut harness = with(OverLimit::default());
    let id = start(&mut harness, JobKind::Train);
    over(&mut harness, id, Overshoot::SAMPLES);
    assert_eq!(harness.state(id), JobState::Running);
}
