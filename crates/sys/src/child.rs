//! Starting a program with all the care that a job needs: the code between fork and exec is ours.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;

use crate::proc;

/// The kernel's `struct clone_args`, as of version 2 (64 bytes … 88 bytes with `cgroup`).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks this process; `body` runs in the child and, if it returns at all, says what it could not
/// do by its exit status 127. With a cgroup (version 2) the child is born in it: moving it there
/// later would wait for a grace period of the kernel, milliseconds on an idle machine.
///
/// # Errors
/// If the process has several threads (a lock that another holds would stay held in the child for
/// ever), or there is no room for one more process.
pub fn fork(cgroup: Option<BorrowedFd<'_>>, body: impl FnOnce() -> Infallible) -> io::Result<u32> {
    check_one_thread()?;
    let pid = match cgroup {
        // SAFETY: the only thread is this one, so the child's copy of memory is consistent.
        None => i64::from(unsafe { libc::fork() }),
        Some(cgroup) => {
            let args = CloneArgs {
                flags: CLONE_INTO_CGROUP,
                exit_signal: libc::SIGCHLD as u64,
                cgroup: u64::try_from(cgroup.as_raw_fd()).unwrap_or(0),
                ..CloneArgs::default()
            };
            // SAFETY: `args` is a valid `clone_args` of the size that is given. Without CLONE_VM
            // and a stack it is a fork, and the only thread is this one. What the C library does
            // after its own fork (for threads and locks of others) is not needed then.
            unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) }
        }
    };
    in_child(pid, body)
}

/// Forks this process and answers with a handle on the child. `body` is as for [`fork`]. The handle
/// is made with the child, so there is no moment in which its id could mean another process.
///
/// # Errors
/// As for [`fork`].
pub fn fork_with_handle(body: impl FnOnce() -> Infallible) -> io::Result<(u32, OwnedFd)> {
    check_one_thread()?;
    let mut handle: libc::c_int = -1;
    // Not `clone3`: filters of containers that can't look into its arguments refuse it.
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM and a stack it is a fork, and the only thread is this one. The
    // third argument is where the kernel writes the handle, for the length of the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, &raw mut handle, none, none) };
    let pid = in_child(pid, body)?;
    // SAFETY: the kernel has just given us this descriptor and nobody else has it.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(handle) }))
}

fn check_one_thread() -> io::Result<()> {
    match proc::n_threads()? {
        1 => Ok(()),
        _ => Err(io::Error::other("only a process with one thread may fork")),
    }
}

/// Goes on after a fork: in the parent with the child's id, in the child with what it is for.
fn in_child(pid: i64, body: impl FnOnce() -> Infallible) -> io::Result<u32> {
    match pid {
        0 => {
            // A panic must not unwind into what was the parent's stack.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(body));
            // SAFETY: ends the child at once; nothing of the parent's is flushed twice.
            unsafe { libc::_exit(127) }
        }
        -1 => Err(io::Error::last_os_error()),
        pid => u32::try_from(pid).map_err(io::Error::other),
    }
}

/// Becomes another program; returns only if that fails.
#[must_use]
pub fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| {
        let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(std::ptr::null());
        pointers
    };
    let (argv, envp) = (pointers(arguments), pointers(environment));
    // SAFETY: all strings end with NUL, both lists end with null, and all outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Makes a descriptor be 0, 1 or 2, and inherited; the one there before is closed.
///
/// # Errors
/// If the descriptor is not open.
pub fn place(fd: BorrowedFd<'_>, standard: i32) -> io::Result<()> {
    // Equal numbers would keep the flag that closes it.
    if fd.as_raw_fd() == standard {
        // SAFETY: clears the flags of an open descriptor.
        crate::check(unsafe { libc::fcntl(standard, libc::F_SETFD, 0) })?;
        return Ok(());
    }
    // SAFETY: `fd` is open; whatever has the standard number is ours to replace, which is what
    // the caller asks for.
    crate::check(unsafe { libc::dup2(fd.as_raw_fd(), standard) })?;
    Ok(())
}

/// A child of this process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its process id.
    pub pid: u32,
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

/// A child of this process that has ended and was not reaped, which it still is not then.
#[must_use]
pub fn first_ended() -> Option<Ended> {
    // SAFETY: `siginfo_t` is plain data.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing.
    crate::check(unsafe { libc::waitid(libc::P_ALL, 0, &mut info, how) }).ok()?;
    // SAFETY: it was filled in for a child, or is all zeros.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0)?;
    Some(Ended { pid, code: (info.si_code == libc::CLD_EXITED).then_some(status) })
}

/// Ends this process at once, without running anything that was meant for another.
pub fn end(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Whether the kernel knows how to (Linux 5.7): asked with arguments that it refuses either way.
#[must_use]
pub fn can_be_born_in_cgroup() -> bool {
    let args = CloneArgs { flags: CLONE_INTO_CGROUP, cgroup: u64::MAX, ..CloneArgs::default() };
    // SAFETY: the group's number is no descriptor, so no process is made; `args` is valid.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) };
    let error = io::Error::last_os_error().raw_os_error();
    result == -1 && matches!(error, Some(libc::EINVAL | libc::EBADF))
}
