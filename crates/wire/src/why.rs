//! Explanations of why a job waits, and forecasts for jobs before submission.

use gpool_model::device::DeviceState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::eta::Eta;
use crate::job::{Job, PlacedOn, is_zero};
use crate::life::JobEvent;
use crate::reason::Reason;
use crate::time::Time;

/// The explanation of why a job waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The job.
    pub job: Job,
    /// Time at which the server computed the explanation.
    pub as_of: Time,
    /// Reasons why the job waits, most important first; at most 100 that block it on their own.
    /// Empty for a job that does not wait.
    pub reasons: Vec<Reason>,
    /// Number of further dependencies that the reasons do not contain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_more_reasons: u64,
    /// For a job that waits for capacity: GPUs that can't be used now, with the reason of each, if
    /// projects are guaranteed more GPUs than the others. For a running job: its nodes with an
    /// agent that does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Usable capacity on each node.
    pub nodes: Vec<WhyNode>,
    /// Forecast start. `null` if no known event lets the job start.
    pub eta: Option<Eta>,
    /// Why there is no forecast, if there could be one.
    pub eta_missing: Option<String>,
    /// Running jobs that must end before the forecast start.
    #[serde(default)]
    pub frees: Vec<Frees>,
    /// Position of the job in the queue. `null` if it does not wait for capacity.
    pub place: Option<Place>,
    /// Changes that would let the job start sooner, best first; then changes that would not.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// History of the job so far.
    #[serde(default)]
    pub life: Vec<JobEvent>,
}

impl Why {
    /// Returns the explanation of a job without reasons.
    #[must_use]
    pub fn of(job: Job, as_of: Time) -> Self {
        Self {
            job,
            as_of,
            reasons: Vec::new(),
            n_more_reasons: 0,
            lost: None,
            nodes: Vec::new(),
            eta: None,
            eta_missing: None,
            frees: Vec::new(),
            place: None,
            alternatives: Vec::new(),
            life: Vec::new(),
        }
    }
}

/// A running job that must end before another job can start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Frees {
    /// ID of the job.
    pub job: String,
    /// User that owns the job.
    pub user: String,
    /// Number of devices that it releases for the other job.
    pub n_gpus: u32,
    /// 10th percentile of its end time.
    pub p10: Option<Time>,
    /// 90th percentile of its end time.
    pub p90: Option<Time>,
    /// Source of the end time.
    pub because: String,
}

/// The position of a job in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// Number of jobs before it.
    pub n_ahead: u64,
    /// Number of jobs that wait for the same capacity, including this job. Jobs that can only use
    /// other devices do not count.
    pub n_pending: u64,
    /// The last few jobs before it, the nearest last.
    pub ahead: Vec<Ahead>,
}

/// A job before another job in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ahead {
    /// ID of the job.
    pub job: String,
    /// User that owns the job.
    pub user: String,
    /// GPU request as the user wrote it.
    pub gpus: String,
    /// Priority. Higher goes first.
    pub priority: i32,
}

/// A possible change, and its simulated effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alternative {
    /// Type of the change, a stable code: `gpus`, `time_limit`, `cpus`, `memory`, `release`,
    /// `resume`, `priority`, `without_dependency`, `without_begin`, `without_deadline`,
    /// `without_cap`, `without_reservation`, `ended`, `device_usable`, `node_back`.
    pub change: String,
    /// Flags to request the change, or the action to take.
    pub flags: String,
    /// Text of the change.
    pub text: String,
    /// Forecast start with the change.
    pub eta: Option<Eta>,
    /// Reduction of the median waiting time in seconds. `null` if there was no forecast without the
    /// change.
    pub gain_s: Option<f64>,
    /// Whether the change helps.
    pub helps: bool,
}

/// A job that another job would delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delayed {
    /// ID of the job.
    pub job: String,
    /// User that owns the job.
    pub user: String,
    /// Delay of the median start in seconds.
    pub by_s: f64,
}

/// The capacity of one node for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyNode {
    /// Name of the node.
    pub name: String,
    /// Whether the node's agent is connected.
    pub connected: bool,
    /// Number of devices that match the request, in any state.
    pub n_matching: u32,
    /// Number of these devices that are free, and not reserved for others.
    pub n_free: u32,
    /// All devices of the node, by index.
    pub devices: Vec<WhyDevice>,
}

/// A device, for a waiting job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyDevice {
    /// Index that the driver assigns.
    pub index: u32,
    /// Short name of the model.
    pub model: String,
    /// State of the device.
    #[schema(schema_with = crate::schema::device_state)]
    pub state: DeviceState,
    /// Whether the device matches the request.
    pub matches: bool,
    /// ID of the job that uses the device.
    pub job: Option<String>,
    /// User of that job, or of the process that gpool did not start.
    pub user: Option<String>,
    /// Predicted end time of that job.
    pub until: Option<Time>,
    /// Source of the end time: `limit`, `predicted`, `elapsed` or `stopping`.
    pub until_by: Option<String>,
    /// Why the job cannot use the device, other than another job's allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<WhyReserved>,
}

/// Why a job cannot use a device: it is reserved for others, under maintenance, or not reserved for
/// the job on a node that allocates only reserved devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct WhyReserved {
    /// Name of the reservation or maintenance window. `null` if only reserved devices are allocated
    /// and this one is not reserved for the job.
    pub by: Option<String>,
    /// Whether it is a maintenance window.
    pub maintenance: bool,
    /// Start time.
    pub from: Option<Time>,
    /// End time. `null` if it lasts until cancelled.
    pub until: Option<Time>,
}

/// The forecast for a job, without submitting it. Nothing changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// Whether the job would start at once.
    pub starts: bool,
    /// Placement of the job. Empty if it would wait.
    pub placement: Vec<PlacedOn>,
    /// Why the job would wait. Empty if it would start.
    pub reasons: Vec<Reason>,
    /// Number of further dependencies that the reasons do not contain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_more_reasons: u64,
    /// Forecast start.
    pub eta: Option<Eta>,
    /// Jobs that would start more than a minute later because of this job, longest delay first.
    #[serde(default)]
    pub delays: Vec<Delayed>,
}

impl From<&gpool_model::command::SubmitForecast> for Forecast {
    fn from(forecast: &gpool_model::command::SubmitForecast) -> Self {
        let placed =
            |placement: &gpool_model::Placement| PlacedOn::new(&placement.node, &placement.slots);
        Self {
            starts: !forecast.placements.is_empty(),
            placement: forecast.placements.iter().map(placed).collect(),
            reasons: forecast.reasons.iter().map(|reason| Reason::new(reason, true)).collect(),
            n_more_reasons: forecast.n_more_reasons,
            eta: None,
            delays: Vec::new(),
        }
    }
}
