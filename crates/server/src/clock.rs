//! The wall clock, and the time since the machine was booted.

use std::time::{SystemTime, UNIX_EPOCH};

use gpool_model::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The wall clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds since the machine was booted, also while it slept. This clock is never set.
pub fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1000);
    whole.saturating_add(u64::try_from(time.tv_nsec / 1_000_000).unwrap_or(0))
}
