//! Whether a process lives.

use std::fs;

/// Whether a process with this ID and start time, in clock ticks since boot, lives. A zombie does
/// not: the driver has freed its memory. The ID may be of an inner process namespace.
pub(crate) fn lives(pid: u32, start: u64) -> bool {
    start_of(pid) == Some(start) || lives_inside(pid, start)
}

/// Whether a process has this ID in its own namespace. Such processes are rare, and so is the
/// question: it comes after the end of a process.
fn lives_inside(pid: u32, start: u64) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let outer = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    outer.into_iter().any(|outer: u32| {
        let status = fs::read_to_string(format!("/proc/{outer}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let ids = line.unwrap_or_default().split_whitespace().skip(1);
        ids.last().and_then(|id| id.parse().ok()) == Some(pid) && start_of(outer) == Some(start)
    })
}

fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything. Field 22 is the start, 3 the state.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).and_then(|field| field.parse().ok()).filter(|_| !is_dead)
}
