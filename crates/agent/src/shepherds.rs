//! The shepherds of one agent: starts them, exchanges messages with them, and notices their ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use gpool_link::Connection;
use gpool_model::attach::NotOpened;
use gpool_model::id::TaskId;
use gpool_sys::pidfd;
use rustix::fs::{AtFlags, Mode, OFlags, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, socket_with, socketpair,
};
use serde::Serialize;

use crate::wake::{Poller, Token};
use gpool_shepherd::layout::Layout;
use gpool_shepherd::message::{FromShepherd, line, take_lines};
use gpool_shepherd::nursery::{ForkOutcome, Nursery};

/// Most nurseries that one launch may use up. A killed nursery says nothing about the job, so the
/// launch is tried again; but a program that can't be a nursery fails each time.
const NURSERIES_MOST: u32 = 20;

pub(crate) struct Shepherd {
    pub pid: u32,
    process: OwnedFd,
    link: Option<ShepherdConnection>,
    /// Messages that wait for a connection.
    unsaid: Vec<u8>,
    /// Whether it has reported the end of the task.
    pub ended: bool,
}

impl Shepherd {
    /// Whether a message would be delivered now.
    pub(crate) fn hears(&self) -> bool {
        self.link.is_some() && !self.ended
    }
}

struct ShepherdConnection {
    socket: OwnedFd,
    token: Token,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// A process wants to connect.
    Listener,
    /// A shepherd sent something, can take more, or closed its connection.
    Line(TaskId),
    /// A shepherd has ended.
    Process(TaskId),
    /// A connected process that has not introduced itself.
    Stranger,
    /// A dismissed shepherd has ended.
    Leaving,
}

/// The first message of a connected process.
pub(crate) enum Introduced {
    /// It is the shepherd of a task.
    Shepherd(Caller),
    /// This is a requested stream to a task.
    Line {
        /// The peer, as the kernel reports it.
        pid: u32,
        task: TaskId,
        line: u64,
        opened: Result<Connection, NotOpened>,
    },
}

/// A process that has introduced itself as a task's shepherd.
pub(crate) struct Caller {
    pub task: TaskId,
    /// Whether the task's memory is off its devices, or still being restored, if it says that.
    pub is_off: Option<bool>,
    /// Its process ID, as the kernel reports it.
    pid: u32,
    line: ShepherdConnection,
}

pub(crate) struct Shepherds {
    watch: Poller,
    about: BTreeMap<Token, About>,
    living: BTreeMap<TaskId, Shepherd>,
    strangers: BTreeMap<Token, ShepherdConnection>,
    leaving: BTreeMap<Token, Shepherd>,
    listener: OwnedFd,
    /// The process that forks shepherds, once there is one.
    nursery: Option<Nursery>,
    /// A lock that shepherds hold until they have claimed their tasks.
    launching: File,
    layout: Layout,
}

impl Shepherds {
    /// Creates the socket for shepherds of an earlier agent to find this one. No shepherds yet.
    pub(crate) fn new(mut watch: Poller, layout: &Layout, launching: File) -> io::Result<Self> {
        let listener = open_listener(layout.state())?;
        let token = watch.add(&listener)?;
        Ok(Self {
            watch,
            about: BTreeMap::from([(token, About::Listener)]),
            living: BTreeMap::new(),
            strangers: BTreeMap::new(),
            leaving: BTreeMap::new(),
            listener,
            nursery: None,
            launching,
            layout: layout.clone(),
        })
    }

    /// Waits for events. An event of the waker ends the wait and is not in the list.
    pub(crate) fn wait(&self) -> Vec<Token> {
        self.watch.wait()
    }

    /// The source of an event; `None` if it is gone by now.
    pub(crate) fn about(&self, token: Token) -> Option<About> {
        self.about.get(&token).copied()
    }

    /// Whether the end of a task was reported, though its shepherd may still live.
    pub(crate) fn has_ended(&self, task: TaskId) -> bool {
        self.living.get(&task).is_some_and(|shepherd| shepherd.ended)
    }

    /// Whether a task has a living shepherd.
    pub(crate) fn knows(&self, task: TaskId) -> bool {
        self.living.contains_key(&task)
    }

    pub(crate) fn get_mut(&mut self, task: TaskId) -> Option<&mut Shepherd> {
        self.living.get_mut(&task)
    }

    /// Starts a shepherd and sends it the bytes of its first message.
    pub(crate) fn start(&mut self, exe: &Path, task: TaskId, first: Vec<u8>) -> io::Result<u32> {
        let (pid, process, ours) = self.fork(exe, task)?;
        self.add(task, pid, process)?;
        let token = self.watch.add(&ours)?;
        self.about.insert(token, About::Line(task));
        if let Some(shepherd) = self.living.get_mut(&task) {
            let line = ShepherdConnection { socket: ours, token, input: Vec::new(), output: first };
            shepherd.link = Some(line);
        }
        self.write(task);
        Ok(pid)
    }

