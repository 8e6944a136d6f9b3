//! What is learnt from how forecasts held.

use gpool_control::forecast::Learnt;
use gpool_model::{Basis, Eta, JobId, Millis, Timestamp, Version};

const NOW: Timestamp = Timestamp::new(1_700_000_000_000);

fn eta() -> Eta {
    let at = |minutes| Some(NOW.after(Millis::from_mins(minutes)));
    Eta {
        p10: at(20),
        p50: at(30),
        p90: at(60),
        basis: Basis::Limit,
        horizon: NOW.after(Millis::from_hours(48)),
    }
}

/// Tells so many jobs and starts each of them so many minutes later; one in `late_each` an hour
/// and a half later.
fn learn(learnt: &mut Learnt, n: u64, late_each: u64) {
    for number in 1..=n {
        let job = JobId::single(number);
        let told = learnt.corrected(eta(), NOW);
        learnt.tell(job, Version(1), &told, NOW);
        let after = if number.is_multiple_of(late_each) { 10_000 } else { 30 };
        assert!(learnt.started(job, NOW.after(Millis::from_mins(after))));
    }
}

#[test]
fn who_is_always_on_time_is_told_less_and_less_but_never_before_the_middle() {
    let mut learnt = Learnt::default();
    learn(&mut learnt, 1000, u64::MAX);
    let told = learnt.corrected(eta(), NOW);
    assert_eq!(told.p90, told.p50, "{told:?}");
    let bucket = learnt.buckets[2];
    assert_eq!((bucket.n, bucket.n_by_p90, bucket.n_by_p50, bucket.late_ms), (1000, 1000, 1000, 0));
}

#[test]
fn the_factor_rests_where_one_in_ten_is_late() {
    let mut learnt = Learnt::default();
    learn(&mut learnt, 1000, 10);
    let before = learnt.buckets[2].factor;
    learn(&mut learnt, 100, 10);
    assert_eq!(learnt.buckets[2].factor, before);
    // With more it grows, up to a bound.
    learn(&mut learnt, 1000, 2);
    assert_eq!(learnt.buckets[2].factor, 8000 - 20 * u64::from(!1000_u64.is_multiple_of(2)));
    let told = learnt.corrected(eta(), NOW);
    assert_eq!(told.p90, Some(NOW.after(Millis::from_hours(8))));
}

#[test]
fn a_job_is_held_against_what_was_told_first_since_its_user_changed_it() {
    let mut learnt = Learnt::default();
    let job = JobId::single(7);
    learnt.tell(job, Version(1), &eta(), NOW);
    let later = NOW.after(Millis::from_mins(10));
    learnt.tell(job, Version(1), &eta(), later);
    assert_eq!(learnt.told[&job].at, NOW);
    learnt.tell(job, Version(2), &eta(), later);
    assert_eq!(learnt.told[&job].at, later);
    learnt.keep_told(|_| false);
    assert!(!learnt.started(job, later), "it is forgotten when it no longer waits");
}

#[test]
fn what_starts_at_once_is_no_forecast() {
    let mut learnt = Learnt::default();
    let now = Eta { p10: Some(NOW), p50: Some(NOW), p90: Some(NOW), ..eta() };
    learnt.tell(JobId::single(1), Version(1), &now, NOW);
    assert!(learnt.told.is_empty());
}
