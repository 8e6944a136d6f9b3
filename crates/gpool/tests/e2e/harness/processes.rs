//! Processes of a cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal};

/// Processes that name a folder in their arguments or environment.
pub fn processes_of(folder: &Path) -> Vec<u32> {
    let needle = folder.as_os_str().as_encoded_bytes();
    let has = |file: PathBuf| {
        let bytes = std::fs::read(file).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let proc = Path::new("/proc").join(pid.to_string());
        has(proc.join("cmdline")) || has(proc.join("environ"))
    })
    .collect()
}

pub fn kill_9(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The process may have ended by itself.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// A command that runs another one.
pub fn within(inner: &Command, words: &[&str]) -> Command {
    let mut outer = Command::new(words[0]);
    outer.env_clear().envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    outer.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
    if let Some(folder) = inner.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}
