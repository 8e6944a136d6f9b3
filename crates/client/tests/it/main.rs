//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod absence;
mod answers;
mod finding;
mod stream;
