//! Request bodies of the routes for devices, the policy and the server; the answer to a bulk
//! submission.

use std::collections::BTreeMap;

use gpool_model::policy::DeviceStrategy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The devices of a node that new allocations may use. Running jobs keep their devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowDevices {
    /// Name of the node. Optional if the cluster has one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Device indexes (`"0"`, `"2-5"`) or UUIDs; `["all"]` for all devices, `[]` for none.
    pub devices: Vec<String>,
}

/// Changes to the policy of the scheduler. Omitted fields keep their values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// Preset to start from, with its parameters: `valohai:escalate_after=24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Settings by key. `settings` in the answer lists all keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// If true, returns the resulting policy without applying it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Allocation order of whole devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = crate::schema::device_strategy)]
    pub device_strategy: Option<DeviceStrategy>,
}

/// How to stop the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// If true, ends all jobs first. If false, jobs continue to run.
    #[serde(default)]
    pub now: bool,
}

/// The jobs that a bulk submission created: consecutive numbers, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkAnswer {
    /// ID of the first line's job.
    pub first: String,
    /// Number of jobs.
    pub n_jobs: u64,
    /// Whether the server had already answered this request, identified by its idempotency key.
    pub repeated: bool,
}

impl BulkAnswer {
    /// Returns the IDs, in the order of the lines.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        let first: u64 = self.first.parse().unwrap_or(0);
        (first..first.saturating_add(self.n_jobs)).map(|number| number.to_string())
    }
}
