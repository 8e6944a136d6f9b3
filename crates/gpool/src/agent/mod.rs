//! The agent of a node whose server is on another machine: how it joins, its connections,
//! and the API for its jobs.

pub mod api;
mod dial;
mod membership;

pub use dial::ServerDial;
pub use membership::{Membership, NotJoined};
