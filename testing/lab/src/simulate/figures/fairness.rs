//! How evenly the requests of owners are satisfied, over time.
//!
//! Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for
//! Resource Allocation in Shared Computer Systems", DEC Research Report TR-301, 1984.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_trace::queue::Outcome;
use serde_json::{Value, json};

use super::columns;
use super::window::{Window, spread};

/// Most intervals of time: in shorter ones the index is mostly random.
const N_PARTS_MAX: f64 = 62.0;

/// GPU time of one owner in one interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    /// GPU time of running jobs.
    pub received: f64,
    /// GPU time of running and waiting jobs.
    pub requested: f64,
}

/// Jain's index of the ratios of received to requested GPU time: 1 if all owners have the same
/// ratio, 1/n if one of n owners got everything. `None` if fewer than two owners request GPUs, or
/// none gets any.
pub fn index(shares: impl Iterator<Item = Share>) -> Option<f64> {
    let parts =
        shares.filter(|share| share.requested > 0.0).map(|share| share.received / share.requested);
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for part in parts {
        n += 1.0;
        sum += part;
        squares += part * part;
    }
    (n > 1.0 && squares > 0.0).then(|| sum * sum / (n * squares))
}

/// The index of each interval.
fn indexes(outcome: &Outcome, window: Window, parts: &[(f64, f64)]) -> Vec<Option<f64>> {
    let mut owners = BTreeMap::<&Arc<str>, Vec<Share>>::new();
    for job in &outcome.jobs {
        let none = || vec![Share::default(); parts.len()];
        let shares = owners.entry(&job.owner).or_insert_with(none);
        let n_gpus = job.n_gpus();
        let there = (window.at(job.submitted_at), window.at(job.ended_at));
        spread(parts, there, |ix, span| shares[ix].requested += span * n_gpus);
        for run in &job.runs {
            let ran = (window.at(run.from), window.at(run.until));
            spread(parts, ran, |ix, span| shares[ix].received += span * n_gpus);
        }
    }
    (0..parts.len()).map(|ix| index(owners.values().map(|shares| shares[ix]))).collect()
}

/// The index over time under each policy.
pub(super) fn over_time(played: &[(String, Outcome)], window: Window) -> Vec<Value> {
    let parts = window.parts(N_PARTS_MAX);
    let (from_s, until_s) = columns(&parts);
    let of = |(policy, outcome): &(String, Outcome)| {
        let indexes = indexes(outcome, window, &parts);
        let known: Vec<f64> = indexes.iter().flatten().copied().collect();
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        let least = known.into_iter().reduce(f64::min);
        json!({
            "policy": policy, "from_s": from_s, "until_s": until_s, "index": indexes,
            "index_mean": mean, "index_min": least,
        })
    };
    played.iter().map(of).collect()
}
