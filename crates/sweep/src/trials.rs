//! The trials of a sweep as its jobs show them: elements of arrays in one group.

use std::collections::BTreeMap;

use gpool_model::job::JobState;
use gpool_model::{Goal, GroupPlace, Objective};
use gpool_wire::Job;
use gpool_wire::job_metrics::ElementMetrics;
use serde::Serialize;

/// The role of trials in the group of a sweep.
pub const TRIAL: &str = "trial";
/// The role of the job that chooses the trials.
pub const DRIVER: &str = "driver";

/// A trial of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Its number in the sweep, from 0.
    pub number: u64,
    /// The element that runs it: `17.3`.
    pub job: String,
    /// State of the element.
    pub state: JobState,
    /// The last value of the metric; `None` before the first.
    pub value: Option<f64>,
    /// Parameters with their values, in order.
    pub parameters: Vec<(String, String)>,
}

impl Trial {
    /// Its parameters in one line: `lr=0.1 bs=32`.
    #[must_use]
    pub fn words(&self) -> String {
        let words = self.parameters.iter().map(|(name, value)| format!("{name}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A sweep with its trials.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Study {
    /// The metric that tells which trial is the best, from the newest array that has one.
    pub objective: Option<Objective>,
    /// The trials by number.
    pub trials: BTreeMap<u64, Trial>,
    /// The job that chooses the trials, if there is one.
    pub driver: Option<Job>,
    /// The arrays that were added, by number of their job; later ones replace trials.
    newest: BTreeMap<u64, u64>,
}

/// Whether a job of a group has trials, so that its elements are needed.
#[must_use]
pub fn has_trials(job: &Job) -> bool {
    place(job).is_some_and(|place| place.role.as_deref() == Some(TRIAL)) && job.array.is_some()
}

fn place(job: &Job) -> Option<GroupPlace> {
    GroupPlace::parse(job.request.group.as_deref()?).ok()
}

fn number(job: &Job) -> u64 {
    job.id.split('.').next().and_then(|id| id.parse().ok()).unwrap_or_default()
}

/// Whether a value is better than another.
fn is_better(objective: &Objective, value: f64, other: f64) -> bool {
    match objective.goal {
        Goal::Min => value < other,
        Goal::Max => value > other,
        Goal::Near(target) => {
            let target: f64 = target.to_string().parse().unwrap_or_default();
            (value - target).abs() < (other - target).abs()
        }
    }
}

impl Study {
    /// Adds a job of the group that has no trials: the newest driver counts.
    pub fn add_job(&mut self, job: Job) {
        let is_driver = place(&job).is_some_and(|place| place.role.as_deref() == Some(DRIVER));
        if is_driver && self.driver.as_ref().is_none_or(|old| number(old) < number(&job)) {
            self.driver = Some(job);
        }
    }

    /// Adds an array of trials with its elements and their metrics. A trial that was retried in a
    /// later array has the state and value of that.
    pub fn add_array(&mut self, array: &Job, elements: &[Job], metrics: &[ElementMetrics]) {
        let objective = array.request.metric.as_deref();
        let objective = objective.and_then(|text| Objective::parse(text).ok());
        let index = place(array).and_then(|place| place.index);
        let array_number = number(array);
        for element in elements {
            let Some(own) = &element.element else { continue };
            let trial_number = index.unwrap_or_else(|| u64::from(own.index));
            if self.newest.get(&trial_number).is_some_and(|newest| *newest > array_number) {
                continue;
            }
            self.newest.insert(trial_number, array_number);
            let reported = metrics.iter().find(|it| it.id == element.id);
            // The end of an element has the value for good.
            let last = element.usage.total.as_ref().and_then(|usage| usage.objective);
            let value = last.or_else(|| {
                let (reported, objective) = reported.zip(objective.as_ref())?;
                reported.metrics.get(&objective.metric).copied()
            });
            let trial = Trial {
                number: trial_number,
                job: element.id.clone(),
                state: element.state,
                value,
                parameters: own.params.clone(),
            };
            self.trials.insert(trial_number, trial);
        }
        self.objective = objective.or(self.objective.take());
    }

    /// The successful trial with the best value.
    #[must_use]
    pub fn best(&self) -> Option<&Trial> {
        let objective = self.objective.as_ref()?;
        let succeeded = self.trials.values().filter(|it| it.state == JobState::Succeeded);
        succeeded.filter(|it| it.value.is_some()).reduce(|best, trial| {
            match (trial.value, best.value) {
                (Some(value), Some(old)) if is_better(objective, value, old) => trial,
                _ => best,
            }
        })
    }

    /// The trials with the best value first; those without a value are last, by number.
    #[must_use]
    pub fn ranked(&self) -> Vec<&Trial> {
        let mut trials: Vec<&Trial> = self.trials.values().collect();
        let Some(objective) = &self.objective else { return trials };
        trials.sort_by(|a, b| match (a.value, b.value) {
            (Some(x), Some(y)) if is_better(objective, x, y) => std::cmp::Ordering::Less,
            (Some(x), Some(y)) if is_better(objective, y, x) => std::cmp::Ordering::Greater,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            _ => a.number.cmp(&b.number),
        });
        trials
    }

    /// The number of trials by state.
    #[must_use]
    pub fn n_by_state(&self) -> BTreeMap<&'static str, usize> {
        let mut found = BTreeMap::new();
        for trial in self.trials.values() {
            *found.entry(trial.state.as_str()).or_default() += 1;
        }
        found
    }
}
