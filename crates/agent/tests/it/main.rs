//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod accounts;
mod done;

mod facts;
mod isolation;
mod job_files;
mod launching;
mod recent;
