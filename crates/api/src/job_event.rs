//! Events in the life of a job, as answers show them.

use std::collections::BTreeMap;

use gpool_model::{JobId, Timestamp};
use gpool_wire::{JobEvent, Time};
use serde_json::Value;

pub(super) fn event(id: JobId, time: Timestamp, kind: &str, text: String) -> JobEvent {
    let (kind, job) = (kind.to_owned(), id.to_string());
    JobEvent { time: Time(time), seq: None, kind, job, text, by: None, facts: BTreeMap::new() }
}

pub(super) fn facts<const N: usize>(of: [(&str, Value); N]) -> BTreeMap<String, Value> {
    of.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
