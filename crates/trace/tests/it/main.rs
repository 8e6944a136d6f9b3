//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod baseline;
mod cluster;
mod packing;
mod packing_policy;
mod queue;
mod scene;
