//! Tests of manifests, walks, stores and trees.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

mod fetching;
mod manifests;
mod stores;
mod walks;
