//! Dropping privileges permanently, and resource limits.

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

use crate::check;
use crate::user;

/// A failed step of [`become_user`]; the process must end then.
#[derive(Debug)]
pub struct NotBecome {
    pub step: &'static str,
    pub error: io::Error,
}

/// Makes this process a user's, permanently: sets supplementary groups, group and user, drops all
/// capabilities, and prevents its programs from gaining any (`no_new_privs`). For root,
/// capabilities and programs are left unrestricted.
///
/// # Errors
/// At the first step that fails; the process has mixed identities then and must end.
pub fn become_user(uid: u32, gid: u32) -> Result<(), NotBecome> {
    let at = |step| move |error| NotBecome { step, error };
    if uid != 0 {
        drop_bounding_set();
    }
    let name = user::account(uid).and_then(|account| CString::new(account.name).ok());
    let groups = match name {
        // SAFETY: `name` is a C string.
        Some(name) => unsafe { libc::initgroups(name.as_ptr(), gid) },
        // SAFETY: reads one group ID from a valid address.
        None => unsafe { libc::setgroups(1, &gid) },
    };
    check(groups).map_err(at("take the user's groups"))?;
    // SAFETY: passes plain numbers.
    check(unsafe { libc::setresgid(gid, gid, gid) }).map_err(at("take the user's group"))?;
    // SAFETY: passes plain numbers. Leaving user 0 clears the permitted and effective sets.
    check(unsafe { libc::setresuid(uid, uid, uid) }).map_err(at("become the user"))?;
    if uid == 0 {
        return Ok(());
    }
    drop_capabilities().map_err(at("give up capabilities"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| NotBecome { step: "forbid new privileges", error: error.into() })?;
    // SAFETY: passes plain numbers. Returning to root must fail.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 {
        let error = io::Error::other("root could be taken back");
        return Err(NotBecome { step: "give up root", error });
    }
    Ok(())
}

/// Empties the bounding set, which limits the capabilities that programs can gain. If the process
/// may not do this, it has none to lose, and `no_new_privs` still prevents gains.
fn drop_bounding_set() {
    for capability in 0..64 as libc::c_ulong {
        // SAFETY: passes plain numbers; numbers above the last capability are refused.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } == -1 {
            return;
        }
    }
}

/// Empties all capability sets of this process. A change of user clears most of them, unless the
/// kernel was configured otherwise (`securebits`), and never the inheritable set.
fn drop_capabilities() -> io::Result<()> {
    /// The kernel's `_LINUX_CAPABILITY_VERSION_3`: 64 capabilities in two parts.
    const VERSION: u32 = 0x2008_0522;
    let mut header = [VERSION, 0];
    // Twice effective, permitted and inheritable.
    let none = [0_u32; 6];
    // SAFETY: both have the length that the version requires. The kernel may write to the header,
    // which is a local variable; it only reads the rest.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), none.as_ptr()) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets a resource limit by the kernel's number; `None` is unlimited. If the process may not raise
/// its hard limit, both limits are capped at the present one.
///
/// # Errors
/// If the limit does not exist.
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
/// If the limit does not exist.
pub fn lower_limit(kind: u32, most: u64) -> io::Result<()> {
    let now = read_limit(kind)?;
    let lower = libc::rlimit { rlim_cur: now.rlim_cur.min(most), rlim_max: now.rlim_max.min(most) };
    write_limit(kind, lower)
}

/// Returns the resource limits of this process as (kind, soft, hard); `None` is unlimited.
#[must_use]
pub fn limits() -> Vec<(u32, Option<u64>, Option<u64>)> {
    let number = |limit: u64| (limit != libc::RLIM_INFINITY).then_some(limit);
    let read = |kind| {
        let limit = read_limit(kind).ok()?;
        Some((kind, number(limit.rlim_cur), number(limit.rlim_max)))
    };
    // The kernel has 16 and refuses the first unknown number.
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

/// The number of the limit on a process's data segment and private memory.
pub const LIMIT_DATA: u32 = libc::RLIMIT_DATA;
/// The number of the limit on a user's processes and threads.
pub const LIMIT_PROCESSES: u32 = libc::RLIMIT_NPROC;

/// Marks all descriptors from `first` on as close-on-exec.
pub fn close_on_exec_from(first: RawFd) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    let first = libc::c_uint::try_from(first).unwrap_or(3);
    // SAFETY: only changes descriptor flags. Kernels before 5.11 refuse; there, every descriptor of
    // gpool was opened with the flag.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
}

/// Closes all descriptors from `first` on, for a process that runs on without exec.
pub fn close_from(first: RawFd) {
    let least = libc::c_uint::try_from(first).unwrap_or(3);
    // SAFETY: the caller uses none of them any more, and drops no owner of one.
    if unsafe { libc::syscall(libc::SYS_close_range, least, libc::c_uint::MAX, 0) } == 0 {
        return;
    }
    let most = read_limit(libc::RLIMIT_NOFILE).map_or(1024, |limit| limit.rlim_cur.min(65_536));
    for fd in first..RawFd::try_from(most).unwrap_or(1024) {
        // SAFETY: as above; the kernel refuses a number that is not open.
        unsafe { libc::close(fd) };
    }
}
