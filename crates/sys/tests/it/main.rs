//! Tests of the crate in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod capability;
mod cgroup;
mod clock;
mod device_filter;
mod listen;
mod lock;
mod proc;
mod user;
