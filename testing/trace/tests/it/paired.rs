//! Two runs of the same jobs, compared job by job.

use std::sync::Arc;

use gpool_model::{MilliGpu, Millis, Timestamp};
use gpool_trace::paired::Paired;
use gpool_trace::queue::{Outcome, Played};

/// Jobs by hour of submission and minutes of waiting.
fn outcome(jobs: &[(u64, u64)]) -> Outcome {
    let at = |hour: u64| Timestamp::ZERO.after(Millis::from_hours(u32::try_from(hour).unwrap()));
    let duration = Millis::from_mins(30);
    let played = |(hour, wait): &(u64, u64)| Played {
        owner: Arc::from("ana"),
        runs: Vec::new(),
        submitted_at: at(*hour),
        ended_at: at(*hour).after(Millis::new(wait * 60_000)).after(duration),
        duration,
        gpus: MilliGpu::DEVICE,
    };
    let hours = || jobs.iter().map(|(hour, _)| at(*hour));
    let came = hours().min().zip(hours().max());
    Outcome { jobs: jobs.iter().map(played).collect(), came, ..Outcome::default() }
}

#[test]
fn jobs_of_both_runs_are_compared_and_others_are_not() {
    let before = outcome(&[(0, 10), (1, 20), (30, 5), (31, 7)]);
    let after = outcome(&[(1, 0), (0, 10), (30, 15), (99, 500)]);
    let paired = Paired::of(&before, &after).expect("there are pairs");
    assert_eq!((paired.n_jobs, paired.n_sooner, paired.n_later), (3, 1, 1));
    let minutes = |span: f64| (span / 60_000.0 * 100.0).round() / 100.0;
    assert_eq!((minutes(paired.waits.0), minutes(paired.waits.1)), (11.67, 8.33));
    assert_eq!((minutes(paired.difference.mean), paired.difference.n_blocks), (-3.33, 2));
}

#[test]
fn runs_without_a_common_job_have_no_comparison() {
    assert_eq!(Paired::of(&outcome(&[(0, 1)]), &outcome(&[(2, 1)])), None);
    assert_eq!(Paired::of(&Outcome::default(), &outcome(&[(2, 1)])), None);
}
