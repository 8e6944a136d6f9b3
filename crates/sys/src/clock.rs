//! The two clocks: wall-clock time for users, and boot time for durations.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds since 1970-01-01 UTC; jumps when the clock is set. Uses the C library, like the
/// rest of the program, so that a preloaded library can shift the time of all of it.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// CPU time of this process in milliseconds.
#[must_use]
pub fn process_cpu_ms() -> u64 {
    millis(clock_gettime(ClockId::ProcessCPUTime))
}

/// Milliseconds since the kernel started, suspended time included; never jumps.
#[must_use]
pub fn boot_ms() -> u64 {
    millis(clock_gettime(ClockId::Boottime))
}

/// The same in clock ticks, the unit of start times in `/proc`: a process that starts after this
/// call has at least this number there.
#[must_use]
pub fn boot_ticks() -> u64 {
    boot_ms().saturating_mul(rustix::param::clock_ticks_per_second()) / 1000
}

fn millis(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}
