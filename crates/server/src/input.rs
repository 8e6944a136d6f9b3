//! Messages to the core, and the request to stop the server.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use gpool_model::agent::Report;
use gpool_model::notify::{DeliveryId, Sent};
use gpool_model::{Caller, Command, NodeName, Refusal, Reply, Revision, Silence};
use gpool_post::OnSent;
use gpool_store::CommitError;
use tokio::sync::oneshot;

use crate::still;
use crate::view::{Ask, LookAfter};

pub enum CoreMessage {
    Command {
        caller: Caller,
        command: Command,
        reply: oneshot::Sender<Result<Reply, Refusal>>,
        /// Looks at the state right after the change.
        look: Option<LookAfter>,
    },
    Query(Ask),
    /// A request for a copy of the state, to read it outside the core's thread.
    Still(still::Reply),
    /// The agent of a node reported.
    Report(NodeName, Report),
    /// The agent of a node is silent or lost, or is heard again.
    Silence(NodeName, Option<Silence>),
    /// The result of sending a message of the outbox.
    Delivered(DeliveryId, Sent),
    /// A commit is durable, or failed.
    Committed(Result<Revision, CommitError>),
    /// Start no more jobs.
    Stopping,
    /// Stop after all commits are answered.
    Stop,
}

/// How the server was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRequest {
    None,
    LeaveJobs,
    EndJobs,
}

/// Passes the store's results on to the core, which may be gone.
pub fn pass_commits(core: Sender<CoreMessage>) -> impl Fn(Result<Revision, CommitError>) + Send {
    move |result| drop(core.send(CoreMessage::Committed(result)))
}

/// Passes the results of messages on to the core. A core that has stopped sends these messages
/// again when it is back.
#[must_use]
pub fn pass_deliveries(core: Sender<CoreMessage>) -> OnSent {
    Arc::new(move |id, sent| drop(core.send(CoreMessage::Delivered(id, sent))))
}
