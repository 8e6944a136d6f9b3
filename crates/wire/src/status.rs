//! The server and its cluster in one page.

use std::collections::BTreeMap;

use gpool_model::policy::{DeviceStrategy, Policy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::notify::NotifyCounts;
use crate::reservation::Reservation;
use crate::schema;
use crate::time::Time;

/// What answers, and of which version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// `gpool`.
    pub name: String,
    /// Of the server.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
}

/// The server and its cluster in one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Of the server.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
    /// The user whose server it is.
    pub user: String,
    /// The socket it answers on.
    pub socket: String,
    /// Where it keeps what it must not forget.
    pub state_dir: String,
    /// Grows with each start.
    pub term: u64,
    /// Of the last durable commit.
    pub revision: u64,
    /// When this server started.
    pub started_at: Time,
    /// Seconds since then.
    pub uptime_s: u64,
    /// Jobs that have not ended, by state; a state without jobs is absent.
    pub jobs: BTreeMap<String, u64>,
    /// Jobs that have ended and are kept.
    pub jobs_ended: u64,
    /// Devices by state; a state without devices is absent.
    pub gpus: BTreeMap<String, u64>,
    /// Nodes.
    pub nodes: u64,
    /// Nodes whose agent answers.
    pub nodes_connected: u64,
    /// How it decides.
    pub policy: PolicyInfo,
    /// Why nothing can be stored just now, such as a full disk: then nothing new is taken, what
    /// runs goes on, and the server tries again every second.
    pub store_fault: Option<String>,
    /// The jobs that can't run because their environment or script is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    /// Messages about jobs.
    #[serde(default)]
    pub notifications: NotifyCounts,
    /// Whether mail can be sent: the server's machine has a sendmail.
    #[serde(default)]
    pub mail: bool,
    /// Reservations and maintenance windows that are not over, by when they hold next.
    #[serde(default)]
    pub reservations: Vec<Reservation>,
}

/// How the scheduler decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyInfo {
    /// The preset it started from.
    pub preset: String,
    /// Order of jobs, compared left to right.
    pub order: Vec<String>,
    /// After how many seconds of waiting a job goes first.
    pub escalate_after_s: u64,
    /// Which whole devices are given out first.
    #[schema(schema_with = schema::device_strategy)]
    pub device_strategy: DeviceStrategy,
    /// Highest priority that users may ask for.
    pub user_priority_max: i32,
    /// Every setting by key, as a change takes it.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Of a change that was only tried: jobs that would start otherwise, those that start later
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartChange>,
}

/// A job that would start at another time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartChange {
    /// Which.
    pub job: String,
    /// Whose it is.
    pub user: String,
    /// As likely earlier as later, as it is; `null` if not within what is looked at.
    pub before: Option<Time>,
    /// The same with the change.
    pub after: Option<Time>,
}

impl From<&Policy> for PolicyInfo {
    fn from(policy: &Policy) -> Self {
        Self {
            preset: policy.preset.clone(),
            order: policy.order.iter().map(|key| key.as_str().to_owned()).collect(),
            escalate_after_s: policy.escalate_after.get() / 1000,
            device_strategy: policy.device_strategy,
            user_priority_max: policy.user_priority_max,
            settings: policy.all_settings(),
            starts: Vec::new(),
        }
    }
}
