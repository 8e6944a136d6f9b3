//! What the command lines of gpool share: how a job request is written and read, how jobs are
//! named and found, how output looks, how a command fails, and how it reaches the server.
//!
//! It makes no server and knows no command tree: `gpool`, `compat` and `lab` build theirs on it.

#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a failure carries all that is said about it, and failing is no hot path"
)]

pub mod act;
pub mod args;
mod array_files;
pub mod caller;
pub mod cluster;
mod directives;
pub mod errors;
pub mod exit;
pub mod failure;
pub mod flags;
pub mod follow;
pub mod foreign;
pub mod hand_in;
pub mod labelled;
pub mod listing;
mod moment;
pub mod program;
pub mod reference;
pub mod render;
pub mod request;
pub mod resolve;
pub mod screen;
pub mod script;
pub mod session;
mod software;
pub mod store_file;
pub mod terminal;
pub mod usage;
pub mod watch;
