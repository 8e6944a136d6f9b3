//! The number of replicas from the load.

use gpool_gateway::scale::{Metric, Present, Sample, ScaleRules, Scaler};
use proptest::prelude::*;

const RULES: ScaleRules = ScaleRules {
    min: 0,
    max: 10,
    metric: Metric::Concurrency,
    target: 8.0,
    window_ms: 60_000,
    cooldown_ms: 300_000,
};

/// A service in virtual time: its replicas are ready at once.
struct Simulated {
    scaler: Scaler,
    now_ms: u64,
    n: u32,
    reason: String,
}

impl Simulated {
    fn new(rules: ScaleRules, n: u32) -> Self {
        Self { scaler: Scaler::new(rules, 0, n), now_ms: 0, n, reason: String::new() }
    }

    /// Runs for some seconds with a load, in steps of 200 ms.
    fn run(&mut self, seconds: u64, sample: Sample) -> &mut Self {
        for _ in 0..seconds * 5 {
            self.now_ms += 200;
            self.scaler.record(self.now_ms, sample);
            let present = Present { n_ready: self.n, n_living: self.n, ..Present::default() };
            let decision = self.scaler.decide(self.now_ms, present);
            (self.n, self.reason) = (decision.n, decision.reason);
        }
        self
    }
}

fn at_once(concurrency: f64) -> Sample {
    let n_arrived = u64::from(concurrency > 0.0);
    Sample { concurrency, n_arrived, n_started: n_arrived, ..Sample::default() }
}

#[test]
fn the_load_divided_by_the_target_is_the_number() {
    let mut service = Simulated::new(RULES, 1);
    assert_eq!(service.run(120, at_once(30.0)).n, 4);
    assert_eq!(service.reason, "30.0 requests at once in the stable window of 60.0 s, target 8");
    assert_eq!(service.run(120, at_once(500.0)).n, 10);
    assert!(service.reason.contains("the bounds are 0..10"), "{}", service.reason);
}

#[test]
fn a_step_to_four_times_the_load_is_answered_within_five_seconds() {
    let mut service = Simulated::new(RULES, 1);
    assert_eq!(service.run(120, at_once(8.0)).n, 1);
    assert_eq!(service.run(5, at_once(32.0)).n, 4);
    assert!(service.reason.contains("panic window"), "{}", service.reason);
}

#[test]
fn fewer_replicas_follow_after_the_cooldown_and_none_without_requests() {
    let mut service = Simulated::new(RULES, 1);
    service.run(120, at_once(32.0));
    assert_eq!(service.run(290, at_once(8.0)).n, 4);
    assert!(service.reason.contains("needed 4 replicas"), "{}", service.reason);
    assert_eq!(service.run(180, at_once(8.0)).n, 1);
    assert_eq!(service.run(300, Sample::default()).n, 1);
    assert_eq!(service.run(120, Sample::default()).n, 0);
    assert_eq!(service.reason, "no requests in the stable window of 60.0 s");
}

#[test]
fn a_held_request_starts_a_replica_at_once() {
    let mut scaler = Scaler::new(RULES, 0, 0);
    scaler.record(200, Sample { concurrency: 0.01, n_arrived: 1, ..Sample::default() });
    let present = Present { n_held: 1, oldest_held_ms: 2, ..Present::default() };
    let decision = scaler.decide(200, present);
    assert_eq!(decision.n, 1);
    assert!(decision.reason.ends_with("; 1 request is held"), "{}", decision.reason);
}

#[test]
fn a_gateway_that_starts_again_removes_nothing_before_the_cooldown() {
    let mut service = Simulated::new(RULES, 5);
    assert_eq!(service.run(299, Sample::default()).n, 5);
    assert_eq!(service.run(2, Sample::default()).n, 0);
}

#[test]
fn requests_in_a_second_are_a_metric() {
    let rules = ScaleRules { metric: Metric::Rate, target: 20.0, ..RULES };
    let mut service = Simulated::new(rules, 1);
    // 10 in 200 ms are 50/s.
    let sample = Sample { n_arrived: 10, n_started: 10, ..Sample::default() };
    assert_eq!(service.run(120, sample).n, 3);
    assert!(service.reason.starts_with("50.0 requests/s"), "{}", service.reason);
}

#[test]
fn the_time_that_requests_are_held_is_a_metric() {
    let rules = ScaleRules { metric: Metric::QueueTime, target: 100.0, ..RULES };
    let mut scaler = Scaler::new(rules, 0, 2);
    let held = Sample { concurrency: 9.0, n_arrived: 4, n_started: 4, held_ms: 600 };
    scaler.record(200, held);
    let present = Present { n_ready: 2, n_living: 2, ..Present::default() };
    assert_eq!(scaler.decide(200, present).n, 3);
}

#[test]
fn replicas_that_start_are_not_multiplied_by_the_time_that_requests_are_held() {
    let rules = ScaleRules { metric: Metric::QueueTime, target: 100.0, ..RULES };
    let mut scaler = Scaler::new(rules, 0, 0);
    let mut n_living = 0;
    for round in 1..=50 {
        let sample = Sample { concurrency: 3.0, n_arrived: 1, ..Sample::default() };
        scaler.record(round * 200, sample);
        let n_ready = u32::from(round > 25);
        let oldest_held_ms = round * 200;
        let present = Present { n_ready, n_living, n_held: 3, oldest_held_ms };
        n_living = scaler.decide(round * 200, present).n;
        assert_eq!(n_living, 1 + n_ready, "{round}");
    }
}

proptest! {
    #[test]
    fn the_number_is_within_the_bounds_and_grows_with_the_load(
        min in 0_u32..4,
        more in 0_u32..10,
        loads in prop::collection::vec(0_u32..100, 1..60),
    ) {
        let rules = ScaleRules { min, max: (min + more).max(1), cooldown_ms: 0, ..RULES };
        let (mut low, mut high) = (Scaler::new(rules, 0, min), Scaler::new(rules, 0, min));
        let present = Present { n_ready: 1, n_living: 1, ..Present::default() };
        for (round, load) in (1..).zip(loads) {
            let now_ms = round * 500;
            low.record(now_ms, at_once(f64::from(load)));
            high.record(now_ms, at_once(f64::from(load) + 8.0));
            let (low, high) = (low.decide(now_ms, present).n, high.decide(now_ms, present).n);
            prop_assert!(low <= high);
            prop_assert!((rules.min..=rules.max).contains(&high));
        }
    }
}
