//! The history as its users see it: written minutes are there until they are too old, absent values
//! stay absent, and no damage ends in a panic.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test may fail"
)]

mod clock;
mod codec;
mod damage;
mod full;
mod kill;
mod prune;
mod report;
mod seal;
mod support;
mod values;
