//! What the state machine wants done. Whatever depends on a commit is released only when the
//! commit is durable.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::Order;
use crate::command::Reply;
use crate::id::{
    Incarnation, JobId, NodeName, ProjectName, RequestId, ReservationName, Revision, Seq, Term,
};
use crate::job::JobState;
use crate::notify::Delivery;
use crate::plan::Plan;
use crate::record::{EndedJob, JournalEntry, Record, RecordChange};
use crate::refusal::Refusal;
use crate::unit::Timestamp;

/// One thing to do outside the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make these changes durable, then say so with `Event::Committed`.
    Commit(Commit),
    /// Answer a request.
    Reply {
        /// Which.
        request: RequestId,
        /// With what.
        reply: Result<Reply, Refusal>,
    },
    /// Tell an agent.
    Order {
        /// Which.
        node: NodeName,
        /// The run of it that this is for; another one must not get it. `None` is any.
        to: Option<Incarnation>,
        /// What.
        order: Order,
    },
    /// Send a message of the outbox, once, then say by `Event::Delivered` what became of it.
    Deliver(Box<Delivery>),
    /// Tell whoever watches.
    Publish(Notice),
    /// A plan broke an invariant and was not applied: keep the case, tell the admins.
    Alert(Box<Alert>),
}

/// A plan that broke an invariant and was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The moment that it was made for.
    pub now: Timestamp,
    /// The revision of the state that it was made from.
    pub basis: Revision,
    /// That state.
    pub records: Vec<Record>,
    /// The plan; `None` if the scheduler panicked.
    pub plan: Option<Plan>,
    /// The broken invariants, a line each.
    pub violations: Vec<String>,
    /// The job that the plan goes wrong for. It is held, and the others are planned without it.
    /// `None` if no job can be named; nothing is scheduled then.
    pub set_aside: Option<JobId>,
}

/// Changes that become durable together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The revision that they make.
    pub revision: Revision,
    /// The term of the server that makes them.
    pub term: Term,
    /// Records that changed, each at most once.
    pub records: Vec<RecordChange>,
    /// What happened, in order.
    pub journal: Vec<JournalEntry>,
    /// Jobs that ended; their records are deleted in `records`.
    pub ended: Vec<EndedJob>,
}

/// A change that watchers are told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The journal entry that it belongs to.
    pub seq: Seq,
    /// When.
    pub time: Timestamp,
    /// What changed.
    pub change: Change,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Change {
    /// A job came into a state.
    JobState {
        /// Which.
        job: JobId,
        /// Which state.
        state: JobState,
        /// Exit code as a shell gives it, once ended.
        exit_code: Option<i32>,
    },
    /// A reservation was made, was changed or is over.
    ReservationChanged {
        /// Which.
        reservation: ReservationName,
    },
    /// A project was made, was changed or was taken away.
    ProjectChanged {
        /// Which.
        project: ProjectName,
    },
    /// Something about a node or its devices changed.
    NodeChanged {
        /// Which.
        node: NodeName,
    },
    /// A message about a job was taken, or will not be sent (again).
    Told {
        /// About which job.
        job: JobId,
        /// Where to, without what may be a secret.
        origin: Arc<str>,
        /// Why it was given up; `None` if it was taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<Arc<str>>,
    },
}
