//! The results of a queue simulation: the values for programs, and the table.

use std::collections::BTreeMap;

use gpool_cli::render::words::count;
use gpool_model::{Millis, Timestamp};
use gpool_trace::interval::Mean;
use gpool_trace::paired::{BLOCKS_MIN, Paired};
use gpool_trace::queue::{LARGE, Outcome, Played};
use gpool_trace::{Foretold, Layout};
use gpool_wire::Problem;
use serde_json::{Value, json};

use crate::render::grid::{Grid, span};
use crate::simulate::compare::{Comparison, Words};

/// Waits in seconds, ascending.
struct Waits(Vec<u64>);

impl Waits {
    fn of(outcome: &Outcome, least: u32) -> Self {
        let is_large = |job: &&Played| job.n_gpus() >= f64::from(least);
        let jobs = outcome.jobs.iter().filter(is_large);
        let mut waits: Vec<u64> = jobs.map(|job| job.wait().get() / 1000).collect();
        waits.sort_unstable();
        Self(waits)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len().max(1) as f64
    }

    /// The percentile by nearest rank.
    fn percentile(&self, percent: usize) -> Option<u64> {
        let at = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(at).copied()
    }
}

/// The mean wait of users with less GPU time than the average user, in seconds: the mean of their
/// means, so that each user counts once. `None` unless there are several users.
fn mean_of_light_users(outcome: &Outcome) -> Option<f64> {
    let mut users = BTreeMap::<&str, (f64, Vec<u64>)>::new();
    for job in &outcome.jobs {
        let (used, waits) = users.entry(&job.owner).or_default();
        *used += job.n_gpus() * job.duration.get() as f64;
        waits.push(job.wait().get() / 1000);
    }
    let equal = users.values().map(|(used, _)| used).sum::<f64>() / users.len().max(1) as f64;
    let light = users.into_values().filter(|(used, _)| *used < equal);
    let means: Vec<f64> = light.map(|(_, waits)| Waits(waits).mean()).collect();
    (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
}

fn utilization(outcome: &Outcome, cluster: &Layout) -> f64 {
    let Some((first, last)) = outcome.came else { return 0.0 };
    let n_gpus = cluster.n_usable().max(1) as f64;
    outcome.busy as f64 / (last.since(first).get().max(1) as f64 * n_gpus)
}

/// The keys for each policy, in the order of the columns.
pub const KEYS: [&str; 19] = [
    "policy",
    "jobs",
    "refused",
    "stuck",
    "cut",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p99_s",
    "wait_max_s",
    "wait_p99_large_s",
    "wait_mean_light_s",
    "jct_mean_s",
    "utilization",
    "makespan_s",
    "preemptions",
    "forecasts",
    "forecasts_by_p90",
    "forecasts_by_p50",
    "forecasts_wait_to_p50",
];

/// The values of one policy.
pub fn item(policy: &str, outcome: &Outcome, cluster: &Layout) -> Value {
    let waits = Waits::of(outcome, 0);
    let n_jobs = outcome.jobs.len();
    let ran: u64 = outcome.jobs.iter().map(|job| job.duration.get() / 1000).sum();
    let first = outcome.came.map_or(Timestamp::ZERO, |(first, _)| first);
    let last = outcome.jobs.iter().map(|job| job.ended_at).max().unwrap_or(first);
    let held = Held::of(outcome);
    json!({
        "policy": policy,
        "jobs": n_jobs,
        "refused": outcome.n_refused,
        "stuck": outcome.n_stuck,
        "cut": outcome.n_cut,
        "wait_mean_s": waits.mean(),
        "wait_p50_s": waits.percentile(50),
        "wait_p99_s": waits.percentile(99),
        "wait_max_s": waits.percentile(100),
        "wait_p99_large_s": Waits::of(outcome, LARGE).percentile(99),
        "wait_mean_light_s": mean_of_light_users(outcome),
        "jct_mean_s": waits.mean() + ran as f64 / n_jobs.max(1) as f64,
        "utilization": utilization(outcome, cluster),
        "makespan_s": last.since(first).get() / 1000,
        "preemptions": outcome.n_taken_back,
        "forecasts": held.as_ref().map(|it| it.n),
        "forecasts_by_p90": held.as_ref().map(|it| it.by_p90),
        "forecasts_by_p50": held.as_ref().map(|it| it.by_p50),
        "forecasts_wait_to_p50": held.as_ref().map(|it| it.wait_to_p50),
    })
}

/// The accuracy of the first forecast of each job.
struct Held {
    n: usize,
    /// Fraction of jobs that started by the forecast p90.
    by_p90: f64,
    /// Fraction of jobs that started by the forecast p50.
    by_p50: f64,
    /// Actual waits after the forecast, as a ratio to the forecast p50.
    wait_to_p50: f64,
}

impl Held {
    fn of(outcome: &Outcome) -> Option<Self> {
        let all = &outcome.forecasts;
        let n = all.len();
        let part = |held: fn(&Foretold) -> bool| {
            all.iter().filter(|it| held(it)).count() as f64 / n as f64
        };
        let sum = |until: fn(&Foretold) -> Timestamp| {
            all.iter().map(|it| until(it).since(it.at).get()).sum::<u64>() as f64
        };
        (n > 0).then(|| Self {
            n,
            by_p90: part(|it| it.started_at <= it.p90),
            by_p50: part(|it| it.started_at <= it.p50),
            wait_to_p50: sum(|it| it.started_at) / sum(|it| it.p50).max(1.0),
        })
    }
}

const HEAD: [&str; 10] = [
    "POLICY",
    "AVG WAIT",
    "RATIO",
    "MEDIAN",
    "P99",
    "MAX",
    "P99 LARGE",
    "AVG LIGHT",
    "USED",
    "PREEMPTED",
];
/// Further columns if starts were forecast.
const HEAD_OF_FORECASTS: [&str; 4] = ["FORECASTS", "BY P90", "BY P50", "WAIT TO P50"];

/// The table with the meaning of its columns.
pub fn grid(played: &[(String, Outcome)], cluster: &Layout) -> Grid {
    let forecasts = played.iter().any(|(_, outcome)| !outcome.forecasts.is_empty());
    let mut rows = Vec::new();
    let mut first: Option<f64> = None;
    for (policy, outcome) in played {
        let waits = Waits::of(outcome, 0);
        let mean = waits.mean();
        let before = *first.get_or_insert(mean);
        let ratio = if before > 0.0 { format!("{:.2}", mean / before) } else { "-".to_owned() };
        let text = |seconds: u64| Millis::new(seconds.saturating_mul(1000)).to_string();
        let shown = |seconds: Option<u64>| seconds.map_or("-".to_owned(), text);
        let mut row = vec![
            policy.clone(),
            span(mean),
            ratio,
            shown(waits.percentile(50)),
            shown(waits.percentile(99)),
            shown(waits.percentile(100)),
            shown(Waits::of(outcome, LARGE).percentile(99)),
            mean_of_light_users(outcome).map_or("-".to_owned(), span),
            format!("{:.1}%", utilization(outcome, cluster) * 100.0),
            outcome.n_taken_back.to_string(),
        ];
        if forecasts {
            row.extend(match Held::of(outcome) {
                Some(held) => [
                    held.n.to_string(),
                    format!("{:.1}%", held.by_p90 * 100.0),
                    format!("{:.1}%", held.by_p50 * 100.0),
                    format!("{:.2}", held.wait_to_p50),
                ],
                None => [(); 4].map(|()| "-".to_owned()),
            });
        }
        rows.push(row);
    }
    let mut note = format!(
        "AVG WAIT   average waiting time: from submission to end, without the time it ran\n\
         RATIO      AVG WAIT divided by that of the first policy\n\
         MEDIAN     waiting time of the job in the middle; P99 and MAX: 99th percentile, longest\n\
         P99 LARGE  99th percentile for jobs of {LARGE} or more GPUs\n\
         AVG LIGHT  average of users with less GPU-time than the average user\n\
         USED       GPU-time in use until the last submission, in percent of all GPU-time\n\
         PREEMPTED  number of preemptions\n"
    );
    let mut head = HEAD.map(str::to_owned).to_vec();
    if forecasts {
        head.extend(HEAD_OF_FORECASTS.map(str::to_owned));
        note += "FORECASTS  number of jobs with a forecast of their start while they waited\n\
                 BY P90     jobs that started by their first p90; BY P50: by their first p50\n\
                 WAIT TO P50  waiting time after the first forecast, divided by its p50\n";
    }
    Grid { head, rows, note }
}

/// The names in a comparison of waits.
pub const WORDS: Words = Words {
    unit: "_s",
    value: "AVG WAIT",
    results: ("shorter", "longer"),
    pairs: "job",
    block: "day",
    n_blocks_min: BLOCKS_MIN,
};

/// Each policy against the first, job by job, in seconds. Its blocks are days.
pub fn comparisons(played: &[(String, Outcome)]) -> Vec<Comparison> {
    let Some(((first, before), others)) = played.split_first() else { return Vec::new() };
    let comparison = |(policy, after): &(String, Outcome)| {
        let paired = Paired::of(before, after)?;
        Some(Comparison {
            first: first.clone(),
            policy: policy.clone(),
            n_pairs: paired.n_jobs,
            means: (paired.waits.0 / 1000.0, paired.waits.1 / 1000.0),
            difference: in_seconds(paired.difference),
            deviation: None,
        })
    };
    others.iter().filter_map(comparison).collect()
}

fn in_seconds(millis: Mean) -> Mean {
    Mean {
        mean: millis.mean / 1000.0,
        interval: millis.interval.map(|(low, high)| (low / 1000.0, high / 1000.0)),
        ..millis
    }
}

/// Policies with a confidence interval that is too narrow, because their blocks are correlated.
pub fn correlated(comparisons: &[Comparison]) -> Vec<String> {
    let is_so =
        |it: &&Comparison| it.difference.n_blocks >= BLOCKS_MIN && it.difference.is_correlated();
    let text = |it: &Comparison| {
        format!(
            "{}: the difference on one day resembles that of the day before, so the confidence \
             interval is too narrow",
            it.policy
        )
    };
    comparisons.iter().filter(is_so).map(text).collect()
}

/// How many jobs did not run as requested, and why.
pub fn not_as_asked(outcome: &Outcome) -> Vec<String> {
    let were = |n: u64| format!("{} {}", count(n, "job"), if n == 1 { "was" } else { "were" });
    let refused = outcome.refusal.as_ref().map(|refusal| {
        let why = Problem::from(refusal).detail;
        format!("{} refused; the first: {why}", were(outcome.n_refused))
    });
    let stuck = (outcome.n_stuck > 0).then(|| {
        format!("{} never started: no job can be preempted", count(outcome.n_stuck, "job"))
    });
    let cut = (outcome.n_cut > 0)
        .then(|| format!("{} preempted and did not finish", were(outcome.n_cut)));
    refused.into_iter().chain(stuck).chain(cut).collect()
}
