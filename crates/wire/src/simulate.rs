//! Simulation of possible changes to the cluster.

use gpool_model::{Millis, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::check;
use crate::time::Time;

/// A request for a simulation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"if": ["project red guaranteed=8", "drain n3"], "for": "2h"}))]
pub struct SimulateAsk {
    /// Supposed changes as text, applied in order. Empty to simulate the current state.
    #[serde(rename = "if", skip_serializing_if = "Vec::is_empty")]
    pub supposed: Vec<String>,
    /// Simulated time span. Without it, the simulation covers the current cycle only.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Quantity>,
    /// Also runs the jobs of this past time span once more, such as `7d`: those that were submitted
    /// within it and have ended. Changes can then add and drain nodes, and edit projects and the
    /// policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past: Option<Quantity>,
}

impl SimulateAsk {
    /// Returns the simulated time span, if set.
    ///
    /// # Errors
    /// If the text is no time span, or longer than two days.
    pub fn horizon(&self) -> Result<Option<Millis>, Refusal> {
        let Some(written) = &self.horizon else { return Ok(None) };
        let horizon = check::span("for", written)?;
        if horizon.is_zero() || horizon > Self::HORIZON_MAX {
            return Err(check::invalid(
                "for",
                "a simulation covers at most 48h; write, for example, 2h",
            ));
        }
        Ok(Some(horizon))
    }

    /// Returns the past time span, if set.
    ///
    /// # Errors
    /// If the text is no time span, or longer than 90 days.
    pub fn window(&self) -> Result<Option<Millis>, Refusal> {
        let Some(written) = &self.past else { return Ok(None) };
        let window = check::span("past", written)?;
        if window.is_zero() || window > Self::WINDOW_MAX {
            return Err(check::invalid("past", "it is at most 90d; write, for example, 7d"));
        }
        Ok(Some(window))
    }

    const HORIZON_MAX: Millis = Millis::from_hours(48);
    const WINDOW_MAX: Millis = Millis::from_hours(90 * 24);
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Simulation {
    /// Start time of the simulation.
    pub as_of: Time,
    /// End time of the simulation. `null` if it covers the current cycle only.
    pub until: Option<Time>,
    /// Supposed changes, as in the request.
    #[serde(rename = "if")]
    pub supposed: Vec<String>,
    /// Affected jobs. Without supposed changes: jobs that start, wait, or lose their devices.
    /// Otherwise: jobs with a changed outcome.
    pub jobs: Vec<SimulatedJob>,
    /// Total number of affected jobs. `jobs` may contain fewer.
    pub n_touched: u64,
    /// All projects, each department before its children.
    pub projects: Vec<SimulatedProject>,
    /// Number of waiting jobs after those that the simulation considers.
    pub n_beyond: u64,
    /// Figures of the present queue. Absent without a simulated time span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<SimulatedCourse>,
    /// Figures of past jobs that ran once more. Absent without a past time span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<SimulatedCourse>,
}

/// Figures of a time span, without and with the supposed changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedCourse {
    /// Start of the time span.
    pub since: Time,
    /// End of the time span.
    pub until: Time,
    /// Number of jobs.
    pub n_jobs: u64,
    /// Without the changes.
    pub before: SimulatedFigures,
    /// With the changes. `null` if nothing is supposed.
    pub after: Option<SimulatedFigures>,
    /// The same jobs with and without the changes. `null` if nothing is supposed.
    pub paired: Option<SimulatedPairs>,
    /// Why the figures may not be reliable.
    pub warnings: Vec<String>,
}

/// Waiting times and utilization.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedFigures {
    /// Number of usable GPUs.
    pub n_gpus: u64,
    /// Median wait in seconds: from now, or from the submission of past jobs. `null` if it is
    /// beyond the end, or if there is no job.
    pub wait_p50_s: Option<f64>,
    /// 90th percentile of the wait in seconds, in the same way.
    pub wait_p90_s: Option<f64>,
    /// Number of jobs that have not started at the end.
    pub n_waiting: u64,
    /// Allocated part of the GPUs, 0 to 1. `null` without GPUs or time.
    pub utilization: Option<f64>,
    /// Number of preemptions.
    pub n_preempted: u64,
}

/// Differences of the waits of the same jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedPairs {
    /// Number of jobs.
    pub n_jobs: u64,
    /// Number of jobs that start sooner with the changes, by more than a minute.
    pub n_sooner: u64,
    /// Number of jobs that start later.
    pub n_later: u64,
    /// Mean difference in seconds; negative if jobs wait less with the changes.
    pub mean_s: f64,
    /// The 95 % confidence interval of the mean difference, in seconds. `null` for the present
    /// queue, and for past jobs of less than two days.
    pub interval_s: Option<[f64; 2]>,
}

/// A job that the simulation affects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedJob {
    /// ID of the job. A job that does not exist yet has its future ID.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// User that owns the job.
    pub user: String,
    /// Project that is charged.
    pub project: String,
    /// GPU request as the user wrote it.
    pub gpus: String,
    /// Outcome: `starts`, `sooner`, `later`, `waits`, `taken_back`, `stopped`, `kept`, `ends`,
    /// `held`.
    pub what: String,
    /// Outcome without the supposed changes. `null` for a job that does not exist yet.
    pub before: Option<SimulatedFate>,
    /// Outcome with the supposed changes.
    pub after: SimulatedFate,
    /// Why the job then waits, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedFate {
    /// `runs`, `starts`, `taken_back`, `stopped`, `waits`, `ends` or `held`.
    pub is: String,
    /// Time of the outcome.
    pub at: Option<Time>,
}

/// A project before and after the supposed changes; amounts in GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedProject {
    /// Name of the project.
    pub project: String,
    /// Without the supposed changes.
    pub before: SimulatedShare,
    /// With the supposed changes.
    pub after: SimulatedShare,
}

/// Quota and usage of a project in GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedShare {
    /// Guaranteed GPUs, limited by the capacity. `null` for all.
    pub guaranteed: Option<f64>,
    /// Fair share. `null` if projects share no capacity.
    pub share: Option<f64>,
    /// Allocated GPUs.
    pub held: f64,
}
