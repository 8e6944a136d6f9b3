//! The resources that a control group has used: of all its processes, ended ones included.
//! Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.

use std::fs;
use std::path::Path;

use crate::cgroup::Group;

/// Sums over all processes of a group. A value that the kernel does not have here is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// CPU time in user mode, milliseconds.
    pub user_ms: Option<u64>,
    /// CPU time in the kernel, milliseconds.
    pub system_ms: Option<u64>,
    /// Memory now, in bytes, with cached files.
    pub memory: Option<u64>,
    /// The most memory, in bytes, with cached files.
    pub memory_peak: Option<u64>,
    /// Bytes read from block devices.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub written_bytes: Option<u64>,
}

impl Group {
    /// What the group has used so far.
    #[must_use]
    pub fn usage(&self) -> GroupUsage {
        let unified = self.unified.as_deref();
        let cpu = |key: &str| Some(field(&text(unified, "cpu.stat")?, key)? / 1000);
        let io = text(unified, "io.stat");
        let v1 = self.memory_v1.as_deref();
        let memory = |file: &str, of_v1: &str| number(unified, file).or_else(|| number(v1, of_v1));
        GroupUsage {
            user_ms: cpu("user_usec"),
            system_ms: cpu("system_usec"),
            memory: memory("memory.current", "memory.usage_in_bytes"),
            memory_peak: memory("memory.peak", "memory.max_usage_in_bytes"),
            read_bytes: io.as_deref().map(|io| of_devices(io, "rbytes=")),
            written_bytes: io.as_deref().map(|io| of_devices(io, "wbytes=")),
        }
    }
}

fn text(folder: Option<&Path>, file: &str) -> Option<String> {
    fs::read_to_string(folder?.join(file)).ok()
}

fn number(folder: Option<&Path>, file: &str) -> Option<u64> {
    text(folder, file)?.trim().parse().ok()
}

/// The number after a word at the start of a line.
fn field(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == key)?.1.trim().parse().ok()
}

/// The sum over the lines of all devices.
fn of_devices(text: &str, key: &str) -> u64 {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix(key));
    words.filter_map(|number| number.parse::<u64>().ok()).fold(0, u64::saturating_add)
}
