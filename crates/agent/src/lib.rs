//! The agent of one node, and the shepherd of one task.
//!
//! The agent carries out the server's orders (`gpool_node::converge` works out the actions) and
//! reports the state of the node. A shepherd is a small process that starts one task, stores its
//! output, ends it, and outlives both agent and server; the agent finds it again after a restart. A
//! third process, the nursery, only forks shepherds and cleans up after them. None of them decides
//! where jobs run.

#![forbid(unsafe_code)]

mod activation;
mod agent;
pub mod compat;
mod context;
mod environment;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod layout;
mod message;
pub mod nursery;
mod record;
pub mod rendezvous;
mod shepherd;
pub mod survey;
#[cfg(feature = "fuzzing")]
pub mod testing;

pub use agent::{Agent, AgentConfig, AgentHandle, StartError};
pub use context::own_context;
