//! Why a job waits, as one document; and what would become of one that is not submitted yet.

use gpool_model::device::DeviceState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Job, PlacedOn};
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
    /// What keeps it, the strongest first; empty for a job that does not wait.
    pub reasons: Vec<Reason>,
    /// What each node has that it could use.
    pub nodes: Vec<WhyNode>,
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
    /// Of those, how many it could use now.
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
}

impl From<&gpool_model::command::SubmitForecast> for Forecast {
    fn from(forecast: &gpool_model::command::SubmitForecast) -> Self {
        let placed =
            |placement: &gpool_model::Placement| PlacedOn::new(&placement.node, &placement.slots);
        Self {
            starts: !forecast.placements.is_empty(),
            placement: forecast.placements.iter().map(placed).collect(),
            reasons: forecast.reasons.iter().map(|reason| Reason::new(reason, true)).collect(),
        }
    }
}
