//! One stream of a client that is attached to the task, or to a program beside it. Sends and
//! receives frames without blocking.

use std::os::fd::OwnedFd;

use gpool_sys::clock;
use gpool_wire::frame::{Frame, Frames};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Unsent bytes at which the program that writes them has to wait.
const ROOM: usize = 256 * 1024;
/// How long a program waits for a client that reads nothing, in milliseconds; then the client is
/// disconnected.
const PATIENCE_MS: u64 = 10_000;

pub(super) struct Attachment {
    line: OwnedFd,
    frames: Frames,
    output: Vec<u8>,
    /// Since when (on the boot clock) the output has been full with nothing sent.
    stuck_since: Option<u64>,
    is_disconnected: bool,
}

impl Attachment {
    pub(super) fn new(line: OwnedFd) -> Self {
        let (frames, output) = (Frames::default(), Vec::new());
        Self { line, frames, output, stuck_since: None, is_disconnected: false }
    }

    pub(super) fn line(&self) -> &OwnedFd {
        &self.line
    }

    /// Sends a frame, now or when there is room.
    pub(super) fn say(&mut self, frame: &Frame) {
        if !self.is_disconnected {
            frame.write(&mut self.output);
            self.flush();
        }
    }

    /// Sends as much as the socket takes.
    pub(super) fn flush(&mut self) {
        while !self.output.is_empty() && !self.is_disconnected {
            match send(&self.line, &self.output, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
                    drop(self.output.drain(..sent));
                    self.stuck_since = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.is_disconnected = true,
            }
        }
        if self.is_full() && self.stuck_since.is_none() {
            self.stuck_since = Some(clock::boot_ms());
        }
    }

    /// Returns the frames that have arrived.
    pub(super) fn hear(&mut self, buffer: &mut [u8]) -> Vec<Frame> {
        match recv(&self.line, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.is_disconnected = true,
            Ok((length, _)) => self.frames.push(&buffer[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.is_disconnected = true,
        }
        let mut heard = Vec::new();
        loop {
            match self.frames.next_frame() {
                Ok(Some(frame)) => heard.push(frame),
                Ok(None) => return heard,
                Err(_) => {
                    self.is_disconnected = true;
                    return heard;
                }
            }
        }
    }

    /// Whether bytes wait to be sent.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty() && !self.is_disconnected
    }

    /// Whether the writing program has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.output.len() >= ROOM && !self.is_disconnected
    }

    /// Whether the client has disconnected.
    pub(super) fn is_gone(&self) -> bool {
        self.is_disconnected
    }

    /// After how many milliseconds a client that reads nothing is disconnected.
    pub(super) fn patience(&self) -> Option<u64> {
        let since = self.stuck_since.filter(|_| self.is_full())?;
        Some((since + PATIENCE_MS).saturating_sub(clock::boot_ms()))
    }
}
