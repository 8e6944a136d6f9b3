//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod plan;
mod pmi;
mod programs;
mod remote;
mod turns;
