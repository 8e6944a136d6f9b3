//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod converge;
mod lease;
mod loans;
mod meeting;
mod moves;
mod presence;
mod seating;
mod spread;
