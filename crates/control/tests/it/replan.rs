//! Which reports cause a new plan.

use std::cell::Cell;

use gpool_model::{Life, Millis, Plan};

use crate::harness::{Harness, job};

thread_local! {
    static N_PLANS: Cell<u32> = const { Cell::new(0) };
}

/// Counts a plan.
fn count(_: &mut Plan) {
    N_PLANS.set(N_PLANS.get() + 1);
}

/// Starts a job on the only device, with a planned start behind it, and returns the number of plans
/// that the report of its start causes, that long after its placement.
fn plans_for_start(preemptible: Option<bool>, delay: Millis) -> u32 {
    let mut harness = Harness::new(1);
    harness.control.distort_plans(count);
    let mut first = job("1");
    first.request.life = Life { preemptible, ..Life::default() };
    first.request.time_limit = Some(Millis::from_hours(1));
    let first = harness.add(first);
    harness.add(job("1"));
    assert_eq!(harness.control.planned().len(), 1);
    N_PLANS.set(0);
    harness.now = harness.now.after(delay);
    harness.started(first);
    let n_plans = N_PLANS.get();
    harness.exited(first, 0);
    assert!(N_PLANS.get() > n_plans, "an end always does");
    n_plans
}

#[test]
fn a_start_causes_a_plan_only_if_it_is_late_or_the_job_may_be_evicted() {
    assert_eq!(plans_for_start(None, Millis::ZERO), 0);
    assert!(plans_for_start(None, Millis::new(5)) > 0);
    assert!(plans_for_start(Some(true), Millis::ZERO) > 0);
}
