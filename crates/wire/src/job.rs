//! Jobs in the API.

use std::collections::BTreeMap;

use gpool_model::Bytes;
use gpool_model::job::{GpuUsage, JobState};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::array::{ArrayElement, ArrayStatus};
use crate::cost::Cost;
use crate::course::Attempted;
use crate::create::JobCreate;
use crate::eta::Eta;
use crate::field::field;
use crate::gang::GangStatus;
use crate::gpu::xid::JobXid;
use crate::group::GroupStatus;
use crate::hint::Hint;
use crate::live_usage::LiveUsage;
use crate::log::LogFiles;
pub use crate::placed::PlacedOn;
use crate::reason::Reason;
use crate::time::{Time, seconds};

/// Replaces fields that the caller may not see.
pub const PRIVATE: &str = "(private)";

/// A job. Only the owner and admins see name, command, directory, note and paths.
///
/// The groups `request`, `run`, `wait`, `forecast` and `usage` are always there. An absent field
/// and `null` mean the same: the value is unset, or hidden from the caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// ID of the job: `1842`, or `1842.3` for an array element.
    pub id: String,
    /// Name of the job.
    pub name: String,
    /// User that owns the job.
    pub user: String,
    /// Project that is charged.
    pub project: String,
    /// State of the job.
    #[schema(schema_with = crate::schema::job_state)]
    pub state: JobState,
    /// Time of submission.
    pub submitted_at: Time,
    /// Version of the job: grows with each change by a user. `If-Match` compares it.
    pub version: u64,
    /// Whether name, command, directory, note and paths are hidden from the caller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// The request in the form of `POST /jobs`, with defaults and all later changes. Name and
    /// project are above. Amounts are numbers in the API's unit. Environment variables, scripts and
    /// the paths in addresses of notifications are never shown.
    #[serde(default, deserialize_with = "known_fields")]
    #[schema(required)]
    pub request: JobCreate,
    /// Nodes and devices of the job's tasks. Empty before the start.
    #[serde(default)]
    #[schema(required)]
    pub placement: Vec<PlacedOn>,
    /// Times and results of its attempts.
    #[serde(default)]
    #[schema(required)]
    pub run: JobRun,
    /// Waiting time and reasons.
    #[serde(default)]
    #[schema(required)]
    pub wait: JobWait,
    /// Expected start and run time.
    #[serde(default)]
    #[schema(required)]
    pub forecast: JobForecast,
    /// GPU time, resource usage and cost.
    #[serde(default)]
    #[schema(required)]
    pub usage: JobUsage,
    /// The elements of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayStatus>,
    /// The values of an array element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<ArrayElement>,
    /// In lists with `fold_groups`: the group of jobs that this row stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupStatus>,
    /// The tasks of a job with several tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangStatus>,
    /// ID of the elastic job that this job extends by one node while both run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<String>,
    /// ID of the ended job that this job retries, completely or in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// ID of the setup job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_job: Option<String>,
    /// Differences between the request and the allocation, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Suggestions for the next request, from earlier runs of the user's jobs. Only in the answer
    /// to a submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
}

impl Job {
    /// The group that the row stands for, if that has several jobs that have not ended.
    #[must_use]
    pub fn folded_group(&self) -> Option<&GroupStatus> {
        self.group.as_ref().filter(|group| group.n_jobs > 1)
    }

    /// The state of what the row stands for: a group runs if any of its jobs does.
    #[must_use]
    pub fn row_state(&self) -> JobState {
        let running = JobState::Running;
        match self.folded_group() {
            Some(group) if group.n_by_state.contains_key(running.as_str()) => running,
            _ => self.state,
        }
    }

    /// How to refer to what the row stands for: `17`, or `group:tuning`.
    #[must_use]
    pub fn reference(&self) -> String {
        match self.folded_group() {
            Some(group) if group.name != PRIVATE => format!("group:{}", group.name),
            _ => self.id.clone(),
        }
    }
}

/// Times and results of a job: of its current or last attempt, and a list of earlier attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRun {
    /// Number of the current or next attempt, from 1.
    pub attempt: u32,
    /// Time at which the job started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Time at which the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Time at which the job was paused, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Time>,
    /// Whether the paused job has freed its GPUs. Absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub freed: bool,
    /// Why gpool has stopped the running job for a moment: for example, until GPU memory is free
    /// on its node. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// Time since which the running job has not used its GPUs, if it counts as idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Time>,
    /// Why the pool's policy to release the GPUs of idle jobs could not be applied to the idle job.
    /// Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_released: Option<String>,
    /// Exit code, or 128 + the number of the signal that ended the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Cause of the end: `oom`, `time_limit`, `deadline`, `cancelled`, `launch_failed`,
    /// `dependency_failed`, `rebooted`, `shepherd_lost`, `gpu_memory_lost`, `loan_called_back`,
    /// `output_cut`, `vanished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Cause of the end as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause_text: Option<String>,
    /// Xids, the driver's error reports, of its GPUs while it had them, in all attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<JobXid>,
    /// Ended steps: what each `srun` in the job ran. Empty before the job has ended. Hidden from
    /// other users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<JobStep>,
    /// Number of retries so far.
    #[serde(default)]
    #[schema(required)]
    pub n_retries: u32,
    /// Earlier attempts, the last 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempted>,
    /// Files with the job's output. Only in the answer for a single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogFiles>,
    /// Time until which gpool keeps the output. Absent in lists, and if output is kept forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_kept_until: Option<Time>,
    /// Whether the ended job can run again: its environment and script are still stored. Absent in
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub can_retry: Option<bool>,
    /// Time until which they are stored at least. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_until: Option<Time>,
}

