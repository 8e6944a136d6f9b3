//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod baseline;
mod cluster;
mod interval;
mod look;
mod packing;
mod packing_policy;
mod paired;
mod queue;
