//! What the core is sent.

use gpool_model::agent::Report;
use gpool_model::notify::{DeliveryId, Sent};
use gpool_model::{Caller, Command, NodeName, Refusal, Reply, Revision};
use gpool_store::CommitError;
use tokio::sync::oneshot;

use crate::still;
use crate::view::Ask;

/// What the core is sent.
pub(crate) enum Input {
    /// A user asks for a change.
    Command {
        /// The user that asks.
        caller: Caller,
        /// What.
        command: Command,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<Reply, Refusal>>,
    },
    /// A user reads the state.
    Query(Ask),
    /// A copy of the state is asked for, to be looked at beside this thread.
    Still(still::Reply),
    /// The agent of a node reported.
    Report(NodeName, Report),
    /// What became of a message of the outbox that was sent.
    Delivered(DeliveryId, Sent),
    /// A commit is durable, or failed.
    Committed(Result<Revision, CommitError>),
    /// Start nothing more.
    Stopping,
    /// Stop, once all commits are answered.
    Stop,
}
