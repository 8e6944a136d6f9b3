//! The command line of gpool. Each verb is a file under `verbs`; `render` makes text of what the
//! API answers; the rest reads what users write. Everything but `up` and the verbs on a store
//! speaks to a server through the API and nothing else.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries all that is said about it, and failing is no hot path"
)]

pub mod args;
pub mod array_files;
pub mod away;
pub mod bench;
pub mod caller;
pub mod cli;
pub mod complete;
pub mod config;
pub mod console;
pub mod demo;
pub mod directives;
pub mod entry;
pub mod errors;
pub mod exit;
#[cfg(feature = "failpoints")]
pub mod failpoint;
pub mod failure;
pub mod flags;
pub mod follow;
pub mod keys;
pub mod labelled;
pub mod moment;
pub mod outcome;
pub mod overview;
pub mod reasons;
pub mod reference;
pub mod render;
pub mod request;
pub mod resolve;
pub mod screen;
pub mod script;
pub mod serve;
pub mod session;
pub mod shims;
pub mod software;
pub mod systemd;
pub mod toml_file;
pub mod topics;
pub mod usage;
pub mod verbs;
