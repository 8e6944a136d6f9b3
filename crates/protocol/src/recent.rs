//! Values over time that an agent keeps in full: the last hour of its devices, and of the metrics
//! that jobs report about their own work.

use gpool_model::id::TaskId;
use gpool_model::unit::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// How long an agent keeps values in full. After that there are means of minutes.
pub const RECENT: Millis = Millis::from_hours(1);
/// Metrics that a job can have.
pub const METRICS_MAX: usize = 32;

/// A device at one time; a value that was not measured is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DevicePoint {
    pub at: Timestamp,
    /// Part of the time with a running kernel, 0 to 1.
    pub utilization: Option<f64>,
    /// Used memory in bytes.
    pub memory_used: Option<f64>,
    /// Power in watts.
    pub power: Option<f64>,
}

/// The values of one metric of a task, oldest first, at most one for each second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskMetric {
    pub task: TaskId,
    pub name: String,
    pub points: Vec<(Timestamp, f64)>,
}