/// Why a job waits, and how long it has waited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobWait {
    /// Waiting time so far, or until the start, in seconds.
    pub waited_s: f64,
    /// Why the job waits, at most 8 reasons. Empty if it does not wait. `why` returns more.
    #[serde(default)]
    #[schema(required)]
    pub reasons: Vec<Reason>,
    /// Number of further reasons: dependencies that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_more_reasons: u64,
    /// Holder of the job: `user`, `admin`, `scheduler` or `budget`; `idle` while its GPUs are
    /// released and it does not need them. Only an admin can start a job that an admin holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// Name of the admin that holds the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_admin: Option<String>,
    /// Time at which the server releases the held job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_at: Option<Time>,
}

/// Expected times of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobForecast {
    /// Forecast start from the last forecast. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<Eta>,
    /// Expected run time by the run times of jobs like it, in seconds: from now for a running job,
    /// from its start for a waiting one with a forecast. Absent without such runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_run_s: Option<f64>,
}

/// GPU time, resource usage and cost of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobUsage {
    /// Allocated GPUs times hours; for an array, the sum over all runs of its elements.
    #[serde(default)]
    #[schema(required)]
    pub gpu_hours: f64,
    /// Resource usage. Absent before the job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Usage>,
    /// Usage of the running job so far. Only in the answer for a single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveUsage>,
    /// Last values of the metrics that the job reports, by name. Only in the answer for a single
    /// job. Hidden from other users.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Cost of all attempts; one entry for each currency. Empty if no prices are set. Only in the
    /// answer for a single job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<Cost>,
}

/// An ended step of a job: processes that one `srun` in it started. `srun` measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobStep {
    /// Its number, from 0 in starting order.
    pub number: u32,
    /// Its name: that of its program unless the user chose one.
    pub name: String,
    /// When it started.
    pub started_at: Time,
    /// When its last process ended.
    pub ended_at: Time,
    /// The highest exit code of its processes, as a shell reports it.
    pub exit_code: i32,
    /// Number of its processes.
    pub n_tasks: u32,
    /// The nodes that it ran on.
    pub nodes: Vec<String>,
    /// Resource usage of its processes.
    pub usage: Usage,
}

impl From<&gpool_model::job::StepEnd> for JobStep {
    fn from(step: &gpool_model::job::StepEnd) -> Self {
        Self {
            number: step.number,
            name: step.name.clone(),
            started_at: Time(step.started_at),
            ended_at: Time(step.ended_at),
            exit_code: step.exit_code,
            n_tasks: step.n_tasks,
            nodes: step.nodes.clone(),
            usage: step.usage.into(),
        }
    }
}

/// Resource usage of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// CPU time in user mode, in seconds.
    pub cpu_user_s: f64,
    /// CPU time in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// Peak memory of the largest process, in bytes.
    pub memory_peak: u64,
    /// Peak memory of all processes of a task together, with cached files, in bytes. Absent if the
    /// node's control groups do not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_together: Option<u64>,
    /// Bytes read from block devices. Absent if the node's control groups do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices. Absent if the node's control groups do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Peak memory on one GPU, in bytes. Absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_peak: Option<u64>,
    /// Memory that the job could have used on that GPU, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_limit: Option<u64>,
    /// Average fraction of the time with running kernels, 0 to 1, over the GPUs of the job; for a
    /// share of a GPU, only its own kernels. Absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_utilization: Option<f64>,
    /// Last value of the array's `metric` that the element reported, to six digits. Absent without
    /// one, and hidden from other users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
}

impl From<gpool_model::job::Usage> for Usage {
    fn from(usage: gpool_model::job::Usage) -> Self {
        let gpu = usage.gpu.filter(|gpu| !gpu.memory_peak.is_zero());
        Self {
            cpu_user_s: seconds(usage.cpu_user),
            cpu_system_s: seconds(usage.cpu_system),
            memory_peak: usage.memory_peak.get(),
            memory_peak_together: usage.memory_peak_together.map(Bytes::get),
            read_bytes: usage.read.map(Bytes::get),
            written_bytes: usage.written.map(Bytes::get),
            gpu_memory_peak: gpu.map(|gpu| gpu.memory_peak.get()),
            gpu_memory_limit: gpu.map(|gpu| gpu.memory_limit.get()),
            gpu_utilization: usage.gpu.and_then(utilization),
            objective: usage.objective.and_then(|value| value.to_string().parse().ok()),
        }
    }
}

/// The busy fraction of the measured time; `None` if nothing was measured.
fn utilization(gpu: GpuUsage) -> Option<f64> {
    let measured = seconds(gpu.measured);
    (measured > 0.0).then(|| seconds(gpu.busy) / measured)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Reads a request and skips fields that a newer server added.
fn known_fields<'de, D: Deserializer<'de>>(reader: D) -> Result<JobCreate, D::Error> {
    let mut values = serde_json::Map::deserialize(reader)?;
    values.retain(|key, _| field(key).is_some());
    serde_json::from_value(values.into()).map_err(serde::de::Error::custom)
}
