//! What the driver of a sweep reads: a job without GPU that chooses each trial by the results of
//! others. It is in Python, for Optuna.

use gpool_wire::JobCreate;
use serde::Serialize;

use crate::parameter::{Parameter, n_combinations};
use crate::sweep::{EarlyStop, Sweep};

/// The variable that has the [`Plan`] of a driver as JSON. gpool itself sets all variables of jobs
/// that begin with `GPOOL_`.
pub const VARIABLE: &str = "_GPOOL_SWEEP";
/// The largest plan in bytes: what Linux accepts as one variable.
pub const BYTES_MAX: usize = 120_000;
/// The module that the driver runs.
pub const MODULE: &str = "gpool.sweep";

/// The whole sweep for its driver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Name of the sweep, which is the group of its jobs.
    pub study: String,
    /// How the next trial is chosen: `grid`, `random` or `bayes`.
    pub method: &'static str,
    /// The metric that trials report.
    pub metric: String,
    /// `min`, `max`, or the number to come close to.
    pub goal: String,
    /// The most trials.
    pub n_trials: u32,
    /// The most trials that have not ended.
    pub n_parallel: u32,
    /// The seed of random choices.
    pub seed: u64,
    /// Which trials end early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<EarlyStop>,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
    /// The request of a trial, without values and environment.
    pub job: JobCreate,
}

impl Sweep {
    /// Returns the plan of its driver. `None` means that it has no objective.
    #[must_use]
    pub fn plan(&self, study: &str, n_parallel: u32, seed: u64, job: JobCreate) -> Option<Plan> {
        let objective = self.objective.as_ref()?;
        let n_all = || n_combinations(&self.parameters).ok();
        let n_trials = self.n_trials.or_else(|| u32::try_from(n_all()?).ok())?;
        Some(Plan {
            study: study.to_owned(),
            method: self.method().as_str(),
            metric: objective.metric.clone(),
            goal: objective.goal.to_string(),
            n_trials,
            n_parallel,
            seed,
            early_stop: self.early_stop,
            parameters: self.parameters.clone(),
            job,
        })
    }
}