    /// Has the nursery fork a shepherd. Returns its process ID, a pidfd, and a connection to it.
    fn fork(&mut self, exe: &Path, task: TaskId) -> io::Result<(u32, OwnedFd, OwnedFd)> {
        for _ in 0..NURSERIES_MOST {
            let nursery = match &self.nursery {
                Some(nursery) => nursery,
                None => self.nursery.insert(Nursery::start(exe, &self.layout, &self.launching)?),
            };
            // A new pair for each try: no other process may receive the messages for the shepherd.
            let (ours, its) =
                socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            match nursery.fork(task, its.as_fd()) {
                ForkOutcome::Born(pid, process) => return Ok((pid, process, ours)),
                ForkOutcome::Refused(error) => return Err(error),
                ForkOutcome::Unavailable => {
                    if let Some(nursery) = self.nursery.take() {
                        nursery.end();
                    }
                }
            }
        }
        Err(io::Error::other("it ends before it has forked one"))
    }

    /// Takes over a shepherd that an earlier agent started.
    pub(crate) fn adopt(&mut self, task: TaskId, pid: u32, process: OwnedFd) -> io::Result<()> {
        self.add(task, pid, process)
    }

    fn add(&mut self, task: TaskId, pid: u32, process: OwnedFd) -> io::Result<()> {
        let token = self.watch.add(&process)?;
        self.about.insert(token, About::Process(task));
        let shepherd = Shepherd { pid, process, link: None, unsaid: Vec::new(), ended: false };
        self.living.insert(task, shepherd);
        Ok(())
    }

    /// Sends a message to a shepherd, now or when it connects.
    pub(crate) fn say(&mut self, task: TaskId, message: &impl Serialize) {
        let Some(shepherd) = self.living.get_mut(&task) else { return };
        match &mut shepherd.link {
            Some(link) => link.output.extend(line(message)),
            None => shepherd.unsaid.extend(line(message)),
        }
        self.write(task);
    }

    /// Continues a shepherd that was stopped by a signal, so that it reads its messages.
    pub(crate) fn wake(&self, task: TaskId) {
        if let Some(shepherd) = self.living.get(&task) {
            // Signalling a shepherd that has ended does nothing.
            let _ = pidfd::signal(&shepherd.process, rustix::process::Signal::CONT.as_raw());
        }
    }

    /// Sends a message to a shepherd if it is connected.
    pub(crate) fn say_now(&mut self, task: TaskId, message: &impl Serialize) {
        if self.living.get(&task).is_some_and(|shepherd| shepherd.link.is_some()) {
            self.say(task, message);
        }
    }

    /// Sends a message to every connected shepherd.
    pub(crate) fn say_to_all(&mut self, message: &impl Serialize) {
        let tasks: Vec<TaskId> = self.living.keys().copied().collect();
        tasks.into_iter().for_each(|task| self.say_now(task, message));
    }

    /// Writes as much as the socket takes.
    fn write(&mut self, task: TaskId) {
        let Some(link) = self.living.get_mut(&task).and_then(|it| it.link.as_mut()) else { return };
        let had = link.output.len();
        while !link.output.is_empty() {
            match send(&link.socket, &link.output, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(link.output.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // Reading shows that the connection is closed.
                Err(_) => link.output.clear(),
            }
        }
        if had > 0 {
            // If this fails, a full connection waits forever; there is no other remedy.
            let _ = self.watch.want_room(&link.socket, link.token, !link.output.is_empty());
        }
    }

    /// Returns the messages of a shepherd; also writes pending messages.
    pub(crate) fn read(&mut self, task: TaskId) -> Vec<FromShepherd> {
        self.write(task);
        let Some(shepherd) = self.living.get_mut(&task) else { return Vec::new() };
        let Some(link) = &mut shepherd.link else { return Vec::new() };
        let is_open = link.receive();
        let messages = take_lines(&mut link.input);
        if !is_open && let Some(link) = shepherd.link.take() {
            self.about.remove(&link.token);
        }
        messages
    }

    /// Removes a shepherd that has ended and returns it with its last messages.
    pub(crate) fn ended(&mut self, task: TaskId) -> Option<(Shepherd, Vec<FromShepherd>)> {
        let messages = self.read(task);
        let mut shepherd = self.living.remove(&task)?;
        if let Some(link) = shepherd.link.take() {
            self.about.remove(&link.token);
        }
        pidfd::reap(&shepherd.process);
        Some((shepherd, messages))
    }

    /// Lets go of a shepherd that has nothing to do; its end is still awaited.
    pub(crate) fn dismiss(&mut self, task: TaskId) -> Option<u32> {
        let mut shepherd = self.living.remove(&task)?;
        if let Some(link) = shepherd.link.take() {
            self.about.remove(&link.token);
        }
        let pid = shepherd.pid;
        let process = About::Process(task);
        let token = *self.about.iter().find(|(_, about)| **about == process)?.0;
        self.about.insert(token, About::Leaving);
        self.leaving.insert(token, shepherd);
        Some(pid)
    }

    /// Reaps a dismissed shepherd that has ended.
    pub(crate) fn reap(&mut self, token: Token) {
        self.about.remove(&token);
        if let Some(shepherd) = self.leaving.remove(&token) {
            pidfd::reap(&shepherd.process);
        }
    }

    pub(crate) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC;
        while let Ok(socket) = accept_with(&self.listener, flags) {
            let Ok(token) = self.watch.add(&socket) else { continue };
            self.about.insert(token, About::Stranger);
            let line = ShepherdConnection { socket, token, input: Vec::new(), output: Vec::new() };
            self.strangers.insert(token, line);
        }
    }

