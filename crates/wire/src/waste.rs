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
    /// Requests that would have been enough; for ended jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// IDs of waiting jobs that would start now if it freed its GPUs, by a simulation. Absent if
    /// none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sooner: Option<Vec<String>>,
}

impl WasteRow {
    /// The row of a job with this mean utilization.
    #[must_use]
    pub fn new(job: Job, gpu_utilization: f64, now: Time) -> Self {
        let Report { job, gpu_hours, hints, .. } = Report::new(job, now);
        let idle_gpu_hours = gpu_hours * (1.0 - gpu_utilization);
        Self { job, gpu_hours, gpu_utilization, idle_gpu_hours, hints, sooner: None }
    }
}
