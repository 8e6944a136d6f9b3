//! The resource usage of ended processes, from the kernel.

/// Sums over several processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// CPU time in user mode, milliseconds.
    pub user_ms: u64,
    /// CPU time in the kernel, milliseconds.
    pub system_ms: u64,
    /// The peak memory of the largest process, in bytes.
    pub memory_peak: u64,
}

/// The usage of all reaped children, and of the children that these have reaped.
#[must_use]
pub fn of_children() -> ProcessUsage {
    // SAFETY: `rusage` is plain data, and all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing; the first argument is a constant that always works.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    ProcessUsage {
        user_ms: millis(usage.ru_utime),
        system_ms: millis(usage.ru_stime),
        // In KiB.
        memory_peak: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    }
}

fn millis(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(micros / 1000)
}
