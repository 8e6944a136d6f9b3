//! GPUs of each owner over time, and the owners with their own color.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_cli::render::safe::safe;
use gpool_trace::Layout;
use gpool_trace::queue::{Outcome, Played};

use super::waits::{mean, part_of_time, span};
use super::window::{Window, spread};
use super::{Figure, Grid, Key, Panel, USUAL, percent};
use crate::render::plot::{Axis, HOUR, Plot, plain};

/// Most owners with their own color.
const N_SHOWN: usize = 8;
/// The class of all other owners.
const OTHERS: usize = N_SHOWN;
/// Most intervals of time that are visible.
const N_PARTS_MAX: f64 = 180.0;

/// The owners with their own color, most GPU time first.
#[derive(Debug)]
pub struct Owners {
    names: Vec<Arc<str>>,
    /// GPU-hours of all owners, then of each class.
    all: f64,
    hours: [f64; N_SHOWN + 1],
    n_all: usize,
}

impl Owners {
    /// The owners of a played trace.
    pub fn of(outcome: &Outcome) -> Self {
        let mut times = BTreeMap::<&Arc<str>, f64>::new();
        for job in &outcome.jobs {
            let hours = job.duration.get() as f64 / HOUR * job.n_gpus();
            *times.entry(&job.owner).or_default() += hours;
        }
        let all = times.values().sum();
        let n_all = times.len();
        let mut sorted: Vec<(&Arc<str>, f64)> = times.into_iter().collect();
        sorted.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        let mut hours = [0.0; N_SHOWN + 1];
        for (ix, (_, time)) in sorted.iter().enumerate() {
            hours[ix.min(OTHERS)] += time;
        }
        let names = sorted.iter().take(N_SHOWN).map(|(name, _)| Arc::clone(name)).collect();
        Self { names, all, hours, n_all }
    }

    pub fn class_of(&self, owner: &Arc<str>) -> usize {
        self.names.iter().position(|name| name == owner).unwrap_or(OTHERS)
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        if self.n_all > N_SHOWN { N_SHOWN + 1 } else { self.names.len() }
    }

    fn name(&self, class: usize) -> String {
        match self.names.get(class) {
            None => format!("{} others", self.n_all - self.names.len()),
            Some(name) if name.is_empty() => "no owner".to_owned(),
            Some(name) => safe(name).into_owned(),
        }
    }

    /// The legend of the colors.
    pub fn keys(&self) -> Vec<Key> {
        (0..self.classes()).map(|ix| Key::area(&format!("o{ix}"), &self.name(ix))).collect()
    }

    /// The GPU time and the waiting time of each owner.
    fn grid(&self, played: &[(String, Outcome)]) -> Grid {
        let of = |class: usize, outcome: &'_ Outcome| -> Vec<usize> {
            let is =
                |(ix, job): (usize, &Played)| (self.class_of(&job.owner) == class).then_some(ix);
            outcome.jobs.iter().enumerate().filter_map(is).collect()
        };
        let rows: Vec<(Vec<String>, Vec<Option<f64>>)> = (0..self.classes())
            .map(|class| {
                let n = played.first().map_or(0, |(_, outcome)| of(class, outcome).len());
                let part = if self.all > 0.0 { self.hours[class] / self.all } else { 0.0 };
                let n_digits = if self.hours[class] < 100.0 { 1 } else { 0 };
                let hours = format!("{:.n_digits$}", self.hours[class]);
                let waits = played.iter().map(|(_, outcome)| {
                    mean(of(class, outcome).into_iter().map(|ix| &outcome.jobs[ix]))
                });
                (vec![self.name(class), n.to_string(), hours, percent(part)], waits.collect())
            })
            .collect();
        let mut head = ["OWNER", "JOBS", "GPU-HOURS", "PERCENT"].map(str::to_owned).to_vec();
        head.extend(played.iter().map(|(policy, _)| format!("AVG WAIT, {policy}")));
        let rows = rows.into_iter().map(|(mut row, waits)| {
            let text = |wait: Option<f64>| wait.map_or("-".to_owned(), span);
            row.extend(waits.into_iter().map(text));
            row
        });
        let caption = "GPU-hours and average wait of each owner";
        Grid { caption: caption.to_owned(), head, rows: rows.collect(), note: String::new() }
    }
}

/// Mean GPUs in use of each owner in each interval.
fn in_use(
    outcome: &Outcome,
    owners: &Owners,
    window: Window,
    parts: &[(f64, f64)],
) -> Vec<[f64; N_SHOWN + 1]> {
    let mut sums = vec![[0.0; N_SHOWN + 1]; parts.len()];
    for job in &outcome.jobs {
        let class = owners.class_of(&job.owner);
        for run in &job.runs {
            let ran = (window.at(run.from), window.at(run.until));
            spread(parts, ran, |ix, length| {
                sums[ix][class] += length * job.n_gpus() / (parts[ix].1 - parts[ix].0);
            });
        }
    }
    sums
}

/// GPUs of each owner over time, under each policy.
pub fn over_time(
    played: &[(String, Outcome)],
    owners: &Owners,
    window: Window,
    cluster: &Layout,
) -> Figure {
    let parts = window.parts(N_PARTS_MAX);
    let n_gpus = cluster.n_usable().max(1) as f64;
    let panels = played.iter().map(|(policy, outcome)| {
        let sums = in_use(outcome, owners, window, &parts);
        let used = |class: usize| {
            let time: f64 =
                sums.iter().zip(&parts).map(|(sum, (from, to))| sum[class] * (to - from)).sum();
            time / window.span / n_gpus
        };
        let said = (0..owners.classes()).map(|class| {
            format!("{} has {} of the GPUs on average", owners.name(class), percent(used(class)))
        });
        let title = format!("GPUs in use with {policy}");
        let x = Axis::time("the first submission", (0.0, window.span));
        let y = Axis::linear("GPUs in use", (0.0, n_gpus), 4, plain);
        let mut plot = Plot::new(&title, &said.collect::<Vec<_>>().join("; "), USUAL, x, y);
        let mut lower = vec![0.0; parts.len()];
        for class in 0..owners.classes() {
            let mut points = Vec::new();
            for ((sum, lower), (from, to)) in sums.iter().zip(&mut lower).zip(&parts) {
                let upper = *lower + sum[class];
                points.extend([(*from, *lower, upper), (*to, *lower, upper)]);
                *lower = upper;
            }
            plot.area(&format!("edge o{class}"), &points);
        }
        plot.line("bound", &[(0.0, n_gpus), (window.span, n_gpus)]);
        Panel { heading: policy.clone(), plot }
    });
    let step = parts.first().map_or(0.0, |(from, to)| to - from);
    let text = format!(
        "Each area is the GPUs of one owner, averaged over each {}, from the first to the last \
         submission. The dashed line is the number of all GPUs.",
        part_of_time(step)
    );
    Figure {
        heading: "GPUs in use by owner".to_owned(),
        text,
        keys: owners.keys(),
        panels: panels.collect(),
        grid: Some(owners.grid(played)),
        is_wide: true,
        is_long: false,
    }
}
