//! Tests of the command line from outside: its flags, how things look, and the binary without a
//! server.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod binary;
mod flags;
mod rendering;
mod simulations;
mod things;
