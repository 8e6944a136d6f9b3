//! The owners with the most GPU time: their waiting times, and their GPUs over time.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_trace::queue::Outcome;
use serde_json::{Value, json};

use super::columns;
use super::waits::WaitSum;
use super::window::{HOUR, Window, spread};

/// Most owners with a row of their own.
const N_LARGEST: usize = 8;
/// Most intervals of time that are visible.
const N_PARTS_MAX: f64 = 180.0;

/// The owners on their own, most GPU time first.
#[derive(Debug)]
pub struct Owners {
    largest: Vec<Arc<str>>,
    /// The names of the largest, and one for all others.
    names: Vec<String>,
}

impl Owners {
    /// The owners of a played trace.
    pub fn of(outcome: &Outcome) -> Self {
        let mut times = BTreeMap::<&Arc<str>, f64>::new();
        for job in &outcome.jobs {
            *times.entry(&job.owner).or_default() += job.duration.get() as f64 * job.n_gpus();
        }
        let mut sorted: Vec<(&Arc<str>, f64)> = times.into_iter().collect();
        sorted.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        let n_others = sorted.len().saturating_sub(N_LARGEST);
        let largest = sorted.iter().take(N_LARGEST).map(|(name, _)| Arc::clone(name));
        let largest: Vec<Arc<str>> = largest.collect();
        let name = |name: &Arc<str>| match &**name {
            "" => "no owner".to_owned(),
            name => name.to_owned(),
        };
        let others = (n_others > 0).then(|| format!("{n_others} others"));
        let names = largest.iter().map(name).chain(others).collect();
        Self { largest, names }
    }

    /// The index of an owner's name.
    fn ix(&self, owner: &Arc<str>) -> usize {
        self.largest.iter().position(|name| name == owner).unwrap_or(N_LARGEST)
    }

    /// The name of an owner, or the common name of all others.
    pub fn name(&self, owner: &Arc<str>) -> &str {
        self.names.get(self.ix(owner)).map_or("", String::as_str)
    }

    /// The GPU time and the waiting time of each owner.
    pub fn totals(&self, played: &[(String, Outcome)]) -> Vec<Value> {
        let of = |(policy, outcome): &(String, Outcome)| {
            let mut waits = [WaitSum::default(); N_LARGEST + 1];
            let mut hours = [0.0; N_LARGEST + 1];
            for job in &outcome.jobs {
                let ix = self.ix(&job.owner);
                waits[ix].add(job);
                hours[ix] += job.duration.get() as f64 / 1000.0 / HOUR * job.n_gpus();
            }
            let n = self.names.len();
            let (n_jobs, means) = WaitSum::columns(&waits[..n]);
            json!({
                "policy": policy, "owner": self.names, "jobs": n_jobs, "gpu_hours": hours[..n],
                "wait_mean_s": means,
            })
        };
        played.iter().map(of).collect()
    }

    /// Mean GPUs in use of each owner in each interval.
    pub fn over_time(&self, played: &[(String, Outcome)], window: Window) -> Vec<Value> {
        let parts = window.parts(N_PARTS_MAX);
        let (from_s, until_s) = columns(&parts);
        let of = |(policy, outcome): &(String, Outcome)| {
            let mut gpus = vec![vec![0.0; parts.len()]; N_LARGEST + 1];
            for job in &outcome.jobs {
                let gpus = &mut gpus[self.ix(&job.owner)];
                for run in &job.runs {
                    let ran = (window.at(run.from), window.at(run.until));
                    spread(&parts, ran, |ix, span| {
                        gpus[ix] += span * job.n_gpus() / (parts[ix].1 - parts[ix].0);
                    });
                }
            }
            json!({
                "policy": policy, "from_s": from_s, "until_s": until_s, "owner": self.names,
                "gpus": gpus[..self.names.len()],
            })
        };
        played.iter().map(of).collect()
    }
}
