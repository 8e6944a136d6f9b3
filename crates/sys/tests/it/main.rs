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

/// Held while a test starts a process, which has all descriptors of this one until its program
/// runs, and by tests that look at descriptors.
static DESCRIPTORS: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn descriptors() -> std::sync::MutexGuard<'static, ()> {
    // A test that failed leaves nothing in it.
    DESCRIPTORS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
