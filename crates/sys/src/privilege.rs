//! Giving up privileges for good, and what a program may use of the machine.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

use crate::check;
use crate::user;

/// A step of [`become_user`] that failed; nothing must be run after it.
#[derive(Debug)]
pub struct NotBecome {
    /// What was being done, for people.
    pub step: &'static str,
    /// Why it failed.
    pub error: io::Error,
}

/// Makes this process a user's for good: supplementary groups, group, user, no capabilities left,
/// and no program that it starts can gain any (`no_new_privs`). For root it is the same without
/// taking capabilities: root's programs are root's.
///
/// # Errors
/// At the first step that fails; the process is then neither and must end.
pub fn become_user(uid: u32, gid: u32) -> Result<(), NotBecome> {
    let at = |step| move |error| NotBecome { step, error };
    if uid != 0 {
        drop_bounding_set();
    }
    let name = user::account(uid).and_then(|account| CString::new(account.name).ok());
    let groups = match name {
        // SAFETY: `name` is a C string.
        Some(name) => unsafe { libc::initgroups(name.as_ptr(), gid) },
        // SAFETY: one group id is read from a valid address.
        None => unsafe { libc::setgroups(1, &gid) },
    };
    check(groups).map_err(at("take the user's groups"))?;
    // SAFETY: plain numbers go in.
    check(unsafe { libc::setresgid(gid, gid, gid) }).map_err(at("take the user's group"))?;
    // SAFETY: plain numbers go in. Leaving user 0 empties the permitted and effective sets.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map_err(at("become the user"))?;
    if uid == 0 {
        return Ok(());
    }
    drop_capabilities().map_err(at("give up capabilities"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| NotBecome { step: "forbid new privileges", error: error.into() })?;
    // SAFETY: plain numbers go in. It must be impossible to come back.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 {
        let error = io::Error::other("root could be taken back");
        return Err(NotBecome { step: "give up root", error });
    }
    Ok(())
}

/// Takes every capability out of the set that programs could gain from. A process that may not
/// has none to lose; what matters is taken by `no_new_privs` again.
fn drop_bounding_set() {
    for capability in 0..64 as libc::c_ulong {
        // SAFETY: plain numbers go in; numbers beyond the last capability are refused.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } == -1 {
            return;
        }
    }
}

/// Empties all sets of this process. Becoming another user does so for most, unless whoever started
/// the server asked the kernel not to (`securebits`), and never for the inheritable set.
fn drop_capabilities() -> io::Result<()> {
    /// The kernel's `_LINUX_CAPABILITY_VERSION_3`: 64 capabilities in two parts.
    const VERSION: u32 = 0x2008_0522;
    let mut header = [VERSION, 0];
    // Two times effective, permitted and inheritable.
    let none = [0_u32; 6];
    // SAFETY: both are as long as the version says. The header may be written to, and is ours; the
    // rest is only read.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), none.as_ptr()) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets a resource limit by the kernel's number; `None` is unlimited. A process that may not raise
/// its hard limit keeps it and gets the most that it may have.
///
/// # Errors
/// If there is no such limit.
pub fn set_limit(kind: u32, soft: Option<u64>, hard: Option<u64>) -> io::Result<()> {
    let number = |limit: Option<u64>| limit.unwrap_or(libc::RLIM_INFINITY);
    let wanted = libc::rlimit { rlim_cur: number(soft), rlim_max: number(hard) };
    match write_limit(kind, wanted) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let highest = read_limit(kind)?.rlim_max;
            let soft = wanted.rlim_cur.min(highest);
            let hard = wanted.rlim_max.min(highest);
            write_limit(kind, libc::rlimit { rlim_cur: soft, rlim_max: hard })
        }
        other => other,
    }
}

/// Lowers a resource limit, soft and hard, to at most `most`.
///
/// # Errors
/// If there is no such limit.
pub fn lower_limit(kind: u32, most: u64) -> io::Result<()> {
    let now = read_limit(kind)?;
    let lower = libc::rlimit { rlim_cur: now.rlim_cur.min(most), rlim_max: now.rlim_max.min(most) };
    write_limit(kind, lower)
}

/// The resource limits of this process as (kind, soft, hard); `None` is unlimited.
#[must_use]
pub fn limits() -> Vec<(u32, Option<u64>, Option<u64>)> {
    let number = |limit: u64| (limit != libc::RLIM_INFINITY).then_some(limit);
    let read = |kind| {
        let limit = read_limit(kind).ok()?;
        Some((kind, number(limit.rlim_cur), number(limit.rlim_max)))
    };
    // The kernel has 16 and refuses the first that it does not know.
    (0..64).map_while(read).collect()
}

fn read_limit(kind: u32) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing; an unknown kind is refused by the kernel.
    check(unsafe { libc::getrlimit(kind as libc::__rlimit_resource_t, &mut limit) })?;
    Ok(limit)
}

fn write_limit(kind: u32, limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is valid for reading; an unknown kind is refused by the kernel.
    check(unsafe { libc::setrlimit(kind as libc::__rlimit_resource_t, &limit) })?;
    Ok(())
}

/// The number of the limit on a process's data, which is what memory it has of its own.
pub const LIMIT_DATA: u32 = libc::RLIMIT_DATA;
/// The number of the limit on a user's processes and threads.
pub const LIMIT_PROCESSES: u32 = libc::RLIMIT_NPROC;

/// Keeps descriptors from `first` on from programs that this process executes.
pub fn close_on_exec_from(first: RawFd) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    let first = libc::c_uint::try_from(first).unwrap_or(3);
    // SAFETY: only flags of descriptors change. Kernels before 5.11 refuse, and then the flag
    // that every descriptor of ours is opened with is what holds.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
}

/// Closes descriptors from `first` on, for a process that goes on without becoming another program.
pub fn close_from(first: RawFd) {
    let least = libc::c_uint::try_from(first).unwrap_or(3);
    // SAFETY: whoever calls this uses none of them any more, and drops nothing that owns one.
    if unsafe { libc::syscall(libc::SYS_close_range, least, libc::c_uint::MAX, 0) } == 0 {
        return;
    }
    let most = read_limit(libc::RLIMIT_NOFILE).map_or(1024, |limit| limit.rlim_cur.min(65_536));
    for fd in first..RawFd::try_from(most).unwrap_or(1024) {
        // SAFETY: as above; one that is not open is refused.
        unsafe { libc::close(fd) };
    }
}
