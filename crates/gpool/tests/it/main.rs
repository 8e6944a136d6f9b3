//! Tests of the command line from outside: its flags, its output, and the binary without a server.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

mod binary;
mod flags;
mod place;
#[path = "../e2e/harness/program.rs"]
mod program;
mod rendering;
mod things;
