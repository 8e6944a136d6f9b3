//! GPU time over a range: allocated, busy, useful, and waited for.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::time::Time;

/// Query parameters of GPU time.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageParams {
    /// Properties that split the time, separated by commas: project, user, model, kind, node,
    /// pool, job.
    #[serde(default)]
    pub by: Option<String>,
    /// Only the time with these properties, separated by commas: `kind=train,user=ana`.
    #[serde(default)]
    pub only: Option<String>,
    /// Start of the range, to the hour; a week before the end by default.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub since: Option<Time>,
    /// End of the range, to the hour; now by default.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub until: Option<Time>,
    /// Length of a row: hour or day; one row for the whole range by default.
    #[serde(default)]
    pub step: Option<String>,
    /// Largest number of groups, most GPU time first; the others are one sum. By default 1000.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// GPU time of one group, in hours of one GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Start of the row.
    pub start: Time,
    /// The project, if the time is split by it; empty for processes that gpool did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The user, if the time is split by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The GPU model, if the time is split by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The kind of job, if the time is split by it; `unmanaged` for processes that gpool did not
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The node, if the time is split by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The pool, if the time is split by it; empty for waiting jobs that request none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The job or array element, if the time is split by it; empty for waiting jobs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Whether this is the sum of all groups beyond the limit; it has no names.
    #[serde(default)]
    pub is_rest: bool,
    /// Whether this is the time of processes that gpool did not start: a row of its own for each
    /// system user, if the time is split by user.
    #[serde(default)]
    pub is_outside: bool,
    /// Allocated time.
    pub gpu_hours: f64,
    /// The part of the allocated time for which the driver reported utilization.
    pub measured_gpu_hours: f64,
    /// Time with running kernels; `null` if it was not measured.
    pub busy_gpu_hours: Option<f64>,
    /// Time of useful work, the part of the multiprocessors that worked; `null` if the driver does
    /// not report it. NVIDIA's does from Hopper on, for whole GPUs.
    pub useful_gpu_hours: Option<f64>,
    /// Requested GPUs times the time that jobs waited for capacity.
    #[serde(default)]
    pub waited_gpu_hours: f64,
    /// Guaranteed GPUs times the time of the guarantee, if the time is split by nothing else than
    /// the project; `null` without a guarantee, with one of all GPUs, and before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_gpu_hours: Option<f64>,
    /// Energy in kilowatt-hours; `null` if it was not measured.
    #[serde(default)]
    pub energy_kwh: Option<f64>,
}

impl UsageRow {
    /// The names of the group, in this order: project, user, model, kind, node, pool, job.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let Self { project, user, model, kind, node, pool, job, .. } = self;
        let all = [project, user, model, kind, node, pool, job];
        all.into_iter().filter_map(Option::as_deref)
    }

    /// The names of the group in one text, with a note if it is outside gpool; `empty` replaces
    /// empty names.
    #[must_use]
    pub fn group(&self, empty: &str) -> String {
        let names = self.names().map(|name| if name.is_empty() { empty } else { name });
        let names = names.collect::<Vec<_>>().join(" ");
        // The kind says it already.
        let is_marked = self.is_outside && self.kind.is_none();
        if is_marked { format!("{names} (outside gpool)") } else { names }
    }

    /// Allocated time without running kernels, where that was measured.
    #[must_use]
    pub fn idle_gpu_hours(&self) -> Option<f64> {
        self.busy_gpu_hours.map(|busy| (self.measured_gpu_hours - busy).max(0.0))
    }
}

/// Query parameters of the utilization of devices.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GpuHistoryParams {
    /// Start; a day before the end by default, or the start of the job.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub since: Option<Time>,
    /// End; now by default, or the end of the job.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub until: Option<Time>,
    /// Largest number of points, 1 to 2000; 120 by default.
    #[serde(default)]
    pub points: Option<u32>,
    /// UUIDs of devices, separated by commas; all by default.
    #[serde(default)]
    pub gpus: Option<String>,
    /// A job or array element: only its whole devices, and only values of the time in which it had
    /// them.
    #[serde(default)]
    pub job: Option<String>,
    /// Series, separated by commas: utilization, allocated, memory_used, power; by default the
    /// first two.
    #[serde(default)]
    pub series: Option<String>,
}

/// The utilization of all devices over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuHistory {
    /// Time of the first point.
    pub start: Time,
    /// Seconds between two points.
    pub step_s: u64,
    /// The devices, by node and index.
    pub gpus: Vec<GpuPoints>,
}

/// The utilization of one device. Each list has one value for each point, `null` where nothing was
/// measured. Lists of other series than the requested ones are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuPoints {
    /// Node.
    pub node: String,
    /// Index on its node.
    pub index: u32,
    /// UUID.
    pub uuid: String,
    /// Means of the utilization, 0 to 1.
    pub utilization: Vec<Option<f64>>,
    /// Means of the allocated part of the device, 0 to 1.
    pub allocated: Vec<Option<f64>>,
    /// Means of the used memory in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_used: Vec<Option<f64>>,
    /// Means of the power in watts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<Option<f64>>,
}

/// Query parameters of GPUs over time.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageHistoryParams {
    /// Start; a day before the end by default.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub since: Option<Time>,
    /// End; now by default.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub until: Option<Time>,
    /// Largest number of points, 1 to 2000; 120 by default. They are at least a minute apart.
    #[serde(default)]
    pub points: Option<u32>,
}

/// GPUs of the cluster and of projects over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageHistory {
    /// Time of the first point.
    pub start: Time,
    /// Seconds between two points.
    pub step_s: u64,
    /// The cluster; its guaranteed GPUs are all.
    pub cluster: UsagePoints,
    /// The projects, by name.
    pub projects: Vec<UsagePoints>,
}

/// GPUs over time. Each list has one value for each point, `null` where nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsagePoints {
    /// The project; absent for the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Allocated GPUs.
    pub allocated: Vec<Option<f64>>,
    /// GPUs with running kernels.
    pub busy: Vec<Option<f64>>,
    /// GPUs that waiting jobs requested.
    pub waiting: Vec<Option<f64>>,
    /// Guaranteed GPUs; `null` without a guarantee, and with one of all GPUs.
    pub guaranteed: Vec<Option<f64>>,
}
