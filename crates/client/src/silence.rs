//! Why a server answers nothing, as an error.

use std::{fmt, io};

/// Why a server answers nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct Silence {
    /// The server's process ID, if the system reports it.
    pub pid: Option<u32>,
    /// The cause.
    pub cause: Cause,
}

/// Why a server does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its process is stopped: by SIGSTOP, or Ctrl-Z.
    Stopped,
    /// Its process exists, but no thread of it answers.
    Hangs,
    /// Its core has worked on one step for this number of seconds.
    Core(u64),
    /// Its disk has not completed a write for this number of seconds.
    Disk(u64),
    /// It accepts connections over the network, and says nothing.
    Remote,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        match self.cause {
            Cause::Stopped => write!(f, "the server{of} does not answer: its process is stopped"),
            Cause::Hangs => write!(f, "the server{of} does not answer: its process hangs"),
            Cause::Remote => f.write_str(
                "the server does not answer: its process is stopped or hangs, or the network does \
                 not reach it any more",
            ),
            Cause::Core(s) => {
                write!(f, "the main thread of the server{of} has not answered for {s} s")
            }
            Cause::Disk(s) => {
                write!(f, "the disk of the server{of} has not finished a write for {s} s")
            }
        }
    }
}

/// The [`Silence`] in an error's chain of sources.
#[must_use]
pub fn silence_of(error: &(dyn std::error::Error + 'static)) -> Option<Silence> {
    std::iter::successors(Some(error), |error| {
        // `source` of an I/O error skips the error that it wraps.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        }
    })
    .find_map(|error| error.downcast_ref::<Silence>().copied())
}
