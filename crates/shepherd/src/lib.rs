//! The shepherd of one task, and the nursery that forks shepherds.
//!
//! A shepherd is a small process that starts one task, stores its output, ends it, and outlives
//! both agent and server; the agent finds it again by its claim file after a restart. The nursery
//! only forks shepherds and cleans up after them. This crate also has what an agent shares with
//! them: their messages ([`message`]), claim files ([`record`]) and folders ([`layout`]).

#![forbid(unsafe_code)]

mod activation;
pub mod compat;
pub mod container;
mod context;
pub mod environment;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod layout;
pub mod marked;
pub mod message;
pub mod nursery;
pub mod record;
pub mod rendezvous;
pub mod secrets;
mod shepherd;
pub mod survey;
#[cfg(feature = "fuzzing")]
pub mod testing;

pub use context::own_context;
