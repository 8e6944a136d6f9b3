//! The lease of an agent, by its own clock.

use std::sync::Arc;

use gpool_model::agent::{Order, TaskOrder};
use gpool_model::{LeaseTerms, OnNodeLost};
use gpool_node::lease::Lease;

use crate::converge::run;

const LASTS: u64 = LeaseTerms::USUAL.lasts.get();

fn order(on_node_lost: OnNodeLost) -> Box<TaskOrder> {
    let Order::Run(mut order) = run(1, 1, 1) else { unreachable!() };
    Arc::make_mut(&mut order.spec).life.on_node_lost = on_node_lost;
    order
}

#[test]
fn a_lease_counts_from_the_beat_and_never_gets_shorter() {
    let mut lease = Lease::new(LeaseTerms::USUAL);
    assert!(lease.beats(5000) && !lease.beats(5001));
    assert!(lease.beats(5000 + LASTS / 6));
    assert_eq!(lease.renew(5000, 5100), Some(5000 + LASTS));
    assert_eq!(lease.renew(4000, 5100), None, "an answer that was overtaken");
    assert_eq!(lease.renew(6000, 6100), Some(6000 + LASTS));
}

#[test]
fn an_order_is_carried_out_within_the_lease_of_its_beat() {
    let mut lease = Lease::new(LeaseTerms::USUAL);
    let fenced = order(OnNodeLost::End);
    assert!(lease.admits(&order(OnNodeLost::Wait), None, 0));
    assert_eq!(lease.take_fence(fenced.task()), None);
    assert!(!lease.admits(&fenced, None, 0));
    assert!(lease.admits(&fenced, Some(5000), 4999 + LASTS));
    assert_eq!(lease.take_fence(fenced.task()), Some(5000 + LASTS));
    lease.renew(9000, 9100);
    assert!(!lease.admits(&fenced, Some(5000), 5000 + LASTS), "it is from before that lease");
    assert!(lease.admits(&fenced, Some(5000), 10_000));
    assert_eq!(lease.take_fence(fenced.task()), Some(9000 + LASTS));
}

#[test]
fn a_task_whose_lease_was_over_before_its_launch_gets_no_other() {
    let mut lease = Lease::new(LeaseTerms::USUAL);
    let fenced = order(OnNodeLost::Requeue);
    assert!(lease.admits(&fenced, Some(0), 10));
    lease.renew(5000, 5100);
    lease.renew(90_000, 90_000);
    assert_eq!(lease.take_fence(fenced.task()), Some(5000 + LASTS));
}
