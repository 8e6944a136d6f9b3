//! Which reports cause a new plan.

use gpool_model::{Life, Millis, Plan};

use crate::harness::{Harness, job};

/// Plans each start twice, which raises an alert.
fn twice(plan: &mut Plan) {
    plan.planned.extend(plan.planned.clone());
}

/// Starts a job on the only device, with a planned start behind it, and returns whether the report
/// of its start causes a plan, that long after its placement.
fn start_causes_plan(preemptible: Option<bool>, delay: Millis) -> bool {
    let mut harness = Harness::new(1);
    let mut first = job("1");
    first.request.life = Life { preemptible, ..Life::default() };
    first.request.time_limit = Some(Millis::from_hours(1));
    let first = harness.add(first);
    harness.add(job("1"));
    assert_eq!(harness.control.planned().len(), 1);
    harness.control.distort_plans(twice);
    harness.is_wrong = true;
    harness.now = harness.now.after(delay);
    harness.started(first);
    !harness.alerts.is_empty()
}

#[test]
fn a_start_causes_a_plan_if_it_is_late_or_the_job_may_be_evicted() {
    assert!(!start_causes_plan(None, Millis::ZERO));
    assert!(start_causes_plan(None, Millis::new(5)));
    assert!(start_causes_plan(Some(true), Millis::ZERO));
}
