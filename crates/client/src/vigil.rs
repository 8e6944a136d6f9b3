//! Waits for a server that answers nothing, and finds out whether it is slow, stopped, or hangs.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::absence::Absence;
use crate::life::{Life, pid_of};
use crate::silence::{Silence, silence_of};
use crate::socket::{self, Way};
use crate::tunnel;

/// How long a server may be silent before its liveness is checked.
const LOOK: Duration = Duration::from_secs(3);
/// Longest time between two checks, where long silences are normal.
const LOOK_MAX: Duration = Duration::from_secs(15);
/// After this time without an answer, a living server is reported as slow.
const SLOW: Duration = Duration::from_secs(10);

/// Reads from and writes to a server; checks its liveness while it is silent.
#[derive(Debug, Clone)]
pub struct Vigil {
    way: Way,
    absence: Absence,
}

impl Vigil {
    pub(crate) fn new(way: Way, absence: Absence) -> Self {
        Self { way, absence }
    }

    /// Checks the server's liveness; over the network, whether it answers another connection.
    fn life(&self, pid: Option<u32>) -> Life {
        match &self.way {
            Way::Socket(api) => Life::of(api, pid),
            Way::Remote(remote) => match remote.check() {
                Err(error) => silence_of(&error).map_or(Life::Unknown, Life::Silent),
                Ok(()) => Life::Unknown,
            },
        }
    }

    /// Reads the next bytes, within `most` if given.
    ///
    /// # Errors
    /// `TimedOut` after that time; a [`Silence`] if the client does not wait for a silent server;
    /// otherwise the system's error.
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

    /// Writes all bytes, within `most` if given.
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
                    wait.note_activity();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => wait.look(stream)?,
                Err(error) => return Err(error),
            }
        }
        wait.end();
        Ok(())
    }

    /// Whether the client waits for a silent server.
    pub(crate) fn is_patient(&self) -> bool {
        self.absence.is_patient()
    }

    /// Connects to the API.
    ///
    /// # Errors
    /// As for [`Vigil::read`].
    pub fn connect(&self) -> io::Result<UnixStream> {
        let api = match &self.way {
            Way::Socket(api) => api,
            Way::Remote(remote) => return tunnel::connect(remote),
        };
        loop {
            match socket::connect(api, socket::CONNECT_PATIENCE) {
                Err(error) if is_late(&error) => {
                    let Some(silence) = self.life(None).silence() else { continue };
                    self.silent(silence)?;
                }
                other => return other,
            }
        }
    }

    /// Reports the silence if the client waits for the server; otherwise returns it as an error.
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

/// One wait for a server.
struct Wait<'v> {
    vigil: &'v Vigil,
    began: Instant,
    last_activity: Instant,
    most: Option<Duration>,
    until_look: Duration,
    is_told: bool,
}

impl<'v> Wait<'v> {
    fn new(vigil: &'v Vigil, most: Option<Duration>) -> Self {
        let began = Instant::now();
        Self { vigil, began, last_activity: began, most, until_look: LOOK, is_told: false }
    }

    /// The timeout of the next system call.
    fn next(&self) -> io::Result<Duration> {
        let Some(most) = self.most else { return Ok(self.until_look) };
        // The kernel takes zero for "no limit", but here it means that the time has elapsed.
        match most.saturating_sub(self.began.elapsed()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left.min(self.until_look)),
        }
    }

    fn note_activity(&mut self) {
        self.last_activity = Instant::now();
    }

    fn look(&mut self, stream: &UnixStream) -> io::Result<()> {
        if self.last_activity.elapsed() < LOOK {
            return Ok(());
        }
        let life = self.vigil.life(pid_of(stream));
        let absence = &self.vigil.absence;
        if let Some(silence) = life.silence() {
            self.until_look = LOOK;
            self.is_told = true;
            return self.vigil.silent(silence);
        }
        if let Life::Alive(alive) = life {
            if self.is_told || absence.is_patient() {
                absence.back();
            } else if self.last_activity.elapsed() >= SLOW {
                self.is_told = true;
                absence.slow(self.last_activity.elapsed(), alive);
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
