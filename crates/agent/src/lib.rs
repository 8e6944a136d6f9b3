//! The agent of one node, and the shepherd of one task.
//!
//! The agent does what it is told (`gpool_node::converge` decides what that is), and says what is.
//! A shepherd is a small process that starts one task, keeps its output, ends it, and outlives
//! everybody else; the agent finds it again after a restart. Neither decides who runs where. A
//! third process, the nursery, forks shepherds and does nothing else.

#![forbid(unsafe_code)]

mod activation;
mod agent;
mod compat;
mod context;
mod environment;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod layout;
mod message;
pub mod nursery;
mod record;
mod rendezvous;
mod shepherd;
pub mod survey;

pub use agent::{Agent, AgentConfig, AgentHandle, Answer, Blobs, OpenedLine, StartError, ToServer};
pub use context::own_context;
