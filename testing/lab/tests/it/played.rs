//! Invented results of a queue simulation.

use gpool_model::{MilliGpu, Millis, Timestamp};
use gpool_trace::queue::{Outcome, Played, Ran};

const HOUR: u64 = 3_600_000;

/// Jobs of one hour, twenty per day, with waits in minutes by the day and the index. Every third
/// job is of red, the others are of blue.
pub fn outcome(n_days: u64, minutes: impl Fn(u64, u64) -> u64) -> Outcome {
    let mut jobs = Vec::new();
    for (day, ix) in (0..n_days).flat_map(|day| (0..20).map(move |ix| (day, ix))) {
        let submitted_at = Timestamp::new(1_000_000 + (day * 24 + ix) * HOUR);
        let from = submitted_at.after(Millis::new(minutes(day, ix) * 60_000));
        let until = from.after(Millis::new(HOUR));
        jobs.push(Played {
            owner: if ix % 3 == 0 { "red" } else { "blue" }.into(),
            runs: vec![Ran { from, until, devices: vec![(0, 0)] }],
            submitted_at,
            ended_at: until,
            duration: Millis::new(HOUR),
            gpus: MilliGpu::DEVICE,
        });
    }
    let came =
        jobs.first().zip(jobs.last()).map(|(first, last)| (first.submitted_at, last.submitted_at));
    Outcome { jobs, came, ..Outcome::default() }
}
