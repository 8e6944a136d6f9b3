//! The state machine: events in, commits and effects out. Pure and deterministic: the clock comes
//! with each step, and whatever depends on a commit (replies, orders, notices) is released only
//! when told that the commit is durable. If a commit fails, the whole of it is dropped and made
//! again from the store.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod admission;
mod affected;
mod again;
mod arrays;
mod choose;
mod claims;
mod control;
mod cycle;
mod drain;
mod edit;
mod extend;
pub mod forecast;
mod gang;
mod grow;
mod hold;
mod hold_missing;
mod jobs;
mod moments;
mod nodes;
mod outbox;
mod parts;
mod pause;
mod policy;
pub mod project_tree;
mod projects;
pub mod replay;
mod reports;
mod reserve;
mod sessions;
mod set_aside;
mod settle;
mod submit;
mod upkeep;

pub use control::Control;
pub use cycle::PANICKED;
