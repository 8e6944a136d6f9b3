//! When a job did not use its GPUs.

use gpool_history::Point;
use gpool_insight::usage::idle::{IdleParts, JobOutcome, parts};

/// Minutes with this utilization in percent; `None` was not recorded.
fn minutes(percents: &[Option<u32>]) -> Vec<Option<Point>> {
    let point = |percent: u32| {
        let mean = f64::from(percent) / 100.0;
        Point { mean, max: mean, n_minutes: 1 }
    };
    percents.iter().map(|percent| percent.map(point)).collect()
}

fn hundredths(found: Option<IdleParts>) -> Option<[i64; 4]> {
    let found = found?;
    let parts = [found.start, found.between, found.tail, found.dead];
    Some(parts.map(|part| (100.0 * part).round() as i64))
}

#[test]
fn idle_time_is_split_at_the_first_and_last_kernel() {
    // Idle: 2 minutes before, 0.5 + 1 + 0.5 between, 4 after.
    let run = [0, 0, 50, 0, 50, 0, 0, 0, 0].map(Some);
    let mut run = minutes(&run);
    assert_eq!(hundredths(parts(&run, JobOutcome::ByItself)), Some([25, 25, 50, 0]));
    assert_eq!(hundredths(parts(&run, JobOutcome::ByOthers)), Some([25, 25, 0, 50]));
    assert_eq!(hundredths(parts(&run, JobOutcome::Runs)), Some([25, 75, 0, 0]));
    // Minutes that were not recorded count for nothing.
    run.insert(1, None);
    assert_eq!(hundredths(parts(&run, JobOutcome::ByItself)), Some([25, 25, 50, 0]));
    // After half an hour, a running job is dead.
    run.extend(minutes(&[Some(0); 26]));
    assert_eq!(hundredths(parts(&run, JobOutcome::Runs)), Some([6, 6, 0, 88]));
}

#[test]
fn a_job_without_a_kernel_is_dead_unless_it_has_just_begun() {
    assert_eq!(hundredths(parts(&minutes(&[Some(0); 29]), JobOutcome::Runs)), Some([100, 0, 0, 0]));
    assert_eq!(hundredths(parts(&minutes(&[Some(0); 30]), JobOutcome::Runs)), Some([0, 0, 0, 100]));
    assert_eq!(
        hundredths(parts(&minutes(&[Some(0); 2]), JobOutcome::ByItself)),
        Some([0, 0, 0, 100])
    );
    assert_eq!(parts(&minutes(&[Some(100); 2]), JobOutcome::ByItself), None, "it was never idle");
    assert_eq!(parts(&minutes(&[None]), JobOutcome::ByItself), None, "nothing is known");
}
