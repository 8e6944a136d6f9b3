//! Signals of this process: which it takes as data, and a clean slate for a program to start with.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use crate::check;

/// The highest signal number of Linux on every architecture that has a GPU driver.
pub const HIGHEST: i32 = 64;

fn empty_set() -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain data that `sigemptyset` then initialises whole.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writing.
    unsafe { libc::sigemptyset(&mut set) };
    set
}

/// Blocks signals and gives a descriptor from which they can be read; it never blocks and is not
/// inherited by programs.
///
/// # Errors
/// If descriptors ran out.
pub fn watch(signals: &[i32]) -> io::Result<OwnedFd> {
    let mut set = empty_set();
    for signal in signals {
        // SAFETY: `set` is an initialised set.
        check(unsafe { libc::sigaddset(&mut set, *signal) })?;
    }
    // SAFETY: `set` is initialised; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) })?;
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = check(unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
    // SAFETY: the kernel has just given us this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The signals that have come in since the last call, each named once however often it came.
///
/// # Errors
/// If the descriptor is not one of [`watch`].
pub fn take(watched: impl AsFd) -> io::Result<Vec<i32>> {
    Ok(take_from(watched)?.into_iter().map(|(number, _)| number).collect())
}

/// The same, each with the process that sent it; 0 for the kernel.
///
/// # Errors
/// If the descriptor is not one of [`watch`].
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
    // SAFETY: SIG_IGN runs no code of ours; a number that is no signal is refused by the kernel.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Gives every signal its default effect and unblocks all: what a program expects at its start.
/// An ignored SIGCHLD or SIGPIPE would otherwise be inherited.
pub fn reset() {
    // The kernel's `struct sigaction` and signal set: all zeros is the default effect, no flags and
    // no signal. Asked of the kernel itself, because the C library keeps two signals for itself.
    let zeros = [0_u64; 4];
    let none = std::ptr::null_mut::<u64>();
    for signal in 1..=HIGHEST {
        // SAFETY: `zeros` is as long as the kernel reads, and the default effect runs no code of
        // ours; KILL and STOP are refused.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, zeros.as_ptr(), none, 8) };
    }
    // SAFETY: `zeros` is as long as the kernel reads; the old mask is not asked for.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, zeros.as_ptr(), none, 8) };
}

/// Makes ended children stay until they are waited for: whoever started this process may have
/// made it ignore SIGCHLD, and then process ids could be reused before their end is seen.
pub fn keep_ended_children() {
    // SAFETY: `sigaction` is plain data; the call only asks.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is valid for writing; no new action is given.
    let asked = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action) };
    if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
        // SAFETY: SIG_DFL runs no code of ours.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}
