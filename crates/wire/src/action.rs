//! Requests about devices, the policy and the server; and the answer to a bulk submission.

use std::collections::BTreeMap;

use gpool_model::policy::DeviceStrategy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Devices that new allocations may use; what runs stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowDevices {
    /// Of which node; may be absent where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Indexes (`"0"`, `"2-5"`) or UUIDs; `["all"]` for all, `[]` for none.
    pub devices: Vec<String>,
}

/// Changes to how the scheduler decides; what is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// Begin with this preset, parameters included: `valohai:escalate_after=24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Settings by key, as `settings` shows them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Answer what the policy would be, and change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Which whole devices are given out first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::device_strategy)]
    pub device_strategy: Option<DeviceStrategy>,
}

/// How to stop the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// End all jobs first; otherwise they go on running.
    #[serde(default)]
    pub now: bool,
}

/// The jobs of a bulk submission: consecutive numbers, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkAnswer {
    /// The id of the first line's job.
    pub first: String,
    /// How many jobs.
    pub n_jobs: u64,
    /// Whether the same request had been answered before.
    pub repeated: bool,
}

impl BulkAnswer {
    /// The ids, in the order of the lines.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        let first: u64 = self.first.parse().unwrap_or(0);
        (first..first.saturating_add(self.n_jobs)).map(|number| number.to_string())
    }
}
