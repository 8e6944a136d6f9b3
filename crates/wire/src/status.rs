//! Overview of the server and its cluster.

use std::collections::BTreeMap;

use gpool_model::policy::{DeviceStrategy, Policy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::notify::NotifyCounts;
use crate::reservation::Reservation;
use crate::time::Time;

/// Name and version of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// `gpool`.
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Process ID of the server.
    pub pid: u32,
}

/// A link that signs a user in to the dashboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Login {
    /// The link. It works once.
    pub url: String,
    /// How long it works, in seconds.
    pub expires_in_s: u64,
}

/// Overview of the server and its cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the server.
    pub version: String,
    /// Process ID of the server.
    pub pid: u32,
    /// User that runs the server.
    pub user: String,
    /// Path of the server's socket.
    pub socket: String,
    /// Address of the dashboard. `null` if there is none.
    #[serde(default)]
    pub web: Option<String>,
    /// Why the dashboard is not open at the address of the settings. The server tries again every
    /// second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_fault: Option<String>,
    /// Why the server does not listen on the network although the settings say so. It tries again
    /// every second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_fault: Option<String>,
    /// State directory of the server.
    pub state_dir: String,
    /// Term of the server: grows with each start.
    pub term: u64,
    /// Revision of the last durable commit.
    pub revision: u64,
    /// Time at which this server started.
    pub started_at: Time,
    /// Time since the start in seconds.
    pub uptime_s: u64,
    /// Number of jobs that have not ended, by state. States without jobs are absent.
    pub jobs: BTreeMap<String, u64>,
    /// Number of ended jobs in the archive.
    pub jobs_ended: u64,
    /// Number of devices by state. States without devices are absent.
    pub gpus: BTreeMap<String, u64>,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of nodes with a connected agent.
    pub nodes_connected: u64,
    /// Policy of the scheduler.
    pub policy: PolicyInfo,
    /// Why the store fails, such as a full disk. Meanwhile the server refuses changes, running jobs
    /// continue, and the server retries every second.
    pub store_fault: Option<String>,
    /// Why utilization is not recorded now; jobs are unaffected. `null` while it is.
    #[serde(default)]
    pub usage_fault: Option<String>,
    /// Jobs that cannot run because their environment or script is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    /// Counts of messages about jobs.
    #[serde(default)]
    pub notifications: NotifyCounts,
    /// Whether the server can send mail: it has a mail server, or its machine has a sendmail.
    #[serde(default)]
    pub mail: bool,
    /// Current and future reservations and maintenance windows, by start time.
    #[serde(default)]
    pub reservations: Vec<Reservation>,
}

/// The policy of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyInfo {
    /// Preset that the policy started from.
    pub preset: String,
    /// Sort keys of the queue order, in order.
    pub order: Vec<String>,
    /// Waiting time after which a job is escalated, in seconds.
    pub escalate_after_s: u64,
    /// Allocation order of whole devices.
    #[schema(schema_with = crate::schema::device_strategy)]
    pub device_strategy: DeviceStrategy,
    /// Maximum priority that users can set.
    pub user_priority_max: i32,
    /// All settings by key, in the format of changes.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Result of a dry run: jobs that would start earlier or later, delayed jobs first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartChange>,
    /// Settings that have no effect on some nodes, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A job that would start earlier or later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartChange {
    /// ID of the job.
    pub job: String,
    /// User that owns the job.
    pub user: String,
    /// Current median of the forecast start. `null` if it is after the horizon.
    pub before: Option<Time>,
    /// Median with the change.
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
            notes: Vec::new(),
        }
    }
}
