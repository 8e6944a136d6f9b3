//! Information about processes from `/proc`. A process may end while it is read; that is no error,
//! and the result is empty.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`unning, `S`leeping, `T` stopped, `Z`ombie …
    pub state: u8,
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    pub session: u32,
    /// The start time in ticks since boot; with the process ID it identifies a process within a
    /// boot.
    pub started: u64,
}

/// Reads `/proc/PID/stat`.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `/proc/PID/stat`; `None` if it is cut.
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    // The program's name is in parentheses and may itself contain parentheses and spaces.
    let after_name = bytes.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&bytes[after_name..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some(Stat {
        state: *fields.next()?.as_bytes().first()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
        started: fields.nth(15)?.parse().ok()?,
    })
}

/// The ID of this boot; empty if it can't be read.
#[must_use]
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Returns all process IDs.
#[must_use]
pub fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processes that have a file open, as far as permitted: the user's own, or all for
/// root.
#[must_use]
pub fn holders_of(path: &Path) -> Vec<u32> {
    let holds = |pid: &u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.map(|entry| std::fs::read_link(entry.path())).any(|to| to.is_ok_and(|to| to == path))
    };
    all().into_iter().filter(holds).collect()
}

/// Returns all descendants of a process, without itself; parents before children.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all() {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(*child) {
                found.push(*child);
                next.push(*child);
            }
        }
    }
    found
}

/// Returns the children of a process.
#[must_use]
pub fn children(parent: u32) -> Vec<(u32, Stat)> {
    let all = all().into_iter().filter_map(|pid| Some((pid, stat(pid)?)));
    all.filter(|(_, stat)| stat.parent == parent).collect()
}

/// Returns the IDs of the children from the kernel's list: fast, but it may miss some while others
/// end.
#[must_use]
pub fn children_now(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let texts = lists.map(Result::unwrap_or_default);
    texts.flat_map(|text| numbers(&text)).collect()
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Returns the nearest process that matches `among`: the process itself or an ancestor.
#[must_use]
pub fn nearest_ancestor(pid: u32, among: &dyn Fn(u32) -> bool) -> Option<u32> {
    let mut pid = pid;
    // The tree may change during the walk; no tree is this deep.
    for _ in 0..4096 {
        if among(pid) {
            return Some(pid);
        }
        pid = stat(pid)?.parent;
        if pid <= 1 {
            return None;
        }
    }
    None
}

/// Whether a process started with this variable (`NAME=value`) in its environment.
#[must_use]
pub fn started_with(pid: u32, variable: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable)
}

/// The value of a variable when the process started; `None` if it is missing or its environment may
/// not be read.
#[must_use]
pub fn variable_at_start(pid: u32, name: &str) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries
        .find_map(|entry| entry.strip_prefix(name.as_bytes()).and_then(|it| it.strip_prefix(b"=")));
    value.map(<[u8]>::to_vec)
}

/// Whether a process handles a signal, by the text of its `/proc/PID/status`.
#[must_use]
pub fn catches(status: &str, signal: i32) -> bool {
    is_in_mask(status, "SigCgt:", signal)
}

/// Whether a process ignores a signal, by the text of its `/proc/PID/status`.
#[must_use]
pub fn ignores(status: &str, signal: i32) -> bool {
    is_in_mask(status, "SigIgn:", signal)
}

fn is_in_mask(status: &str, name: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal).ok().and_then(|signal| signal.checked_sub(1));
    bit.and_then(|bit| mask.checked_shr(bit)).is_some_and(|it| it & 1 == 1)
}

/// The number of threads of this process.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn n_threads() -> std::io::Result<u64> {
    // Each thread is a folder in it. A folder's link count is the number of its subfolders plus 2,
    // so one call is enough, without reading and parsing a file.
    Ok(std::fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}
