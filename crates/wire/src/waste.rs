//! Jobs by the GPU time that they hold and do not use.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::hint::Hint;
use crate::job::Job;
use crate::report::Report;
use crate::time::Time;

/// Query parameters of the list of waste.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WasteParams {
    /// Ended jobs count if they ended later; a week ago by default. Running jobs always count.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub since: Option<Time>,
    /// Largest number of jobs; 20 by default.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Whether to simulate which jobs would start now if a running job freed its GPUs; for admins.
    #[serde(default)]
    pub sooner: Option<bool>,
}

/// A job with GPU time that it held and did not use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WasteRow {
    /// The job.
    pub job: Job,
    /// GPUs times hours that it held.
    pub gpu_hours: f64,
    /// Average fraction of the time with running kernels, 0 to 1.
    pub gpu_utilization: f64,
    /// GPU-hours without running kernels.
    pub idle_gpu_hours: f64,
    /// When its GPUs were idle. `null` if only the sum is known, as for arrays.
    #[serde(default)]
    pub idle_parts: Option<IdleParts>,
    /// Requests that would have been enough; for ended jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// IDs of waiting jobs that would start now if it freed its GPUs, by a simulation. Absent if
    /// none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sooner: Option<Vec<String>>,
}

/// Idle GPU-hours of a job by time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct IdleParts {
    /// Before its first kernel.
    pub start: f64,
    /// Between its kernels.
    pub between: f64,
    /// After its last kernel, until it ended by itself.
    pub tail: f64,
    /// After its last kernel, if it did not end by itself, or still runs after half an hour.
    pub dead: f64,
}

impl IdleParts {
    /// Each part with its name.
    #[must_use]
    pub fn named(self) -> [(&'static str, f64); 4] {
        let Self { start, between, tail, dead } = self;
        [("start", start), ("between", between), ("tail", tail), ("dead", dead)]
    }

    /// The name of the largest part.
    #[must_use]
    pub fn largest(self) -> &'static str {
        let largest = self.named().into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        largest.map_or("", |(name, _)| name)
    }
}

impl WasteRow {
    /// The row of a job with this mean utilization.
    #[must_use]
    pub fn new(job: Job, gpu_utilization: f64, now: Time) -> Self {
        let Report { job, gpu_hours, hints, .. } = Report::new(job, now);
        let idle_gpu_hours = gpu_hours * (1.0 - gpu_utilization);
        let (idle_parts, sooner) = (None, None);
        Self { job, gpu_hours, gpu_utilization, idle_gpu_hours, idle_parts, hints, sooner }
    }
}
