//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod cadence;
mod card;
mod health;
mod idle;
mod links;
mod meter;
mod process;
mod share;
mod unmanaged;
mod worker;
