//! The shepherd's connection to an agent: first the socket that it started with; after that agent's
//! end, a connection to the next agent that listens in the state directory.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use gpool_model::attach::NotOpened;
use gpool_model::id::TaskId;
use gpool_sys::clock;
use rustix::fs::{Mode, OFlags, inotify};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use serde::Serialize;

use crate::layout::Layout;
use crate::message::{FromShepherd, ToShepherd, line as message_line, take_lines};

const PATIENCE_LEAST_MS: u64 = 500;
const PATIENCE_MOST_MS: u64 = 30_000;

/// A connection that may be down.
pub(super) struct Link {
    task: TaskId,
    /// The state directory, open: paths through its descriptor are always short.
    folder: OwnedFd,
    state: LinkState,
    /// When (on the boot clock) to try to connect again, if no event comes before.
    retry_at: u64,
    /// The last pause between two attempts.
    patience: u64,
    input: Vec<u8>,
}

enum LinkState {
    Up(OwnedFd),
    /// No agent listens. The watch reports changes in the folder; there may be none, since the
    /// number of watches per user is limited.
    Down(Option<OwnedFd>),
}

/// The result of reading the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkEvent {
    /// Messages, perhaps none.
    Messages(Vec<ToShepherd>),
    /// It is up again: the shepherd must repeat its state.
    UpAgain,
    Down,
}

impl Link {
    /// `input` are bytes that were read from the socket and not used.
    pub(super) fn new(
        task: TaskId,
        layout: &Layout,
        socket: OwnedFd,
        input: Vec<u8>,
    ) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(layout.state(), flags, Mode::empty())?;
        Ok(Self { task, folder, state: LinkState::Up(socket), retry_at: 0, patience: 0, input })
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    /// The descriptor to poll, if there is one.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            LinkState::Up(socket) => Some(socket.as_fd()),
            LinkState::Down(watch) => watch.as_ref().map(AsFd::as_fd),
        }
    }

    /// After how many milliseconds to reconnect if the connection is down: at once, then with
    /// growing pauses. The watch is usually faster, but it sees nothing if a living agent closed
    /// the connection.
    pub(super) fn retry_in(&self) -> Option<u64> {
        (!self.is_up()).then(|| self.retry_at.saturating_sub(clock::boot_ms()))
    }

    /// Sends a message if the connection is up.
    pub(super) fn say(&mut self, message: &impl Serialize) {
        let LinkState::Up(socket) = &self.state else { return };
        let line = message_line(message);
        // A message has a few hundred bytes: an agent without room for it hangs, and gets the state
        // after it reconnects.
        let sent = send(socket, &line, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        if sent != Ok(line.len()) {
            self.go_down();
        }
    }

    /// Reads the messages that have arrived.
    pub(super) fn hear(&mut self, is_off: bool) -> LinkEvent {
        let socket = match &self.state {
            LinkState::Up(socket) => socket,
            LinkState::Down(_) => return self.try_again(is_off),
        };
        let mut buffer = [0_u8; 4096];
        match rustix::net::recv(socket, &mut buffer[..], rustix::net::RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                self.go_down();
                LinkEvent::Down
            }
            Ok((length, _)) => {
                self.input.extend_from_slice(&buffer[..length]);
                LinkEvent::Messages(take_lines(&mut self.input))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                LinkEvent::Messages(take_lines(&mut self.input))
            }
            Err(_) => {
                self.go_down();
                LinkEvent::Down
            }
        }
    }

    /// Tries to connect to an agent now, and says in the first message whether the task's memory
    /// `is_off` its devices.
    pub(super) fn try_again(&mut self, is_off: bool) -> LinkEvent {
        if let LinkState::Down(Some(watch)) = &self.state {
            // The events are not used: the connection is tried in any case.
            let mut buffer = [0_u8; 1024];
            while rustix::io::read(watch, &mut buffer[..]).is_ok_and(|length| length > 0) {}
        }
        self.patience = (self.patience * 2).clamp(PATIENCE_LEAST_MS, PATIENCE_MOST_MS);
        self.retry_at = clock::boot_ms() + self.patience;
        match self.connect() {
            Ok(socket) => {
                self.state = LinkState::Up(socket);
                self.input.clear();
                let (task, is_off) = (self.task, Some(is_off));
                self.say(&FromShepherd::Hello { task, is_off });
                if self.is_up() { LinkEvent::UpAgain } else { LinkEvent::Down }
            }
            Err(_) => LinkEvent::Down,
        }
    }

    fn go_down(&mut self) {
        // Watched first and tried after, so that an agent that starts in between is not missed.
        self.state = LinkState::Down(self.watch().ok());
        (self.retry_at, self.patience) = (0, 0);
    }

    fn watch(&self) -> rustix::io::Result<OwnedFd> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, self.folder_path(), inotify::WatchFlags::MOVED_TO)?;
        Ok(watch)
    }

    fn connect(&self) -> rustix::io::Result<OwnedFd> {
        let path = format!("{}/{}", self.folder_path(), Layout::SOCKET);
        let address = SocketAddrUnix::new(OsStr::new(&path))?;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &address)?;
        Ok(socket)
    }

    /// Opens a stream to the agent by its number, or reports why it can't be opened. `None` if no
    /// agent listens.
    pub(super) fn open(&self, line: u64, not_opened: Option<NotOpened>) -> Option<OwnedFd> {
        let socket = self.connect().ok()?;
        let hello = message_line(&FromShepherd::Line { task: self.task, line, not_opened });
        (send(&socket, &hello, SendFlags::NOSIGNAL) == Ok(hello.len())).then_some(socket)
    }

    fn folder_path(&self) -> String {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd())
    }
}
