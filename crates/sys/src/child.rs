//! Forking and executing programs: full control over the code between fork and exec.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;

use crate::proc;

/// The kernel's `struct clone_args`, version 2 (88 bytes, with `cgroup`).
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

/// Forks this process. `body` runs in the child; if it panics, the child exits with status 127.
/// With a cgroup (version 2) the child starts in it: a later move would wait for a grace period of
/// the kernel, milliseconds on an idle machine.
///
/// # Errors
/// If the process has several threads (a lock of another thread would stay locked in the child
/// forever), or if there are too many processes.
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
            // SAFETY: `args` is a valid `clone_args` of the given size. Without CLONE_VM and a
            // stack this is a fork, and the process has only one thread. The C library's work after
            // its own fork (for threads and locks of others) is not needed then.
            unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) }
        }
    };
    in_child(pid, body)
}

/// Forks this process and returns a handle of the child. `body` is as for [`fork`]. The handle is
/// made together with the child, so it can't refer to another process with the same ID.
pub fn fork_with_handle(body: impl FnOnce() -> Infallible) -> io::Result<(u32, OwnedFd)> {
    check_one_thread()?;
    let mut handle: libc::c_int = -1;
    // Not `clone3`: seccomp filters of containers can't inspect its arguments and refuse it.
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM and a stack this is a fork, and the process has only one thread. The
    // kernel writes the handle to the third argument during the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, &raw mut handle, none, none) };
    let pid = in_child(pid, body)?;
    // SAFETY: the kernel has just made this descriptor, and it has no other owner.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(handle) }))
}

fn check_one_thread() -> io::Result<()> {
    match proc::n_threads()? {
        1 => Ok(()),
        _ => Err(io::Error::other("only a process with one thread may fork")),
    }
}

/// Continues after a fork: returns the child's ID in the parent, runs `body` in the child.
fn in_child(pid: i64, body: impl FnOnce() -> Infallible) -> io::Result<u32> {
    match pid {
        0 => {
            // A panic must not unwind into the parent's stack frames.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(body));
            // SAFETY: ends the child at once, without flushing the parent's buffers twice.
            unsafe { libc::_exit(127) }
        }
        -1 => Err(io::Error::last_os_error()),
        pid => u32::try_from(pid).map_err(io::Error::other),
    }
}

/// Executes another program; returns only if that fails.
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

/// Makes a descriptor 0, 1 or 2, and inheritable; closes the previous one.
///
/// # Errors
/// If the descriptor is not open.
pub fn place(fd: BorrowedFd<'_>, standard: i32) -> io::Result<()> {
    // dup2 of equal numbers would keep the close-on-exec flag.
    if fd.as_raw_fd() == standard {
        // SAFETY: clears the flags of an open descriptor.
        crate::check(unsafe { libc::fcntl(standard, libc::F_SETFD, 0) })?;
        return Ok(());
    }
    // SAFETY: `fd` is open; the caller wants the standard descriptor replaced.
    crate::check(unsafe { libc::dup2(fd.as_raw_fd(), standard) })?;
    Ok(())
}

/// A child of this process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedChild {
    pub pid: u32,
    /// Its exit code, or the signal that ended it.
    pub status: Result<i32, i32>,
}

/// Returns a child that has ended and is not reaped; does not reap it.
#[must_use]
pub fn first_ended() -> Option<EndedChild> {
    ended_of(libc::P_ALL, 0)
}

/// Returns how a child has ended that is not reaped; does not reap it. `None` if it lives.
#[must_use]
pub fn ended(pid: u32) -> Option<EndedChild> {
    ended_of(libc::P_PID, pid)
}

fn ended_of(which: libc::idtype_t, pid: u32) -> Option<EndedChild> {
    // SAFETY: `siginfo_t` is plain data.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing.
    crate::check(unsafe { libc::waitid(which, pid, &mut info, how) }).ok()?;
    // SAFETY: the kernel has filled it in for a child, or it is all zeros.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0)?;
    let is_exit = info.si_code == libc::CLD_EXITED;
    Some(EndedChild { pid, status: if is_exit { Ok(status) } else { Err(status) } })
}

/// Ends this process at once, without destructors or exit handlers.
pub fn end(code: i32) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code) }
}

/// Whether the kernel can fork into a cgroup (Linux 5.7): probed with invalid arguments.
#[must_use]
pub fn can_be_born_in_cgroup() -> bool {
    let args = CloneArgs { flags: CLONE_INTO_CGROUP, cgroup: u64::MAX, ..CloneArgs::default() };
    // SAFETY: the cgroup is an invalid descriptor, so no process is made; `args` is valid.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) };
    let error = io::Error::last_os_error().raw_os_error();
    result == -1 && matches!(error, Some(libc::EINVAL | libc::EBADF))
}
