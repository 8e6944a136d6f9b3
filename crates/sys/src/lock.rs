//! Open-file-description locks: they belong to an open file. The kernel releases a lock when the
//! last copy of the descriptor is closed, also when a process is killed.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::check;

#[allow(clippy::cast_possible_truncation)] // Kernel constants, 1 and 0.
fn whole_file() -> libc::flock {
    // SAFETY: `flock` is plain data, and all zeros is a valid value; OFD locks require `l_pid` to
    // be zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Takes the lock on a whole file; `false` if it is taken. Never waits.
///
/// # Errors
/// If the file system does not support such locks.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    let lock = whole_file();
    // SAFETY: the descriptor is open for the length of the call and `lock` is a valid `flock`.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &lock) };
    match check(result) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Whether another open file holds the lock on a whole file.
///
/// # Errors
/// If the file system does not support such locks.
pub fn is_held(file: impl AsFd) -> io::Result<bool> {
    let mut lock = whole_file();
    // SAFETY: as in `try_lock`; the kernel writes the answer into `lock`.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    check(result)?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}
