//! Waiting times of jobs: their distribution, and averages by number of GPUs and over time.

use gpool_trace::queue::{Outcome, Played};
use serde_json::{Value, json};

use super::columns;
use super::window::{DAY, HOUR, Window, part_at};

/// Groups of GPU counts: the upper limit in thousandths, and the label. The first group is
/// fractions of a GPU.
const SIZES: [(u64, &str); 7] = [
    (999, "<1"),
    (1_000, "1"),
    (2_000, "2"),
    (4_000, "3-4"),
    (8_000, "5-8"),
    (16_000, "9-16"),
    (u64::MAX, ">16"),
];

/// Waits that the distribution always has.
const WAITS: [f64; 6] = [1.0, 60.0, 600.0, HOUR, 6.0 * HOUR, DAY];
/// Number of further waits, at equal distances on a logarithmic axis.
const N_WAITS: u32 = 120;

/// The sum of waits in seconds, and the number of jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitSum {
    sum_s: f64,
    n: u64,
}

impl WaitSum {
    /// Adds a job.
    pub fn add(&mut self, job: &Played) {
        self.sum_s += wait_s(job);
        self.n += 1;
    }

    /// The number of jobs of each sum, and the average waits.
    pub fn columns(all: &[Self]) -> (Vec<u64>, Vec<Option<f64>>) {
        let mean = |it: &Self| (it.n > 0).then(|| it.sum_s / it.n as f64);
        all.iter().map(|it| (it.n, mean(it))).unzip()
    }
}

fn wait_s(job: &Played) -> f64 {
    job.wait().get() as f64 / 1000.0
}

/// The fraction of jobs that wait at most a time, for many times.
pub fn distribution(played: &[(String, Outcome)]) -> Vec<Value> {
    let jobs = || played.iter().flat_map(|(_, outcome)| &outcome.jobs);
    let longest = jobs().map(wait_s).fold(10.0, f64::max);
    let point = |n: u32| longest.powf(f64::from(n) / f64::from(N_WAITS)).round();
    let mut within: Vec<f64> = (0..=N_WAITS).map(point).chain(WAITS).collect();
    within.sort_unstable_by(f64::total_cmp);
    within.dedup();
    let of = |(policy, outcome): &(String, Outcome)| {
        let mut waits: Vec<f64> = outcome.jobs.iter().map(wait_s).collect();
        waits.sort_unstable_by(f64::total_cmp);
        let n_all = waits.len().max(1) as f64;
        let part = |most: &f64| waits.partition_point(|wait| wait <= most) as f64 / n_all;
        let parts: Vec<f64> = within.iter().map(part).collect();
        json!({"policy": policy, "wait_s": within, "jobs_within": parts})
    };
    played.iter().map(of).collect()
}

/// Average waits by number of GPUs.
pub fn by_size(played: &[(String, Outcome)]) -> Vec<Value> {
    let sizes = SIZES.map(|(_, label)| label);
    let of = |(policy, outcome): &(String, Outcome)| {
        let mut sums = [WaitSum::default(); SIZES.len()];
        for job in &outcome.jobs {
            sums[SIZES.partition_point(|(most, _)| *most < job.gpus.get())].add(job);
        }
        let (n_jobs, means) = WaitSum::columns(&sums);
        json!({"policy": policy, "gpus": sizes, "jobs": n_jobs, "wait_mean_s": means})
    };
    played.iter().map(of).collect()
}

/// Average waits by time of submission.
pub fn over_time(played: &[(String, Outcome)], window: Window) -> Vec<Value> {
    let parts = window.parts((window.span / DAY).clamp(24.0, 180.0));
    let (from_s, until_s) = columns(&parts);
    let of = |(policy, outcome): &(String, Outcome)| {
        let mut sums = vec![WaitSum::default(); parts.len()];
        for job in &outcome.jobs {
            sums[part_at(&parts, window.at(job.submitted_at))].add(job);
        }
        let (n_jobs, means) = WaitSum::columns(&sums);
        json!({
            "policy": policy, "from_s": from_s, "until_s": until_s, "jobs": n_jobs,
            "wait_mean_s": means,
        })
    };
    played.iter().map(of).collect()
}
