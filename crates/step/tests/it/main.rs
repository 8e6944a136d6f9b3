//! Tests of the layout, the programs and the turns of steps.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod plan;
mod programs;
mod turns;
