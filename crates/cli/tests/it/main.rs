//! Tests of job requests: flags and directives of gpool and of other schedulers.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod directives;
