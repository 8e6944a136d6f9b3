//! Tests of the protocol's messages and frames.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod frame;
mod golden;
mod order;
