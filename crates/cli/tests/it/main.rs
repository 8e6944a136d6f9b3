//! Tests of the job request as it is written: flags and directives, ours and other schedulers'.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod directives;
