//! The state machine: events in, commits and effects out. It is pure and deterministic. The time
//! comes with each step; effects that depend on a commit (replies, orders, notices) are released
//! only when the commit is durable. If a commit fails, the whole state machine is dropped and
//! rebuilt from the store.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod admission;
mod affected;
mod choose;
mod control;
pub mod controller;
pub mod forecast;
pub mod lease;
pub mod project_tree;
pub mod replay;

pub use control::Control;
pub use control::cycle::PANICKED;
