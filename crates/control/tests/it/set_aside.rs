//! A plan that is wrong for one job does not keep other jobs from starting.

use gpool_model::event::{Journaled, Upkeep};
use gpool_model::job::{Holder, JobState};
use gpool_model::*;

use crate::arrays::array;
use crate::harness::{Harness, ana, job};

/// Makes a plan that starts the second job start it twice.
fn twice(plan: &mut Plan) {
    let is_second = |it: &&Decision| it.started().is_some_and(|(job, _)| job.number.0 == 2);
    let second: Vec<Decision> = plan.decisions.iter().filter(is_second).cloned().collect();
    plan.decisions.extend(second);
}

fn harness(n_devices: u32) -> Harness {
    let mut harness = Harness::new(n_devices);
    harness.control.distort_plans(twice);
    harness.is_wrong = true;
    harness
}

fn holder(harness: &Harness, id: JobId) -> Option<Holder> {
    harness.control.world().job(id).expect("it is there").job.holder()
}

#[test]
fn the_job_that_a_plan_is_wrong_for_is_held_and_the_others_start() {
    let mut harness = harness(3);
    let ids: Vec<JobId> = (0..3).map(|_| harness.add(job("1"))).collect();
    let states: Vec<JobState> = ids.iter().map(|id| harness.state(*id)).collect();
    assert_eq!(states, [JobState::Starting, JobState::Held, JobState::Starting]);
    assert_eq!(holder(&harness, ids[1]), Some(Holder::Scheduler));
    let [alert] = &harness.alerts[..] else { panic!("{:?}", harness.alerts) };
    assert_eq!(alert.set_aside, Some(ids[1]));
    assert_eq!(alert.violations[0], "job 2 is started twice");
    // The case can be planned again from the alert's records.
    let world = gpool_world::World::load(alert.basis, alert.records.clone()).expect("it is whole");
    assert_eq!(world.job(ids[1]).expect("it is there").job.phase.state(), JobState::Pending);
    let told = harness.journal.iter().filter_map(|entry| match &entry.entry {
        Journaled::Kept { kept } => Some(kept.clone()),
        _ => None,
    });
    let violations = alert.violations.clone();
    assert_eq!(told.collect::<Vec<_>>(), [[Upkeep::SetAside { job: ids[1], violations }]]);
}

#[test]
fn released_it_is_tried_again() {
    let mut harness = harness(3);
    harness.add(job("1"));
    let id = harness.add(job("1"));
    let release = || Command::on(vec![id], JobVerb::Release { at: None });
    harness.command(&ana(), release()).expect("its owner may");
    assert_eq!((harness.alerts.len(), harness.state(id)), (2, JobState::Held));
    // A restart keeps the hold and its holder.
    harness.restart();
    assert_eq!(holder(&harness, id), Some(Holder::Scheduler));
    harness.is_wrong = false;
    harness.alerts.clear();
    harness.command(&ana(), release()).expect("its owner may");
    assert_eq!((holder(&harness, id), harness.alerts.len()), (None, 0));
}

#[test]
fn of_an_array_none_starts_and_jobs_behind_it_do() {
    let mut harness = harness(2);
    harness.add(job("1"));
    let id = harness.add(array("0-2"));
    assert_eq!((harness.alerts.len(), harness.state(id)), (1, JobState::Held));
    let behind = harness.add(job("1"));
    assert_eq!(harness.state(behind), JobState::Starting);
}

#[test]
fn a_wrong_plan_that_names_no_job_is_not_applied() {
    let mut harness = harness(2);
    harness.control.distort_plans(|plan| plan.basis = Revision(u64::MAX));
    let id = harness.add(job("1"));
    assert_eq!(harness.state(id), JobState::Pending);
    assert!(harness.alerts.iter().all(|alert| alert.set_aside.is_none()));
    assert!(!harness.alerts.is_empty());
}
