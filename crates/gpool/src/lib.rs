//! The command line of gpool. Each verb is a file under `verbs`; `render` makes text of what the
//! API answers; the rest reads what users write. Everything but `up` and the verbs on a store
//! speaks to a server through the API and nothing else.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries all that is said about it, and failing is no hot path"
)]

pub mod away;
pub mod cli;
pub mod complete;
pub mod config;
pub mod console;
pub mod demo;
pub mod entry;
#[cfg(feature = "failpoints")]
pub mod failpoint;
pub mod keys;
pub mod lab;
pub mod outcome;
pub mod overview;
pub mod reasons;
pub mod render;
pub mod serve;
pub mod systemd;
pub mod toml_file;
pub mod topics;
pub mod verbs;
