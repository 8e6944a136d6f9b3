//! Tests of pauses: the sequences on a machine in memory, and real processes with the stub driver.

#![allow(clippy::unwrap_used, missing_docs)] // A test may end by a panic, and has no readers.

mod fake;
mod real;
mod rules;
mod sequence;
