//! Tests of pauses: the sequences on a machine in memory, and real processes with the stub driver.

mod fake;
mod real;
mod rules;
mod sequence;
