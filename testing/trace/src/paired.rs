//! Two runs of the same jobs, compared job by job.

use gpool_model::{Millis, Timestamp};

use crate::interval::{Mean, Sum};
use crate::outcome::{Outcome, Played};

/// With fewer blocks a confidence interval is unreliable.
/// Source: B. Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", 1982.
pub const BLOCKS_MIN: usize = 10;
/// Jobs of one block are submitted within this time.
const DAY: u64 = Millis::from_hours(24).get();
/// A job is sooner or later by more than this.
const NOTICED: Millis = Millis::from_mins(1);

/// The differences of the waiting times of the same jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// The number of jobs that both runs have.
    pub n_jobs: usize,
    /// How many of them wait less in the second run, by more than a minute.
    pub n_sooner: usize,
    /// How many wait longer.
    pub n_later: usize,
    /// Mean waits of both runs, in milliseconds.
    pub waits: (f64, f64),
    /// The mean difference. Its blocks are days from the first job.
    pub difference: Mean,
}

impl Paired {
    /// Pairs the jobs of both runs. Jobs have no IDs, but equal jobs that one owner submitted at
    /// the same time are interchangeable. `None` if the runs have no job in common.
    #[must_use]
    pub fn of(before: &Outcome, after: &Outcome) -> Option<Self> {
        let (origin, _) = before.came?;
        let mut others = sorted(after).into_iter().peekable();
        let mut blocks = Vec::new();
        let (mut n_jobs, mut n_sooner, mut n_later, mut sums) = (0, 0, 0, (0.0, 0.0));
        for job in sorted(before) {
            while others.next_if(|it| key(it) < key(job)).is_some() {}
            let Some(same) = others.next_if(|it| key(it) == key(job)) else { continue };
            let ix = day(origin, job.submitted_at);
            if blocks.len() <= ix {
                blocks.resize(ix + 1, Sum::default());
            }
            let (was, is) = (job.wait(), same.wait());
            n_sooner += usize::from(was.saturating_sub(is) > NOTICED);
            n_later += usize::from(is.saturating_sub(was) > NOTICED);
            let (was, is) = (was.get() as f64, is.get() as f64);
            blocks[ix].sum += is - was;
            blocks[ix].n += 1.0;
            n_jobs += 1;
            sums = (sums.0 + was, sums.1 + is);
        }
        let n = n_jobs as f64;
        let (waits, difference) = ((sums.0 / n, sums.1 / n), Mean::of(&blocks)?);
        Some(Self { n_jobs, n_sooner, n_later, waits, difference })
    }
}

/// Sorts by all properties of a job, then by its wait.
fn sorted(outcome: &Outcome) -> Vec<&Played> {
    let mut jobs: Vec<&Played> = outcome.jobs.iter().collect();
    jobs.sort_unstable_by_key(|job| (key(job), job.wait()));
    jobs
}

fn key(job: &Played) -> (Timestamp, &str, u64, u64) {
    (job.submitted_at, &job.owner, job.duration.get(), job.gpus.get())
}

/// The day since the first job.
fn day(origin: Timestamp, at: Timestamp) -> usize {
    usize::try_from(at.since(origin).get() / DAY).unwrap_or(usize::MAX)
}
