//! The history of a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::time::Time;
use gpool_texts::words::take;

/// An event in the history of a job, or a decision about it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(example = json!({
    "time": "2026-11-20T14:50:02.000Z", "seq": 90412, "type": "started", "job": "1844",
    "text": "given lab1:6,7, run 1", "by": null, "attempt": 1
}))]
pub struct JobEvent {
    /// Time of the event.
    pub time: Time,
    /// Number of the journal entry. `null` for events from the job's own record.
    pub seq: Option<u64>,
    /// Type of the event, a stable code. New ones may be added.
    #[serde(rename = "type")]
    pub kind: String,
    /// ID of the job.
    pub job: String,
    /// Text of the event. May change.
    pub text: String,
    /// User that caused the event.
    pub by: Option<String>,
    /// Numbers and names, depending on `type`.
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
