//! Waiting for a server that answers nothing for a while: whether it is slow, or stopped, or hangs.
//! Its liveness socket tells, on which a thread of its own answers.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpool_wire::live::{ANSWER_MAX, Liveness};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};

use crate::absence::Absence;
use crate::socket;

/// How long a server may answer nothing before its liveness is checked.
const LOOK: Duration = Duration::from_secs(3);
/// Longest time between two checks, where a long silence is usual.
const LOOK_MAX: Duration = Duration::from_secs(15);
/// How long the liveness check may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// After this time without an answer of a server that lives, a note says so.
const SLOW: Duration = Duration::from_secs(10);
/// After this time in one step of the core, or one write of the disk, a server counts as hanging.
const STUCK: Duration = Duration::from_secs(60);

/// Why a server answers nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct Silence {
    /// Its process, where the system tells.
    pub pid: Option<u32>,
    /// What keeps it from answering.
    pub cause: Cause,
}

/// What keeps a server from answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its process is stopped: by SIGSTOP, or Ctrl-Z.
    Stopped,
    /// Its process is there, and no thread of it answers.
    Hangs,
    /// Its core has worked on one step for that many seconds.
    Core(u64),
    /// Its disk has not taken a write for that many seconds.
    Disk(u64),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        match self.cause {
            Cause::Stopped => write!(f, "the server{of} does not answer: its process is stopped"),
            Cause::Hangs => write!(f, "the server{of} does not answer: its process hangs"),
            Cause::Core(s) => write!(f, "the core of the server{of} has not answered for {s} s"),
            Cause::Disk(s) => {
                write!(f, "the disk of the server{of} has not taken a write for {s} s")
            }
        }
    }
}

/// What a liveness check finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The server lives.
    Alive(Liveness),
    /// It does not.
    Silent(Silence),
    /// The server is of a version without a liveness socket, or has ended.
    Unknown,
}

impl Life {
    /// Asks the server with that API socket. Takes about a second at most.
    #[must_use]
    pub fn of(api: &Path, pid: Option<u32>) -> Self {
        match answer(api) {
            Ok(alive) => Self::Alive(alive),
            Err(_) if pid.is_some_and(is_stopped) => {
                Self::Silent(Silence { pid, cause: Cause::Stopped })
            }
            // It takes connections, or has no room for more, and does not answer.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Self::Silent(Silence { pid, cause: Cause::Hangs })
            }
            Err(_) => Self::Unknown,
        }
    }

    /// Why the server will not answer soon, if it will not.
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

fn answer(api: &Path) -> io::Result<Liveness> {
    let stream = socket::connect(&socket::liveness(api), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut line)?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// The process that listens at the other end of a connection.
pub fn pid_of(stream: impl AsFd) -> Option<u32> {
    let peer = socket_peercred(stream).ok()?;
    // Zero where it is not in this namespace of processes.
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok().filter(|pid| *pid > 0)
}

/// Whether a process is stopped by a signal.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may have any characters.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Reads from a server and writes to it, and checks that it lives while it answers nothing.
#[derive(Debug, Clone)]
pub struct Vigil {
    api: PathBuf,
    absence: Absence,
}

impl Vigil {
    pub(crate) fn new(api: &Path, absence: Absence) -> Self {
        Self { api: api.to_owned(), absence }
    }

    /// Reads what comes next, within `most` if that is given.
    ///
    /// # Errors
    /// `TimedOut` after that time; a [`Silence`] of a server that is not waited for; else what the
    /// system reports.
    pub fn read(
        &self,
        mut stream: &UnixStream,
        buffer: &mut [u8],
        most: Option<Duration>,
    ) -> io::Result<usize> {
        let mut wait = Wait::new(self, most);
        loop {
            let slice = wait.next()?;
            set_socket_timeout(stream, Timeout::Recv, Some(slice))?;
            match stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => wait.look(stream)?,
                Ok(n_read @ 1..) => {
                    wait.end();
                    return Ok(n_read);
                }
                other => return other,
            }
        }
    }

    /// Writes all of it, within `most` if that is given.
    ///
    /// # Errors
    /// As for [`Vigil::read`].
    pub fn write_all(
        &self,
        mut stream: &UnixStream,
        mut bytes: &[u8],
        most: Option<Duration>,
    ) -> io::Result<()> {
        let mut wait = Wait::new(self, most);
        while !bytes.is_empty() {
            let slice = wait.next()?;
            set_socket_timeout(stream, Timeout::Send, Some(slice))?;
            match stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n_written) => {
                    bytes = &bytes[n_written..];
                    wait.heard();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => wait.look(stream)?,
                Err(error) => return Err(error),
            }
        }
        wait.end();
        Ok(())
    }

    /// Whether a server that is silent is waited for.
    pub(crate) fn is_patient(&self) -> bool {
        self.absence.is_patient()
    }

    /// Connects to the API.
    ///
    /// # Errors
    /// As for [`Vigil::read`].
    pub fn connect(&self) -> io::Result<UnixStream> {
        loop {
            match socket::connect(&self.api, socket::CONNECT_PATIENCE) {
                Err(error) if is_late(&error) => {
                    let life = Life::of(&self.api, None);
                    let Some(silence) = life.silence() else { continue };
                    self.silent(silence)?;
                }
                other => return other,
            }
        }
    }

    /// Reports the silence where the client is patient; gives up where it is not.
    fn silent(&self, silence: Silence) -> io::Result<()> {
        if self.absence.is_patient() {
            self.absence.silent(silence);
            return Ok(());
        }
        Err(io::Error::other(silence))
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The silence that an error is for.
#[must_use]
pub fn silence_of(error: &(dyn std::error::Error + 'static)) -> Option<Silence> {
    std::iter::successors(Some(error), |error| {
        // An error of input or output hides the error that it was made of.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        }
    })
    .find_map(|error| error.downcast_ref::<Silence>().copied())
}

/// One wait for a server.
struct Wait<'v> {
    vigil: &'v Vigil,
    began: Instant,
    heard: Instant,
    most: Option<Duration>,
    until_look: Duration,
    is_told: bool,
}

impl<'v> Wait<'v> {
    fn new(vigil: &'v Vigil, most: Option<Duration>) -> Self {
        let began = Instant::now();
        Self { vigil, began, heard: began, most, until_look: LOOK, is_told: false }
    }

    /// How long the system may wait this time.
    fn next(&self) -> io::Result<Duration> {
        let Some(most) = self.most else { return Ok(self.until_look) };
        // Zero means no limit to the kernel, and an elapsed one here.
        match most.saturating_sub(self.began.elapsed()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left.min(self.until_look)),
        }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    fn look(&mut self, stream: &UnixStream) -> io::Result<()> {
        if self.heard.elapsed() < LOOK {
            return Ok(());
        }
        let life = Life::of(&self.vigil.api, pid_of(stream));
        let absence = &self.vigil.absence;
        if let Some(silence) = life.silence() {
            self.until_look = LOOK;
            self.is_told = true;
            return self.vigil.silent(silence);
        }
        if let Life::Alive(alive) = life {
            if self.is_told || absence.is_patient() {
                absence.back();
            } else if self.heard.elapsed() >= SLOW {
                self.is_told = true;
                absence.slow(self.heard.elapsed(), alive);
            }
        }
        if absence.is_patient() {
            self.until_look = (self.until_look * 2).min(LOOK_MAX);
        }
        Ok(())
    }

    fn end(&self) {
        if self.is_told {
            self.vigil.absence.back();
        }
    }
}
