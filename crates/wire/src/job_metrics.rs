//! A job over time: its use of GPUs and hosts, and the metrics that it reports about its own work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::time::Time;

/// Query parameters of a job over time.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobMetricsParams {
    /// Start; that of the job by default.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub since: Option<Time>,
    /// End; that of the job, or now, by default.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub until: Option<Time>,
    /// Largest number of points, 1 to 2000; 120 by default. Within the last hour they can be
    /// closer than a minute; metrics have then each value.
    #[serde(default)]
    pub points: Option<u32>,
}

/// A job over time. Each list has one value for each point, `null` where nothing was measured. The
/// use of GPUs and hosts is recorded for each minute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobMetrics {
    /// Time of the first point.
    pub start: Time,
    /// Seconds between two points.
    pub step_s: u64,
    /// Means of the utilization of its GPUs, 0 to 1.
    pub gpu_utilization: Vec<Option<f64>>,
    /// Means of its GPU memory in bytes.
    pub gpu_memory: Vec<Option<f64>>,
    /// Means of the CPU cores in use.
    pub cpu: Vec<Option<f64>>,
    /// Means of its host memory in bytes, with cached files.
    pub memory: Vec<Option<f64>>,
    /// Means of the bytes read from block devices in a second.
    pub read: Vec<Option<f64>>,
    /// Means of the bytes written to block devices in a second.
    pub written: Vec<Option<f64>>,
    /// The metrics that the job reports, by name. Hidden from other users.
    pub metrics: Vec<JobMetric>,
}

/// A metric that a job reports about its own work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobMetric {
    /// Its name.
    pub name: String,
    /// Its last value, to six digits.
    pub last: Option<f64>,
    /// Its values, to six digits: the mean of the last values of each minute.
    pub points: Vec<Option<f64>>,
}

/// The last values of the metrics that an element of an array reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementMetrics {
    /// The element: `17.3`.
    pub id: String,
    /// Last values, to six digits, by name.
    pub metrics: BTreeMap<String, f64>,
}

/// A value of a metric with six digits, as it is stored.
#[must_use]
pub fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A value of a metric for people.
#[must_use]
pub fn figure(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-4..1e7).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

impl JobMetrics {
    /// Whether anything was measured of the job's hosts, or reported by the job.
    #[must_use]
    pub fn has_more_than_gpus(&self) -> bool {
        let of_hosts = [&self.cpu, &self.memory, &self.read, &self.written];
        of_hosts.iter().any(|it| it.iter().any(Option::is_some)) || !self.metrics.is_empty()
    }
}