    /// Reads the first message of a new connection; `None` if it is incomplete or not a valid
    /// introduction.
    pub(crate) fn introduce(&mut self, token: Token) -> Option<Introduced> {
        let line = self.strangers.get_mut(&token)?;
        let is_open = line.receive();
        let end = line.input.iter().position(|byte| *byte == b'\n');
        if end.is_none() && is_open && line.input.len() < 1 << 16 {
            return None;
        }
        self.about.remove(&token);
        let mut line = self.strangers.remove(&token)?;
        let rest = line.input.split_off(end? + 1);
        let hello = take_lines(&mut line.input).pop();
        let pid = socket_peercred(&line.socket).ok()?.pid.as_raw_nonzero().get();
        let pid = u32::try_from(pid).ok()?;
        match hello? {
            FromShepherd::Hello { task, is_off } => {
                line.input = rest;
                Some(Introduced::Shepherd(Caller { task, is_off, pid, line }))
            }
            FromShepherd::Line { task, line: number, not_opened } => {
                self.watch.remove(&line.socket);
                let opened = Connection { stream: line.socket.into(), early: rest };
                let opened = not_opened.map_or(Ok(opened), Err);
                Some(Introduced::Line { pid, task, line: number, opened })
            }
            _ => None,
        }
    }

    /// Gives a caller's connection to its task if the caller is that task's shepherd. Otherwise the
    /// connection is closed, and the caller tries again later.
    pub(crate) fn connect(&mut self, caller: Caller) -> bool {
        let Caller { task, pid, mut line, .. } = caller;
        let Some(shepherd) = self.living.get_mut(&task).filter(|it| it.pid == pid) else {
            return false;
        };
        if let Some(old) = shepherd.link.take() {
            self.about.remove(&old.token);
        }
        line.output = std::mem::take(&mut shepherd.unsaid);
        self.about.insert(line.token, About::Line(task));
        shepherd.link = Some(line);
        true
    }

    /// Forgets the token of a process that has ended.
    pub(crate) fn forget(&mut self, token: Token) {
        self.about.remove(&token);
    }
}

impl ShepherdConnection {
    /// Reads what has arrived; returns `false` at the end of the stream.
    fn receive(&mut self) -> bool {
        let mut buffer = [0_u8; 16 << 10];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((length, _)) => self.input.extend_from_slice(&buffer[..length]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// Opens a socket that appears under its name only once it listens. The path goes through a
/// descriptor of the folder, since a socket's path has at most 107 bytes.
fn open_listener(state: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(state, flags, Mode::empty())?;
    let new = ".agent.sock.new";
    let _ = unlinkat(&folder, new, AtFlags::empty());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/{new}", folder.as_raw_fd());
    let address = SocketAddrUnix::new(OsStr::new(&path))?;
    match bind(&socket, &address) {
        // A full disk may have no space for one more file: the earlier socket makes way.
        Err(Errno::NOSPC | Errno::DQUOT) => {
            let _ = unlinkat(&folder, Layout::SOCKET, AtFlags::empty());
            bind(&socket, &address)?;
        }
        bound => bound?,
    }
    // Shepherds run as the same user; no other user may connect.
    rustix::fs::chmod(&path, Mode::from_raw_mode(0o600))?;
    listen(&socket, 1024)?;
    rustix::fs::renameat(&folder, new, &folder, Layout::SOCKET)?;
    Ok(socket)
}
