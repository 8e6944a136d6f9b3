//! How evenly the requests of owners are satisfied, over time.
//!
//! Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for
//! Resource Allocation in Shared Computer Systems", DEC Research Report TR-301, 1984.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_trace::queue::Outcome;

use super::waits::part_of_time;
use super::window::{Window, spread};
use super::{Figure, Grid, Key, USUAL, class_of, keys};
use crate::render::plot::{Axis, Plot, plain};

/// Most intervals of time: in shorter ones the index is mostly random.
const N_PARTS_MAX: f64 = 62.0;

/// GPU time of one owner in one interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct Share {
    /// GPU time of running jobs.
    pub got: f64,
    /// GPU time of running and waiting jobs.
    pub asked: f64,
}

/// Jain's index of the ratios of received to requested GPU time: 1 if all owners have the same
/// ratio, 1/n if one of n owners got everything. `None` if fewer than two owners request GPUs, or
/// none gets any.
pub fn index(shares: impl Iterator<Item = Share>) -> Option<f64> {
    let parts = shares.filter(|share| share.asked > 0.0).map(|share| share.got / share.asked);
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
        spread(parts, there, |ix, span| shares[ix].asked += span * n_gpus);
        for run in &job.runs {
            let ran = (window.at(run.from), window.at(run.until));
            spread(parts, ran, |ix, span| shares[ix].got += span * n_gpus);
        }
    }
    (0..parts.len()).map(|ix| index(owners.values().map(|shares| shares[ix]))).collect()
}

/// The index over time under each policy; `None` if there is nothing to compare.
pub(super) fn over_time(played: &[(String, Outcome)], window: Window) -> Option<Figure> {
    let parts = window.parts(N_PARTS_MAX);
    let all: Vec<Vec<Option<f64>>> =
        played.iter().map(|(_, outcome)| indexes(outcome, window, &parts)).collect();
    let known = || all.iter().flatten().flatten().copied();
    known().next()?;
    let least = known().fold(1.0, f64::min);
    let from = ((least * 10.0).floor() / 10.0).min(0.9);
    let x = Axis::time("the first submission", (0.0, window.span));
    let y = Axis::linear("Jain's fairness index", (from, 1.0), 5, plain);
    let step = part_of_time(parts.first().map_or(0.0, |(from, to)| to - from));
    let mut grid = Grid {
        caption: format!("Jain's fairness index of each {step}"),
        head: ["POLICY", "AVERAGE", "MINIMUM"].map(str::to_owned).to_vec(),
        ..Grid::default()
    };
    for ((policy, _), indexes) in played.iter().zip(&all) {
        let values: Vec<f64> = indexes.iter().flatten().copied().collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let least = values.iter().copied().fold(1.0, f64::min);
        grid.rows.push(vec![policy.clone(), format!("{mean:.3}"), format!("{least:.3}")]);
    }
    let said = grid
        .rows
        .iter()
        .map(|row| format!("with {} {} on average, at least {}", row[0], row[1], row[2]));
    let summary = said.collect::<Vec<_>>().join("; ");
    let mut plot = Plot::new("Fairness between owners", &summary, USUAL, x, y);
    for (ix, indexes) in all.iter().enumerate() {
        // The line has a gap where the index is undefined.
        for known in parts.iter().zip(indexes).collect::<Vec<_>>().split(|(_, it)| it.is_none()) {
            let middle = |(from, to): (f64, f64)| f64::midpoint(from, to);
            let points = known.iter().filter_map(|(part, it)| it.map(|it| (middle(**part), it)));
            plot.line(&class_of(ix), &points.collect::<Vec<_>>());
        }
    }
    let text = format!(
        "For each owner and each {step}: the GPU-time of its running jobs as a fraction of that of \
         its running and waiting jobs. Jain's index of these fractions (Jain, Chiu, Hawe, \
         DEC-TR-301, 1984) is 1 if all owners, large and small, have the same fraction. The \
         vertical axis begins at {}.",
        plain(from)
    );
    let keys = keys(played.iter().map(|(policy, _)| policy.as_str()), Key::line);
    Some(Figure::usual("Fairness between owners", text, keys, plot, grid))
}
