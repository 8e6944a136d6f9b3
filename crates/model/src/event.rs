//! The inputs of the state machine, with their times; they are journaled.

use serde::{Deserialize, Serialize};

use crate::agent::Report;
use crate::command::{Caller, Command};
use crate::displace::Displace;
use crate::id::{JobId, NodeName, RequestId, ReservationName, Revision, Term};
use crate::kind::OnIdle;
use crate::lease::Silence;
use crate::notify::{DeliveryId, NearLimit, Sent};
use crate::over_limit::{OverLimit, OverMemory};
use crate::plan::{Decision, PlannedStart};
use crate::unit::Timestamp;
use crate::xid::JobXid;

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A server took over, with a higher term than every server before.
    ServerStarted {
        /// Its term.
        term: Term,
        /// The number of job numbers to skip: the store was restored from a backup, and they may
        /// have been used since the backup.
        n_skipped_jobs: u64,
    },
    /// The server is about to stop: jobs keep waiting, and none starts.
    ServerStopping,
    /// The disk of the state folder got full, or has room again. On a full disk jobs keep waiting,
    /// and none starts.
    DiskFull {
        /// Whether it is full.
        is_full: bool,
    },
    /// A caller asked for a change.
    Requested {
        /// The request to answer.
        request: RequestId,
        /// The caller.
        caller: Caller,
        /// The change.
        command: Command,
    },
    /// An agent reported.
    Reported {
        /// The node.
        node: NodeName,
        /// The report.
        report: Report,
    },
    /// An agent has been silent for too long, or is heard again.
    AgentSilence {
        /// The node.
        node: NodeName,
        /// Its silence; `None` if it is heard again.
        silence: Option<Silence>,
    },
    /// The delivery of a message ended, with or without success.
    Delivered {
        /// The result.
        id: DeliveryId,
        /// The result.
        sent: Sent,
    },
    /// The time of the next timed change has come.
    TimerFired,
    /// Commits up to this revision are durable.
    Committed {
        /// The last durable one.
        revision: Revision,
    },
}

/// A journal entry: an event that changed something, or a plan that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Journaled {
    /// An event.
    Event(Event),
    /// Decisions of a verified plan that was applied.
    Planned {
        /// The state that it was made from.
        basis: Revision,
        /// The decisions.
        decisions: Vec<Decision>,
        /// The planned starts, if they changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        planned: Option<Vec<PlannedStart>>,
    },
    /// Changes to reservations, drains and elastic jobs that follow from earlier commands.
    Kept {
        /// The changes, in order.
        kept: Vec<Upkeep>,
    },
}

/// A change that follows from an earlier command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Upkeep {
    /// A reservation ended, or its job had ended.
    Ended {
        /// The reservation.
        reservation: ReservationName,
    },
    /// A reservation got other devices in place of unusable ones.
    Replaced {
        /// The reservation.
        reservation: ReservationName,
    },
    /// An elastic job may be joined by another job.
    Joining {
        /// The job that waits for capacity to join.
        job: JobId,
        /// The elastic job.
        joins: JobId,
    },
    /// A job ended because the run that it joined ended.
    Left {
        /// The job that had joined.
        job: JobId,
    },
    /// A job was held because the scheduler's plan for it broke an invariant.
    SetAside {
        /// The job.
        job: JobId,
        /// The broken invariants, one per line.
        violations: Vec<String>,
    },
    /// A job was asked to leave its devices.
    Displaced {
        /// The job.
        job: JobId,
        /// The change.
        how: Displace,
        /// The cause, in words: `maintenance m1`, `drain of lab2`.
        by: String,
    },
    /// A running job does not use its GPUs, or uses them again.
    Idle {
        /// The job.
        job: JobId,
        /// Since when it has not used them; `None` if it uses them again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// The consequence of the pool's policy; `None` if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<OnIdle>,
        /// Why its GPUs were not released, if they should have been.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A running job uses more GPU memory than its limit.
    OverLimit {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
        /// The memory.
        memory: OverMemory,
        /// The consequence of the pool's policy.
        done: OverLimit,
    },
    /// A running job has used most of its time limit.
    NearLimit {
        /// The job.
        job: JobId,
        /// The limit and the rest of it.
        near: NearLimit,
    },
    /// A device reported an Xid while a job had it.
    Xid {
        /// The job.
        job: JobId,
        /// The Xid, and how often it was reported since the report before.
        seen: JobXid,
    },
    /// A job with released GPUs made a GPU call, and waits for them.
    Returns {
        /// The job.
        job: JobId,
    },
}
