//! Calibration by the results of earlier forecasts.

use gpool_control::forecast::Calibrator;
use gpool_model::{Basis, Eta, JobId, Millis, Timestamp, Version};

const NOW: Timestamp = Timestamp::new(1_700_000_000_000);

/// The time to the median.
const LEAD: Millis = Millis::from_mins(30);

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

/// Forecasts `n` jobs and starts each of them 30 minutes later, but one in `late_each` much later.
fn learn(learnt: &mut Calibrator, n: u64, late_each: u64) {
    for number in 1..=n {
        let job = JobId::single(number);
        let told = learnt.corrected(eta(), NOW);
        learnt.record_forecast((job, Version(1)), (&told, LEAD), NOW);
        let after = if number.is_multiple_of(late_each) { 10_000 } else { 30 };
        assert!(learnt.started(job, NOW.after(Millis::from_mins(after))));
    }
}

#[test]
fn on_time_starts_shrink_the_p90_but_never_below_the_median() {
    let mut learnt = Calibrator::default();
    learn(&mut learnt, 1000, u64::MAX);
    let told = learnt.corrected(eta(), NOW);
    let [p50, p90] = [told.p50, told.p90].map(|at| at.unwrap().since(NOW));
    let minutes = |from, to| Millis::from_mins(from)..=Millis::from_mins(to);
    assert!(minutes(29, 31).contains(&p50) && minutes(29, 40).contains(&p90), "{told:?}");
    assert!(p50 <= p90);
    let bucket = learnt.buckets[2];
    assert_eq!(bucket.n, 1000);
    assert!(bucket.n_by_p90 >= 900, "{bucket:?}");
}

#[test]
fn the_factor_rests_where_one_in_ten_is_late() {
    let mut learnt = Calibrator::default();
    learn(&mut learnt, 1000, 10);
    let before = learnt.buckets[2].factor;
    learn(&mut learnt, 100, 10);
    assert_eq!(learnt.buckets[2].factor, before);
    // With more late starts it grows, up to a bound.
    learn(&mut learnt, 1000, 2);
    assert_eq!(learnt.buckets[2].factor, 8000 - 20 * u64::from(!1000_u64.is_multiple_of(2)));
    let told = learnt.corrected(eta(), NOW);
    assert_eq!(told.p90, Some(NOW.after(Millis::from_hours(8))));
}

#[test]
fn the_middle_rests_where_half_are_later() {
    let mut learnt = Calibrator::default();
    // The forecast is 30 minutes, and jobs take 40 to 60.
    let take = |learnt: &mut Calibrator, n: u64| {
        for number in 1..=n {
            let told = learnt.corrected(eta(), NOW);
            learnt.record_forecast((JobId::single(number), Version(1)), (&told, LEAD), NOW);
            let after = 40 + (number * 7 % 21) as u32;
            learnt.started(JobId::single(number), NOW.after(Millis::from_mins(after)));
        }
    };
    take(&mut learnt, 2_000);
    let before = learnt.buckets[2];
    take(&mut learnt, 2_000);
    let bucket = learnt.buckets[2];
    let by_p50 = bucket.n_by_p50 - before.n_by_p50;
    assert!((950..=1050).contains(&by_p50), "{by_p50}");
    let told = learnt.corrected(eta(), NOW);
    let middle = told.p50.map(|at| at.since(NOW));
    let (least, most) = (Millis::from_mins(47), Millis::from_mins(53));
    assert!(middle.is_some_and(|it| least <= it && it <= most), "{middle:?}");
}

#[test]
fn a_job_is_compared_with_its_first_forecast_since_the_last_edit() {
    let mut learnt = Calibrator::default();
    let job = JobId::single(7);
    learnt.record_forecast((job, Version(1)), (&eta(), LEAD), NOW);
    let later = NOW.after(Millis::from_mins(10));
    learnt.record_forecast((job, Version(1)), (&eta(), LEAD), later);
    assert_eq!(learnt.first_forecasts[&job].at, NOW);
    learnt.record_forecast((job, Version(2)), (&eta(), LEAD), later);
    assert_eq!(learnt.first_forecasts[&job].at, later);
    learnt.retain_forecasts(|_| false);
    assert!(!learnt.started(job, later), "it is forgotten when it no longer waits");
}

#[test]
fn a_job_that_starts_at_once_has_no_forecast() {
    let mut learnt = Calibrator::default();
    let now = Eta { p10: Some(NOW), p50: Some(NOW), p90: Some(NOW), ..eta() };
    learnt.record_forecast((JobId::single(1), Version(1)), (&now, Millis::ZERO), NOW);
    assert!(learnt.first_forecasts.is_empty());
}
