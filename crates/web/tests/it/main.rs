//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod course;
mod gantt;
mod group;
mod job;
mod overview;
mod saved;
mod sort;
mod submit;
mod whatif;

use gpool_model::{Millis, Timestamp};
use gpool_wire::Time;

/// Minutes after the start of the tests.
fn minute(n: u32) -> Time {
    Time(Timestamp::new(1_800_000_000_000).after(Millis::from_mins(n)))
}
