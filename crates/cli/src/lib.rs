//! The shared parts of gpool's command lines: writing and parsing job requests, naming and finding
//! jobs, formatting output, reporting failures, and reaching the server.
//!
//! It starts no server for users and has no command tree: `gpool`, `compat` and `lab` build theirs
//! on it.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its whole message, and failing is no hot path"
)]

pub mod act;
pub mod args;
pub mod array_files;
pub mod caller;
pub mod cluster;
pub mod directives;
pub mod errors;
pub mod examples;
pub mod exit;
pub mod failure;
pub mod flags;
pub mod follow;
pub mod foreign;
pub mod hand_in;
pub mod labelled;
pub mod listing;
pub mod marks;
pub mod moment;
pub mod program;
pub mod reference;
pub mod render;
pub mod request;
pub mod resolve;
pub mod screen;
pub mod script;
pub mod session;
pub mod software;
pub mod store_file;
pub mod terminal;
pub mod upload;
pub mod usage;
pub mod watch;
pub mod working;
