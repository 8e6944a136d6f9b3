//! Resource usage of processes from the kernel.

use std::fs;

/// CPU time in milliseconds of a process, its living descendants (such as the nursery), and ended
/// children that were waited for. Its resolution is a kernel tick.
pub fn cpu_ms_of(pid: u32) -> f64 {
    let all = gpool_sys::proc::descendants(pid);
    let ticks: u64 = std::iter::once(pid).chain(all).map(cpu_ticks_of).sum();
    ticks as f64 * 1000.0 / rustix::param::clock_ticks_per_second() as f64
}

/// CPU ticks of a process and of its ended children that were waited for.
fn cpu_ticks_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is in parentheses and may contain anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// CPU time in milliseconds of a process, as the sum of its living threads with nanosecond
/// resolution. For amounts below a kernel tick.
pub fn threads_cpu_ms_of(pid: u32) -> f64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let ns: u64 = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    ns as f64 / 1e6
}

/// Resident memory of a process, in bytes.
pub fn memory_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
