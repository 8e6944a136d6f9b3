//! Agents, shepherds and jobs as real processes.

#![allow(clippy::unwrap_used)] // A test may end by a panic.

mod adopt;
mod devices;
mod end;
mod harness;
mod launch;
mod leftovers;
mod nursery;
mod output;
mod pause;
mod users;
