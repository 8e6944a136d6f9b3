//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod bench;
mod compare;
mod csv;
mod fairness;
mod faults;
mod figure;
mod figures;
mod history;
mod instructions;
mod kai;
mod kai_files;
mod kai_public;
mod load;
mod packing;
mod played;
mod policy;
mod process;
mod progress;
mod rig;
#[allow(dead_code, reason = "the tests of gpool use the rest")]
#[path = "../../../../crates/gpool/tests/it/things.rs"]
mod things;
mod window;
