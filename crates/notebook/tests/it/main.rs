//! Tests of the public items of the crate, in one binary.

mod activity;
mod address;
mod program;
