//! The life of one job, as its server wrote it down.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json::take;
use crate::time::Time;

/// One thing that happened to a job, or was decided about it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(example = json!({
    "time": "2026-11-20T14:50:02.000Z", "seq": 90412, "type": "started", "job": "1844",
    "text": "given lab1:6,7, run 1", "by": null, "attempt": 1
}))]
pub struct JobEvent {
    /// When.
    pub time: Time,
    /// The entry of the journal that says so; `null` for what the job's own record says.
    pub seq: Option<u64>,
    /// What kind of thing, as a stable word; new ones may be added.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whose it is.
    pub job: String,
    /// The same in words; may change.
    pub text: String,
    /// Who asked for it.
    pub by: Option<String>,
    /// Numbers and names, by the kind.
    #[serde(flatten)]
    pub facts: BTreeMap<String, Value>,
}

impl<'de> Deserialize<'de> for JobEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut facts = BTreeMap::deserialize(deserializer)?;
        Ok(Self {
            time: take(&mut facts, "time")?,
            seq: take(&mut facts, "seq")?,
            kind: take(&mut facts, "type")?,
            job: take(&mut facts, "job")?,
            text: take(&mut facts, "text")?,
            by: take(&mut facts, "by")?,
            facts,
        })
    }
}
