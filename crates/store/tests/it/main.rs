//! The store as its users see it: committed data is there, and everything else is an error.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test may fail"
)]

mod backup;
mod blobs;
mod commit;
mod file;
mod full;
mod hash;
mod journal;
mod kill;
mod lock;
mod open;
mod prune;
mod removed;
mod support;
mod torn;
mod verify;
