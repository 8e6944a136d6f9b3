//! What happens to a cluster: the inputs of the state machine, stamped and journaled.

use serde::{Deserialize, Serialize};

use crate::agent::Report;
use crate::command::{Caller, Command};
use crate::displace::Displace;
use crate::id::{JobId, NodeName, RequestId, ReservationName, Revision, Term};
use crate::notify::{DeliveryId, Sent};
use crate::plan::{Decision, PlannedStart};

/// One input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A server took over, with a term higher than any before.
    ServerStarted {
        /// Its term.
        term: Term,
        /// Job numbers that are not given out, because the store came from a backup and they may
        /// have been given out since it was made.
        n_skipped_jobs: u64,
    },
    /// The server is going to stop: what waits stays, and nothing more is started.
    ServerStopping,
    /// Somebody asked for a change.
    Requested {
        /// Whom to answer.
        request: RequestId,
        /// Who asked.
        caller: Caller,
        /// For what.
        command: Command,
    },
    /// An agent reported.
    Reported {
        /// Which.
        node: NodeName,
        /// What.
        report: Report,
    },
    /// A message of the outbox was sent, or not.
    Delivered {
        /// Which.
        id: DeliveryId,
        /// What became of it.
        sent: Sent,
    },
    /// The moment of the next time-driven change has come.
    TimerFired,
    /// Commits up to that revision are durable.
    Committed {
        /// The last durable one.
        revision: Revision,
    },
}

/// What is journaled: events that changed something, and the plans that were applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Journaled {
    /// An event.
    Event(Event),
    /// Decisions of a plan that was verified and applied.
    Planned {
        /// The state it was made from.
        basis: Revision,
        /// What was done.
        decisions: Vec<Decision>,
        /// Who is planned to start when, if that is not as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        planned: Option<Vec<PlannedStart>>,
    },
    /// What followed without being asked for: to reservations, drains, and jobs that grow.
    Kept {
        /// In order.
        kept: Vec<Kept>,
    },
}

/// One thing that followed from what was asked for before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Kept {
    /// A reservation was over, or its job had ended.
    Ended {
        /// Which.
        reservation: ReservationName,
    },
    /// Other devices were chosen in place of those that are of no use.
    Replaced {
        /// For which reservation.
        reservation: ReservationName,
    },
    /// A job that may be on more nodes may be joined by another one.
    Joining {
        /// By which, which waits for room.
        job: JobId,
        /// Which may grow.
        joins: JobId,
    },
    /// The run is over of the job that another one joined, and so is that.
    Left {
        /// Which joined it.
        job: JobId,
    },
    /// A job was held because the scheduler's plan for it broke an invariant.
    SetAside {
        /// Which.
        job: JobId,
        /// What the plan broke, a line each.
        violations: Vec<String>,
    },
    /// A job was told to leave.
    Displaced {
        /// Which.
        job: JobId,
        /// How.
        how: Displace,
        /// For what, in words: `maintenance m1`, `drain of lab2`.
        by: String,
    },
}
