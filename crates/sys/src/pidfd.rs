//! Handles of processes: unlike a process ID, a handle always refers to the process that it was
//! opened for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

/// Opens the process that has this ID now; `None` if there is none. Check after opening, never
/// before, whether it is the intended process.
///
/// # Errors
/// If the kernel has no pidfds, or there are too many open descriptors.
pub fn open(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal by number; `false` if the process has ended.
///
/// # Errors
/// If the signal does not exist, or is not permitted.
pub fn signal(process: impl AsFd, number: i32) -> io::Result<bool> {
    let signal = Signal::from_named_raw(number)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such signal"))?;
    match pidfd_send_signal(process, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the process has ended, reaped or not.
pub fn has_ended(process: impl AsFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut fds, Some(&now))? > 0)
}

/// Reaps a child of this process that has ended. Does nothing to a living child or another process.
pub fn reap(process: impl AsFd) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let _ = waitid(WaitId::PidFd(process.as_fd()), how);
}
