//! The environment that a job inherits from the process that submits it.

use std::os::unix::ffi::OsStringExt;

use gpool_model::agent::LaunchContext;
use gpool_sys::privilege;

/// Returns the resource limits, umask and environment of this process, for a job that it submits.
#[must_use]
pub fn own_context() -> LaunchContext {
    // The system call that reads the umask also sets it; /proc does not.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    LaunchContext {
        environment: std::env::vars_os()
            .map(|(name, value)| (name.into_vec(), value.into_vec()))
            .collect(),
        limits: privilege::limits(),
        umask: umask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()),
    }
}
