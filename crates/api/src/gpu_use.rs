//! Events of a job about its GPUs: it is idle, above its limit, or they report errors.

use gpool_model::event::Upkeep;
use gpool_model::kind::OnIdle;
use gpool_model::over_limit::{OverLimit, OverMemory};
use gpool_model::{JobId, NodeName, Timestamp, xid};
use gpool_wire::gpu::xid::JobXid;
use gpool_wire::{JobEvent, Time};
use serde_json::json;

use super::job_event::{event, facts};

/// The event of a job that became idle, or no longer is.
pub(super) fn of_idle(id: JobId, time: Timestamp, kept: &Upkeep) -> Option<JobEvent> {
    let (since, done, why) = match kept {
        Upkeep::Idle { job, since, done, why } if *job == id => (*since, *done, why),
        Upkeep::Returns { job } if *job == id => {
            return Some(event(id, time, "returns", "waits for its released GPUs".to_owned()));
        }
        _ => return None,
    };
    let Some(since) = since else {
        return Some(event(id, time, "active", "uses its GPUs again".to_owned()));
    };
    let words = match done {
        None | Some(OnIdle::Report) => "",
        Some(OnIdle::Warn) => "; its owner is notified",
        Some(OnIdle::Demote) => "; it is preemptible from now on",
        Some(OnIdle::Release) => "; its GPUs are released",
        Some(OnIdle::Requeue) => "; it is requeued",
        Some(OnIdle::Cancel) => "; it is cancelled",
    };
    let why = why.as_ref().map(|why| format!("; its GPUs are not released: {why}"));
    let why = why.unwrap_or_default();
    let text = format!("is idle: no GPU use for {}{words}{why}", time.since(since));
    let facts = facts([("since", json!(Time(since))), ("done", json!(done))]);
    Some(JobEvent { facts, ..event(id, time, "idle", text) })
}

/// The event of an Xid of a GPU.
pub(super) fn xid(id: JobId, time: Timestamp, seen: &xid::JobXid) -> JobEvent {
    let seen = JobXid::from(seen);
    JobEvent {
        facts: facts([("xid", json!(seen))]),
        ..event(id, time, "xid", format!("had {}", seen.text()))
    }
}

/// The event of a job above its limit.
pub(super) fn over_limit(
    id: JobId,
    time: Timestamp,
    node: &NodeName,
    memory: OverMemory,
    done: OverLimit,
) -> JobEvent {
    let words = match done {
        OverLimit::Report => "",
        OverLimit::Warn => "; its owner is notified",
        OverLimit::Requeue => "; it is requeued",
        OverLimit::Cancel => "; it is cancelled",
    };
    let OverMemory { device, limit, used } = memory;
    let text = format!("uses {used} of {node}:{device}, its limit is {limit}{words}");
    let facts = facts([("memory", json!(memory)), ("done", json!(done))]);
    JobEvent { facts, ..event(id, time, "over_limit", text) }
}
