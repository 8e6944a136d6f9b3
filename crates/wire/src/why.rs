//! Why a job waits, as one document; and what would become of one that is not submitted yet.

use gpool_model::device::DeviceState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::eta::Eta;
use crate::job::{Job, PlacedOn, is_zero};
use crate::life::JobEvent;
use crate::reason::Reason;
use crate::schema;
use crate::time::Time;

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The job.
    pub job: Job,
    /// When this was worked out.
    pub as_of: Time,
    /// What keeps it, the strongest first; empty for a job that does not wait. At most 100 of
    /// those that keep it for themselves.
    pub reasons: Vec<Reason>,
    /// How many jobs it waits for beyond those that are among the reasons.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_more_reasons: u64,
    /// What each node has that it could use.
    pub nodes: Vec<WhyNode>,
    /// When it will likely start; `null` where nothing that is known lets it start.
    pub eta: Option<Eta>,
    /// Why there is no such estimate, where there could be one.
    pub eta_missing: Option<String>,
    /// Whose ends its start waits for, by that estimate.
    #[serde(default)]
    pub frees: Vec<Frees>,
    /// Where it stands among the jobs that wait for room; `null` for one that does not.
    pub place: Option<Place>,
    /// What would let it start sooner, the most useful first, then what would not.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// What has happened to it and was decided about it so far.
    #[serde(default)]
    pub life: Vec<JobEvent>,
}

impl Why {
    /// Of a job about which nothing more is to be said.
    #[must_use]
    pub fn of(job: Job, as_of: Time) -> Self {
        Self {
            job,
            as_of,
            reasons: Vec::new(),
            n_more_reasons: 0,
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

/// A job whose end lets another one start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Frees {
    /// Which.
    pub job: String,
    /// Whose it is.
    pub user: String,
    /// Devices that it leaves to the other one.
    pub n_gpus: u32,
    /// When it hardly ends earlier.
    pub p10: Option<Time>,
    /// When it hardly ends later.
    pub p90: Option<Time>,
    /// What that is taken from.
    pub because: String,
}

/// Where a job stands in the order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// Jobs that go before it.
    pub n_ahead: u64,
    /// Jobs that wait for the same room, this one among them: jobs that can only use other devices
    /// do not count.
    pub n_pending: u64,
    /// The last few that go before it, the nearest last.
    pub ahead: Vec<Ahead>,
}

/// A job that is considered before another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ahead {
    /// Which.
    pub job: String,
    /// Whose it is.
    pub user: String,
    /// The GPUs that it asks for, as written.
    pub gpus: String,
    /// Higher goes first.
    pub priority: i32,
}

/// One thing that could be otherwise, and what would come of it: the planner was run with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alternative {
    /// What, as a stable word: `gpus`, `time_limit`, `cpus`, `memory`, `release`, `resume`,
    /// `priority`, `without_dependency`, `without_begin`, `without_deadline`, `without_cap`,
    /// `without_reservation`, `ended`, `device_usable`, `node_back`.
    pub change: String,
    /// How to ask for it, or what to do.
    pub flags: String,
    /// For people.
    pub text: String,
    /// When the job would likely start then.
    pub eta: Option<Eta>,
    /// Seconds by which its middle comes sooner; `null` where it had none without the change.
    pub gain_s: Option<f64>,
    /// Whether it helps at all.
    pub helps: bool,
}

/// A job that another one would delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delayed {
    /// Which.
    pub job: String,
    /// Whose it is.
    pub user: String,
    /// Seconds by which its middle comes later.
    pub by_s: f64,
}

/// What one node has for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyNode {
    /// Which node.
    pub name: String,
    /// Whether its agent answers.
    pub connected: bool,
    /// Devices that answer to the request, in whatever state.
    pub n_matching: u32,
    /// Of those, how many are free, and not reserved for others.
    pub n_free: u32,
    /// All its devices, in index order.
    pub devices: Vec<WhyDevice>,
}

/// One device as a waiting job sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyDevice {
    /// The driver's index.
    pub index: u32,
    /// Short name of the model.
    pub model: String,
    /// In one word.
    #[schema(schema_with = schema::device_state)]
    pub state: DeviceState,
    /// Whether it answers to the request.
    pub matches: bool,
    /// The job that has it.
    pub job: Option<String>,
    /// The user of that job, or of the process that gpool did not start.
    pub user: Option<String>,
    /// When that job will likely have ended.
    pub until: Option<Time>,
    /// What that is taken from: `limit`, `predicted`, `elapsed` or `stopping`.
    pub until_by: Option<String>,
    /// What keeps the device from the job although no other job needs to have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<WhyReserved>,
}

/// Why a job may not have a device: it is reserved for others, under maintenance, or not reserved
/// for the job where only reserved devices are given out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct WhyReserved {
    /// The reservation or maintenance window; `null` where only reserved devices are given out and
    /// this one is not reserved for the job.
    pub by: Option<String>,
    /// Whether it is a maintenance window.
    pub maintenance: bool,
    /// When it begins.
    pub from: Option<Time>,
    /// When it ends; `null` if it lasts until it is cancelled.
    pub until: Option<Time>,
}

/// What would become of a job if it were submitted now. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// Whether it would start at once.
    pub starts: bool,
    /// Where; empty if it would wait.
    pub placement: Vec<PlacedOn>,
    /// Why it would wait; empty if it would start.
    pub reasons: Vec<Reason>,
    /// How many jobs it would wait for beyond those that are among the reasons.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_more_reasons: u64,
    /// When it would likely start.
    pub eta: Option<Eta>,
    /// Jobs that would likely start more than a minute later because of it, the worst first.
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
