//! The effects that the state machine asks for. An effect that depends on a commit is released only
//! when the commit is durable.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::Order;
use crate::budget::Payer;
use crate::command::Reply;
use crate::id::{
    Incarnation, JobId, NodeName, ProjectName, RequestId, ReservationName, Revision, Seq, Term,
};
use crate::job::JobState;
use crate::node::Membership;
use crate::notify::Delivery;
use crate::plan::Plan;
use crate::record::{EndedJob, JournalEntry, Record, RecordChange};
use crate::refusal::Refusal;
use crate::unit::Timestamp;

/// An effect outside the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make these changes durable, then report `Event::Committed`.
    Commit(Commit),
    /// Answer a request.
    Reply {
        /// The request.
        request: RequestId,
        /// The reply.
        reply: Result<Reply, Refusal>,
    },
    /// Send an order to an agent.
    Order {
        /// The node.
        node: NodeName,
        /// The incarnation that may get it; `None` is any.
        to: Option<Incarnation>,
        /// The order.
        order: Order,
    },
    /// Send a message of the outbox once, then report the result with `Event::Delivered`.
    Deliver(Box<Delivery>),
    /// Renew the lease of an agent again, that was lost: every earlier order to it has left.
    Readmit(NodeName),
    /// Notify watchers.
    Publish(Notice),
    /// A plan broke an invariant and was not applied: save the case and tell the admins.
    Alert(Box<Alert>),
}

/// A plan that broke an invariant and was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The time that the plan was made for.
    pub now: Timestamp,
    /// The revision of the state that it was made from.
    pub basis: Revision,
    /// The records of that state.
    pub records: Vec<Record>,
    /// The plan; `None` if the scheduler panicked.
    pub plan: Option<Plan>,
    /// The broken invariants, one per line.
    pub violations: Vec<String>,
    /// The job with the broken plan. It is held, and the others are planned without it. `None` if
    /// the fault concerns no single job; then nothing is scheduled.
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
    /// Journal entries, in order.
    pub journal: Vec<JournalEntry>,
    /// Jobs that ended; their records are deleted in `records`.
    pub ended: Vec<EndedJob>,
}

/// A change that watchers receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The journal entry that it belongs to.
    pub seq: Seq,
    /// The time.
    pub time: Timestamp,
    /// The change.
    pub change: Change,
}

/// A change that watchers receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A job changed its state.
    JobState {
        /// The job.
        job: JobId,
        /// The state.
        state: JobState,
        /// The exit code as a shell reports it, once ended.
        exit_code: Option<i32>,
    },
    /// A running job counts as idle, or no longer.
    JobIdle {
        /// The job.
        job: JobId,
        /// Since when it has not used its devices; `None` if it uses them again.
        since: Option<Timestamp>,
    },
    /// A running job was moved to other devices of its node.
    JobMoved {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
        /// The indexes of the devices that it left.
        from: Vec<u32>,
        /// The indexes of the devices in their place.
        to: Vec<u32>,
    },
    /// A reservation was created, changed or ended.
    ReservationChanged {
        /// The reservation.
        reservation: ReservationName,
    },
    /// A project was created, changed or deleted.
    ProjectChanged {
        /// The project.
        project: ProjectName,
    },
    /// A node or its devices changed.
    NodeChanged {
        /// The node.
        node: NodeName,
    },
    /// A node joins the cluster, or its agent is connected, silent or lost.
    NodeMembership {
        /// The node.
        node: NodeName,
        /// Its place in the cluster from now on.
        is: Membership,
    },
    /// A notification about a job was delivered, or will not be sent again.
    Told {
        /// The job.
        job: JobId,
        /// The receiver, without parts that may be secret.
        origin: Arc<str>,
        /// Why the server gave up; `None` if it was delivered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<Arc<str>>,
    },
    /// A notification about a project or user was delivered, or will not be sent again.
    ToldOfPayer {
        /// The project or user.
        payer: Payer,
        /// The receiver, without parts that may be secret.
        origin: Arc<str>,
        /// Why the server gave up; `None` if it was delivered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<Arc<str>>,
    },
}
