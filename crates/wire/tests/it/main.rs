//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod amount;
mod check;
mod device_words;
mod exits;
mod fields;
mod frame;
mod gang;
mod misfit;
mod notify;
mod project;
mod project_shown;
mod project_words;
mod query;
mod reason;
mod reasons;
mod shown;
mod signal;
mod strict;
mod time;
mod verb;
mod words;
