//! The command line of gpool. Each verb is a file under `verbs`; `render` turns answers of the API
//! into text; the rest reads what users write. Except for `up` and the verbs on a store, everything
//! reaches the server through the API only.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

pub mod agent;
pub mod away;
pub mod cli;
pub mod complete;
pub mod config;
pub mod demo;
pub mod entry;
pub mod examples;
#[cfg(feature = "failpoints")]
pub mod failpoint;
pub mod grafana;
pub mod log;
pub mod serve;
pub mod systemd;
pub mod topics;
pub mod verbs;
