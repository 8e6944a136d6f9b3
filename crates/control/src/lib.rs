//! The state machine: events in, commits and effects out. Pure and deterministic: the clock comes
//! with each step, and whatever depends on a commit (replies, orders, notices) is released only
//! when told that the commit is durable. If a commit fails, the whole of it is dropped and made
//! again from the store.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod admission;
mod affected;
mod choose;
mod control;
pub mod forecast;
pub mod project_tree;
pub mod replay;

pub use control::Control;
pub use control::cycle::PANICKED;
