//! Handles on processes: unlike a process id, one never means another process than the one it was
//! opened for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

/// Opens the process that has an id now; `None` if there is none. Whether it is the one that was
/// meant has to be asked after opening, never before.
///
/// # Errors
/// If the kernel has no pidfds, or descriptors ran out.
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
/// If there is no such signal, or it is not allowed.
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
///
/// # Errors
/// If it can't be asked.
pub fn has_ended(process: impl AsFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut fds, Some(&now))? > 0)
}

/// Takes a child of this process that has ended out of the list of processes; another process, and
/// a child that lives, are left as they are.
pub fn reap(process: impl AsFd) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let _ = waitid(WaitId::PidFd(process.as_fd()), how);
}
