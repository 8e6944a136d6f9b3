//! Tests of links.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod local;
mod remote;
