//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod activation;
mod compat;
mod environment;
mod files;
mod layout;
mod message;
mod metrics;
mod output;
mod record;
mod rendezvous;
mod survey;
mod terminal;
