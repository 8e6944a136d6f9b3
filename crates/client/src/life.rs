//! Checks whether a server lives, over its liveness socket, which a separate thread of the server
//! answers.

use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use gpool_wire::live::{ANSWER_MAX, Liveness};
use rustix::net::sockopt::socket_peercred;

use crate::silence::{Cause, Silence};
use crate::socket;

/// How long the liveness check may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server counts as hanging after this time in one step of its core, or in one write to its disk.
const STUCK: Duration = Duration::from_secs(60);

/// The result of a liveness check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The server lives.
    Alive(Liveness),
    /// The server does not answer.
    Silent(Silence),
    /// The server has no liveness socket (an older version), or has ended.
    Unknown,
}

impl Life {
    /// Checks the server with this API socket. Takes about a second at most.
    #[must_use]
    pub fn of(api: &Path, pid: Option<u32>) -> Self {
        match answer(api) {
            Ok(alive) => Self::Alive(alive),
            Err(_) if pid.is_some_and(is_stopped) => {
                Self::Silent(Silence { pid, cause: Cause::Stopped })
            }
            // The server accepts connections, or its queue is full, and it does not answer.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Self::Silent(Silence { pid, cause: Cause::Hangs })
            }
            Err(_) => Self::Unknown,
        }
    }

    /// Why the server will not answer soon; `None` if it may.
    #[must_use]
    pub fn silence(self) -> Option<Silence> {
        let is_long = |ms: u64| u128::from(ms) >= STUCK.as_millis();
        match self {
            Self::Silent(silence) => Some(silence),
            Self::Alive(it) if is_long(it.store_ms) => {
                Some(Silence { pid: Some(it.pid), cause: Cause::Disk(it.store_ms / 1000) })
            }
            Self::Alive(it) if is_long(it.core_ms) => {
                Some(Silence { pid: Some(it.pid), cause: Cause::Core(it.core_ms / 1000) })
            }
            Self::Alive(_) | Self::Unknown => None,
        }
    }
}

pub(crate) fn answer(api: &Path) -> io::Result<Liveness> {
    let stream = socket::connect(&socket::liveness(api), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut line)?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// The process at the listening end of a connection.
pub fn pid_of(stream: impl AsFd) -> Option<u32> {
    let peer = socket_peercred(stream).ok()?;
    // Zero if the process is in another PID namespace.
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok().filter(|pid| *pid > 0)
}

/// Whether a process is stopped by a signal.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name before the state may contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}
