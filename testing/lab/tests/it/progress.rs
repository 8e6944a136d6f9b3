//! The progress of a simulation of several policies, and its remaining time.

use std::time::Duration;

use gpool_lab::simulate::progress::{Extent, Progress, words};
use gpool_model::{Millis, Timestamp};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_remaining_time_appears_once_it_can_be_estimated() {
    let mut progress = Progress::new(2);
    assert_eq!(progress.left(s(1), 0.5), None);
    assert_eq!(progress.left(s(3), 0.01), None);
    // A quarter took ten seconds, so three more quarters and another policy remain.
    assert_eq!(progress.left(s(10), 0.25), Some(s(70)));
    assert_eq!(progress.part(0.25), 0.125);
    progress.next(s(40));
    // Nothing is known of this policy; it is expected to take as long as the first.
    assert_eq!(progress.left(s(40), 0.0), Some(s(40)));
    assert_eq!(progress.left(s(45), 0.5), Some(s(5)));
    progress.next(s(50));
    assert_eq!(progress.part(0.0), 1.0);
}

#[test]
fn a_slow_policy_after_a_fast_one_is_not_taken_to_be_fast() {
    let mut progress = Progress::new(3);
    progress.next(s(1));
    // Ten of a hundred seconds are over, and one more policy like these two follows.
    assert_eq!(progress.left(s(11), 0.1), Some(Duration::from_millis(140_500)));
}

#[test]
fn days_are_counted_from_the_one_on_which_the_first_job_comes() {
    let midnight = Timestamp::new(7_000);
    let job = |submit_s: u64| midnight.after(Millis::new(submit_s * 1000));
    // 2:30 pm on a day long after 1970, and the same time two days later.
    let start = 20_000 * 86_400 + 52_200;
    let (one, other) = (job(start), job(start + 172_800));
    let extent = Extent::with(Some(Extent::with(None, one, midnight)), other, midnight);
    assert_eq!(extent.n_jobs, 2);
    assert_eq!(extent.day(extent.first), "day 1 of 3");
    assert_eq!(extent.day(extent.last), "day 3 of 3");
    assert_eq!(extent.day(job(start + 900_000)), "day 12");
    // One job arrived and runs; both have ended.
    assert_eq!((extent.part(1, 1), extent.part(2, 0)), (0.25, 1.0));
}

#[test]
fn the_words_are_short() {
    assert_eq!(words(0.401, Some(s(75))), "40%, 1m15s left");
    assert_eq!(words(0.999, Some(Duration::from_millis(300))), "99%");
    assert_eq!(words(0.0, None), "0%");
}
