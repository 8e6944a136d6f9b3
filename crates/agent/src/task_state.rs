//! The agent's notes about its tasks, and the ends of tasks that never ran.

use std::collections::BTreeMap;

use gpool_model::agent::TaskEnd;
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::job::{EndCause, Usage};
use gpool_node::converge::Seats;
use gpool_protocol::QuestionId;
use gpool_shepherd::record::ClaimRecord;

use crate::facts::now;

/// An order to resume a task.
pub(crate) struct ToResume {
    pub generation: Generation,
    /// Its devices, by slot.
    pub devices: Vec<DeviceUuid>,
    /// The devices that are booked for it, by slot.
    pub booked: Vec<DeviceUuid>,
}

/// Where a task is, by its claim.
#[derive(Default)]
pub(crate) struct TaskLocation {
    pub seats: Seats,
    pub is_detached: bool,
    pub is_settled: bool,
}

impl TaskLocation {
    pub fn of(record: &ClaimRecord, is_settled: bool) -> Self {
        let (seats, is_detached) = (record.claimant.seats(), record.is_detached);
        Self { seats, is_detached, is_settled }
    }
}

/// Streams that were requested and are not open yet.
#[derive(Default)]
pub(crate) struct Streams {
    pub last: u64,
    pub awaited: BTreeMap<u64, (TaskId, QuestionId)>,
}

/// The end of a task that was stopped before its launch.
pub(crate) fn stopped() -> TaskEnd {
    let cause = EndCause::LaunchFailed { why: String::new() };
    TaskEnd { cause: None, stopped: true, ..not_started(cause) }
}

pub(crate) fn not_started(cause: EndCause) -> TaskEnd {
    TaskEnd {
        started_at: None,
        ended_at: now(),
        exit: None,
        cause: Some(cause),
        stopped: false,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    }
}
