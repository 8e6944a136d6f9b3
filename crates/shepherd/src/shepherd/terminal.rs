//! The terminal of a job: the program gets the slave side, the shepherd keeps the master side. It
//! remembers the last output for clients that attach later.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use gpool_model::WindowSize;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

/// Bytes of output that are remembered: a few screens.
pub const REMEMBERED: usize = 32 * 1024;
/// Typed bytes that may wait for the program; at this size no more are read.
const TYPED_MOST: usize = 64 * 1024;

/// The master side.
pub struct Terminal {
    master: OwnedFd,
    scrollback: VecDeque<u8>,
    typed: Vec<u8>,
}

/// Makes a terminal with this size. The slave side is for the program and belongs to its user.
pub fn open(size: WindowSize, owner: Option<(u32, u32)>) -> Result<(Terminal, OwnedFd), String> {
    make(size, owner).map_err(|error| format!("can't create a terminal: {error}"))
}

fn make(size: WindowSize, owner: Option<(u32, u32)>) -> io::Result<(Terminal, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(&slave, Some(uid), Some(gid))?;
    }
    rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
    let terminal = Terminal { master, scrollback: VecDeque::new(), typed: Vec::new() };
    terminal.resize(size);
    Ok((terminal, slave))
}

impl Terminal {
    /// A further descriptor of the master side, to read from.
    pub(super) fn reader(&self) -> Result<OwnedFd, String> {
        rustix::io::fcntl_dupfd_cloexec(&self.master, 3)
            .map_err(|error| format!("can't create a terminal: {error}"))
    }

    /// The descriptor to poll until typed bytes can be written.
    pub(super) fn master(&self) -> &OwnedFd {
        &self.master
    }

    /// Sets the size of the window.
    pub(super) fn resize(&self, size: WindowSize) {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // Fails if the terminal has no program; then no program needs the size.
        let _ = rustix::termios::tcsetwinsize(&self.master, size);
    }

    /// Makes a full-screen program redraw: changes the size and changes it back, since such
    /// programs redraw on a change of size.
    pub fn redraw(&self, size: Option<WindowSize>) {
        let Ok(now) = rustix::termios::tcgetwinsize(&self.master) else { return };
        let size = size.unwrap_or(WindowSize { rows: now.ws_row, columns: now.ws_col });
        let other = WindowSize { columns: size.columns.saturating_add(1), ..size };
        self.resize(other);
        self.resize(size);
    }

    /// Remembers the program's output.
    pub fn note(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(REMEMBERED)..];
        let too_many = (self.scrollback.len() + last.len()).saturating_sub(REMEMBERED);
        self.scrollback.drain(..too_many);
        self.scrollback.extend(last);
    }

    /// The remembered output. If older output is missing, it begins with a whole line.
    pub fn scrollback(&self) -> Vec<u8> {
        let is_all = self.scrollback.len() < REMEMBERED;
        let line = self.scrollback.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.scrollback.iter().skip(if is_all { 0 } else { line }).copied().collect()
    }

    /// Takes typed bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.typed.extend_from_slice(bytes);
        self.hand_on();
    }

    /// Whether typed bytes wait for the program to read.
    pub(super) fn has_typed(&self) -> bool {
        !self.typed.is_empty()
    }

    /// Whether to read no more typed bytes for now.
    pub(super) fn is_full(&self) -> bool {
        self.typed.len() >= TYPED_MOST
    }

    /// Writes as many typed bytes as the terminal takes.
    pub(super) fn hand_on(&mut self) {
        write_some(&self.master, &mut self.typed);
    }
}

/// Writes as much as the descriptor takes. If the reader is gone, drops the bytes and returns
/// `false`.
pub(super) fn write_some(to: &OwnedFd, bytes: &mut Vec<u8>) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => drop(bytes.drain(..written)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => {
                bytes.clear();
                return false;
            }
        }
    }
    true
}
