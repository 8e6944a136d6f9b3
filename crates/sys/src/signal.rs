//! Signals of this process: reading them as data, and resetting them for a new program.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::check;

/// The highest signal number of Linux on every architecture that has a GPU driver.
pub const HIGHEST: i32 = 64;

fn empty_set() -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain data, and `sigemptyset` initialises all of it.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writing.
    unsafe { libc::sigemptyset(&mut set) };
    set
}

/// Blocks signals and returns a descriptor to read them from; it never blocks and programs do not
/// inherit it.
///
/// # Errors
/// If there are too many open descriptors.
pub fn watch(signals: &[i32]) -> io::Result<OwnedFd> {
    let mut set = empty_set();
    for signal in signals {
        // SAFETY: `set` is an initialised set.
        check(unsafe { libc::sigaddset(&mut set, *signal) })?;
    }
    // SAFETY: `set` is initialised; the old mask is not requested.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) })?;
    // SAFETY: `set` is initialised; -1 requests a new descriptor.
    let fd = check(unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
    // SAFETY: the kernel has just made this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the signals since the last call, each once.
///
/// # Errors
/// If the descriptor is not from [`watch`].
pub fn take(watched: impl AsFd) -> io::Result<Vec<i32>> {
    Ok(take_from(watched)?.into_iter().map(|(number, _)| number).collect())
}

/// Returns the signals since the last call with their senders' process IDs; 0 is the kernel.
///
/// # Errors
/// If the descriptor is not from [`watch`].
pub fn take_from(watched: impl AsFd) -> io::Result<Vec<(i32, u32)>> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut taken = Vec::new();
    let mut buffer = [0_u8; SIZE * 8];
    loop {
        match rustix::io::read(&watched, &mut buffer[..]) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(taken),
            Ok(length) => {
                for entry in buffer[..length].chunks_exact(SIZE) {
                    // Both are `u32`: the number first, the sender fourth.
                    let field = |at: usize| {
                        u32::from_ne_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
                    };
                    taken.extend(i32::try_from(field(0)).map(|number| (number, field(12))));
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ignores a signal from now on.
pub fn ignore(signal: i32) {
    // SAFETY: SIG_IGN runs no code of this program; the kernel refuses invalid numbers.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Resets every signal to its default action and unblocks all, as a program expects at its start.
/// It would otherwise inherit an ignored SIGCHLD or SIGPIPE.
pub fn reset() {
    // The kernel's `struct sigaction` and signal set: all zeros means default action, no flags and
    // no signal. A direct system call, because the C library reserves two signals.
    let zeros = [0_u64; 4];
    let none = std::ptr::null_mut::<u64>();
    for signal in 1..=HIGHEST {
        // SAFETY: `zeros` is as long as the kernel reads, and the default action runs no code of
        // this program; KILL and STOP are refused.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, zeros.as_ptr(), none, 8) };
    }
    // SAFETY: `zeros` is as long as the kernel reads; the old mask is not requested.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, zeros.as_ptr(), none, 8) };
}

/// Makes a command start its program without blocked signals, as a program expects it.
pub fn unblock_in(command: &mut Command) {
    let none = empty_set();
    let unblock = move || {
        // SAFETY: `none` is initialised; the old mask is not requested.
        check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) })?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(unblock) };
}

/// Keeps ended children until they are reaped. The parent process may have set SIGCHLD to ignored,
/// and then process IDs could be reused before their ends are noticed.
pub fn keep_ended_children() {
    // SAFETY: `sigaction` is plain data; the call only reads the action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is valid for writing; no new action is set.
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action) };
    if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
        // SAFETY: SIG_DFL runs no code of this program.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}
