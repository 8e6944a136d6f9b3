//! The two clocks: what people read, and what lengths of time are measured by.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds since 1970-01-01 UTC; may jump when somebody sets the clock.
#[must_use]
pub fn unix_ms() -> u64 {
    millis(clock_gettime(ClockId::Realtime))
}

/// Milliseconds since the kernel started, time asleep included; never jumps.
#[must_use]
pub fn boot_ms() -> u64 {
    millis(clock_gettime(ClockId::Boottime))
}

fn millis(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}
