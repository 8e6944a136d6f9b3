//! What `/proc` says of processes. They vanish while they are looked at, which is no error: then
//! there is nothing to say.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// One process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`unning, `S`leeping, `T` stopped, `Z`ombie …
    pub state: u8,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// When it started, in ticks since boot; with the process id, names it within one boot.
    pub started: u64,
}

/// Reads `/proc/PID/stat`.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    // The program's name stands in parentheses and may hold parentheses and blanks itself.
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

/// Names one run of the kernel; empty where it can't be read.
#[must_use]
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Every process id there is now.
#[must_use]
pub fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Every process that has a file open, as far as one may look: one's own, or all as root.
#[must_use]
pub fn holders_of(path: &Path) -> Vec<u32> {
    let holds = |pid: &u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.map(|entry| std::fs::read_link(entry.path())).any(|to| to.is_ok_and(|to| to == path))
    };
    all().into_iter().filter(holds).collect()
}

/// Every process below one in the tree of parents, without itself; parents before children.
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

/// The children of a process.
#[must_use]
pub fn children(parent: u32) -> Vec<(u32, Stat)> {
    let all = all().into_iter().filter_map(|pid| Some((pid, stat(pid)?)));
    all.filter(|(_, stat)| stat.parent == parent).collect()
}

/// The same by their ids, as the kernel has them in a list: fast, and possibly without some while
/// others end.
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

/// The nearest of some processes that is an ancestor of a process, or the process itself.
#[must_use]
pub fn nearest_ancestor(pid: u32, among: &dyn Fn(u32) -> bool) -> Option<u32> {
    let mut pid = pid;
    // The tree may change while it is walked; no tree is this deep.
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

/// Whether a process started with a variable of that name and value.
#[must_use]
pub fn started_with(pid: u32, variable: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable)
}

/// What a process had as the value of a variable when it was started; `None` without it, or where
/// its environment may not be read.
#[must_use]
pub fn variable_at_start(pid: u32, name: &str) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries
        .find_map(|entry| entry.strip_prefix(name.as_bytes()).and_then(|it| it.strip_prefix(b"=")));
    value.map(<[u8]>::to_vec)
}

/// How many threads this process has.
///
/// # Errors
/// If `/proc` is not there.
pub fn n_threads() -> std::io::Result<u64> {
    // Each thread is a folder there, and a folder is linked from each folder in it, its parent
    // and itself: one call instead of reading and parsing a file.
    Ok(std::fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end by a panic.
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_skipped_whole() {
        let fields = (6..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let line = format!("7 (a) S 9 (b) S 1 7 {fields}");
        let stat = parse_stat(line.as_bytes()).unwrap();
        let expected = Stat { state: b'S', parent: 1, group: 7, session: 6, started: 22 };
        assert_eq!(stat, expected);
        assert_eq!(parse_stat(b"7 (a"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn a_child_is_found_below_its_parent_and_knows_its_variables() {
        let mut child =
            std::process::Command::new("sleep").arg("60").env("MARK", "x").spawn().unwrap();
        let me = std::process::id();
        assert!(descendants(me).contains(&child.id()));
        assert!(children(me).iter().any(|(pid, _)| *pid == child.id()));
        // Absent from kernels without it.
        let list = format!("/proc/{me}/task/{me}/children");
        let is_listed = Path::new(&list).exists();
        assert!(children_now(me).contains(&child.id()) || !is_listed);
        assert_eq!(nearest_ancestor(child.id(), &|pid| pid == me), Some(me));
        assert_eq!(nearest_ancestor(child.id(), &|_| false), None);
        // The program's environment is there some time after the process is.
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !started_with(child.id(), b"MARK=x") {
            assert!(std::time::Instant::now() < give_up, "the variable is never seen");
            std::thread::yield_now();
        }
        assert!(!started_with(child.id(), b"MARK="));
        assert_eq!(variable_at_start(child.id(), "MARK"), Some(b"x".to_vec()));
        assert_eq!(variable_at_start(child.id(), "MAR"), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stat(child.id()), None);
    }

    #[test]
    fn threads_are_counted() {
        let (end, gate) = std::sync::mpsc::channel::<()>();
        let before = n_threads().unwrap();
        assert!(before >= 1);
        let thread = std::thread::spawn(move || gate.recv());
        assert!(n_threads().unwrap() >= 2);
        drop(end);
        let _ = thread.join().unwrap();
    }
}
