//! Operating system calls behind safe functions: processes and their trees, pidfds, locks, cgroups,
//! privileges, signals. It makes no decisions; the agent decides which processes to start and end.

// Unsafe code is allowed only here, in the ledger, the shim and stub drivers; each block says why.
#![allow(unsafe_code)]

pub mod awaited;
pub mod capability;
pub mod cgroup;
pub mod cgroup_usage;
pub mod child;
pub mod clock;
pub mod device_filter;
pub mod listen;
pub mod lock;
pub mod memory;
pub mod mig;
pub mod nvml;
pub mod pidfd;
pub mod privilege;
pub mod proc;
pub mod signal;
pub mod usage;
pub mod user;

pub(crate) fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result == -1 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
