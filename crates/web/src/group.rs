//! The page of a group of jobs. A sweep has its trials, the best one, and charts of them.

use askama::Template;
use gpool_sweep::trials::{Study, Trial};
use gpool_wire::job_metrics::{JobMetrics, figure};
use gpool_wire::{Job, Time};

use crate::frame::Frame;
use crate::jobs::{JobTable, job_orders, style};
use crate::parallel::Parallel;
use crate::plot::{LARGE, Plot, Scale, Times, line};
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};

/// Most trials in the table.
const TRIALS_MAX: usize = 200;
/// Points of the curves.
const POINTS: usize = 100;

/// The contents of the page of a group.
#[derive(Debug, Clone, Copy)]
pub struct GroupPage<'a> {
    pub frame: Frame<'a>,
    pub name: &'a str,
    /// Its jobs, also those that have ended.
    pub jobs: &'a [Job],
    /// Whether there are more jobs than these.
    pub is_part: bool,
    /// Its trials; empty if it is no sweep.
    pub study: &'a Study,
    /// The metrics over time of the best trials, by rank.
    pub curves: &'a [(&'a Trial, &'a JobMetrics)],
    /// The address of the page without the order.
    pub address: &'a str,
    pub order: Order<'a>,
    pub now: Time,
}

const COLUMNS: [Column<Trial>; 5] = [
    Column("Trial", "trial", By::Number(|it| it.number as f64)),
    Column("Job", "", By::Nothing),
    Column("State", "trial-state", By::Text(|it| it.state.as_str().to_owned())),
    Column("Value", "value", By::Number(|it| it.value.unwrap_or(f64::NAN))),
    Column("Parameters", "parameters", By::Text(Trial::words)),
];

/// The keys of orders that the tables can have.
#[must_use]
pub fn group_orders() -> Vec<&'static str> {
    [job_orders(), keys(&COLUMNS)].concat()
}

struct TrialRow {
    number: u64,
    job: String,
    state: &'static str,
    style: &'static str,
    value: String,
    parameters: String,
}

#[derive(Template)]
#[template(path = "group.html")]
struct GroupTemplate<'a> {
    frame: Frame<'a>,
    name: &'a str,
    n_jobs: usize,
    is_part: bool,
    states: Vec<(&'static str, &'static str, usize)>,
    metric: &'a str,
    best: Option<(TrialRow, String)>,
    parallel: Option<Parallel>,
    curves: Option<Plot>,
    heads: Vec<ColumnHeading>,
    trials: Vec<TrialRow>,
    n_trials: usize,
    table: JobTable,
}

impl GroupPage<'_> {
    /// The page as HTML.
    #[must_use]
    pub fn page(&self) -> String {
        let study = self.study;
        let objective = study.objective.as_ref();
        let metric = objective.map_or("", |objective| objective.metric.as_str());
        let mut trials = study.ranked();
        self.order.sort(&COLUMNS, &mut trials, |it| *it);
        let best = study.best().map(|best| {
            let value = best.value.map(figure).unwrap_or_default();
            (trial_row(best), format!("{metric} {value}"))
        });
        let empty = "The group has no jobs that you may see.";
        let table = JobTable::sorted(self.jobs, self.now, empty, (self.order, self.address));
        render(&GroupTemplate {
            frame: self.frame,
            name: self.name,
            n_jobs: self.jobs.len(),
            is_part: self.is_part,
            states: self.states(),
            metric,
            best,
            parallel: Parallel::new(study),
            curves: self.curves(metric),
            heads: self.order.heads(&COLUMNS, self.address),
            n_trials: trials.len(),
            trials: trials.into_iter().take(TRIALS_MAX).map(trial_row).collect(),
            table: JobTable { can_select: true, ..table },
        })
    }

    /// The states of its jobs, or of its trials, with their numbers.
    fn states(&self) -> Vec<(&'static str, &'static str, usize)> {
        let of_trials = self.study.trials.values().map(|it| it.state);
        let states: Vec<_> = match self.study.trials.is_empty() {
            true => self.jobs.iter().map(|job| job.state).collect(),
            false => of_trials.collect(),
        };
        let mut found: Vec<(&'static str, &'static str, usize)> = Vec::new();
        for state in states {
            match found.iter_mut().find(|(name, ..)| *name == state.as_str()) {
                Some((.., n)) => *n += 1,
                None => found.push((state.as_str(), style(state), 1)),
            }
        }
        found.sort_unstable();
        found
    }

    /// The metric of the best trials since the start of each.
    fn curves(&self, metric: &str) -> Option<Plot> {
        let lines: Vec<(&Trial, u64, &[Option<f64>])> = self
            .curves
            .iter()
            .filter_map(|(trial, over_time)| {
                let found = over_time.metrics.iter().find(|it| it.name == metric)?;
                let n_known = found.points.iter().rposition(Option::is_some)? + 1;
                Some((*trial, over_time.step_s.max(1) * 1000, &found.points[..n_known]))
            })
            .collect();
        let longest = lines.iter().map(|(_, step, points)| step * points.len() as u64).max()?;
        let step_ms = longest.div_ceil(POINTS as u64).max(1);
        let known = || lines.iter().flat_map(|(.., points)| points.iter().flatten().copied());
        let scale = Scale::between(
            known().fold(f64::INFINITY, f64::min),
            known().fold(f64::NEG_INFINITY, f64::max),
        );
        let times = Times { start_ms: 0, step_ms, n_points: POINTS, is_live: false };
        let label = format!("{metric} of the best trials since their start");
        let mut plot = Plot::new(label, LARGE, scale, times);
        // The best is drawn last, above the others.
        for (at, (_, own_step, points)) in lines.iter().enumerate().rev() {
            let resampled: Vec<Option<f64>> = (0..POINTS as u64)
                .map(|ix| points.get(usize::try_from(ix * step_ms / own_step).ok()?).copied()?)
                .collect();
            let class = if at == 0 { "best" } else { "trial" };
            plot = plot.with(class, line(&resampled, scale, LARGE));
        }
        Some(plot)
    }
}

fn trial_row(trial: &Trial) -> TrialRow {
    TrialRow {
        number: trial.number,
        job: trial.job.clone(),
        state: trial.state.as_str(),
        style: style(trial.state),
        value: trial.value.map(figure).unwrap_or_default(),
        parameters: trial.words(),
    }
}
