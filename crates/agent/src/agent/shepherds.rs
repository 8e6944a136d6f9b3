//! The shepherds of one agent: starting them, talking with them, and seeing them end.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use gpool_model::attach::NotOpened;
use gpool_model::id::TaskId;
use gpool_sys::pidfd;
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, socket_with, socketpair,
};
use serde::Serialize;

use super::wake::{Token, Watch};
use crate::layout::Layout;
use crate::message::{FromShepherd, line, take_lines};
use crate::nursery::{Asked, Nursery};

/// How many nurseries one launch may use up. Whoever ends them does not mean the job; but a program
/// that can't be one ends each time.
const NURSERIES_MOST: u32 = 20;

/// One shepherd that lives.
pub(super) struct Shepherd {
    /// Its process id.
    pub pid: u32,
    process: OwnedFd,
    link: Option<Line>,
    /// What it is told once it can be told anything.
    unsaid: Vec<u8>,
    /// Whether it has said how the task ended.
    pub ended: bool,
}

impl Shepherd {
    /// Whether it can be told something now.
    pub(super) fn hears(&self) -> bool {
        self.link.is_some() && !self.ended
    }
}

/// A connection to a shepherd.
struct Line {
    socket: OwnedFd,
    token: Token,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Whom an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Somebody wants to connect.
    Listener,
    /// A shepherd said something, or has room, or has closed its line.
    Line(TaskId),
    /// A shepherd has ended.
    Process(TaskId),
    /// Somebody who has not said who he is.
    Stranger,
    /// A shepherd that had nothing to do has ended.
    Leaving,
}

/// What somebody has said first.
pub(super) enum Introduced {
    /// Whose shepherd he is.
    Shepherd(Caller),
    /// Which line this is, that was asked for.
    Line {
        /// As the kernel knows who opened it.
        pid: u32,
        task: TaskId,
        line: u64,
        opened: Result<OpenedLine, NotOpened>,
    },
}

/// A line to a task's shepherd for somebody else's bytes.
#[derive(Debug)]
pub struct OpenedLine {
    /// The line.
    pub socket: OwnedFd,
    /// What has come over it already.
    pub early: Vec<u8>,
}

/// Somebody who has said whose shepherd he is.
pub(super) struct Caller {
    pub task: TaskId,
    /// As the kernel knows him.
    pid: u32,
    line: Line,
}

/// All of them.
pub(super) struct Shepherds {
    watch: Watch,
    about: BTreeMap<Token, About>,
    living: BTreeMap<TaskId, Shepherd>,
    strangers: BTreeMap<Token, Line>,
    leaving: BTreeMap<Token, Shepherd>,
    listener: OwnedFd,
    /// Who forks them, once there was one to fork.
    nursery: Option<Nursery>,
    /// Held by them until they have claimed their tasks.
    launching: File,
    layout: Layout,
}

impl Shepherds {
    /// None yet. Shepherds of an earlier agent find this one by its socket.
    pub(super) fn new(mut watch: Watch, layout: &Layout, launching: File) -> io::Result<Self> {
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

    /// Waits for events; those of the waker are left out, but end the waiting.
    pub(super) fn wait(&self) -> Vec<Token> {
        self.watch.wait()
    }

    /// Whom an event is about; `None` if that was dealt with meanwhile.
    pub(super) fn about(&self, token: Token) -> Option<About> {
        self.about.get(&token).copied()
    }

    pub(super) fn get_mut(&mut self, task: TaskId) -> Option<&mut Shepherd> {
        self.living.get_mut(&task)
    }

    /// Starts one and gives it the bytes that it reads first.
    pub(super) fn start(&mut self, exe: &Path, task: TaskId, first: Vec<u8>) -> io::Result<u32> {
        let (pid, process, ours) = self.fork(exe, task)?;
        self.add(task, pid, process)?;
        let token = self.watch.add(&ours)?;
        self.about.insert(token, About::Line(task));
        if let Some(shepherd) = self.living.get_mut(&task) {
            let line = Line { socket: ours, token, input: Vec::new(), output: first };
            shepherd.link = Some(line);
        }
        self.write(task);
        Ok(pid)
    }

    /// Has a shepherd forked, with a handle on it and a line to it.
    fn fork(&mut self, exe: &Path, task: TaskId) -> io::Result<(u32, OwnedFd, OwnedFd)> {
        for _ in 0..NURSERIES_MOST {
            let nursery = match &self.nursery {
                Some(nursery) => nursery,
                None => self.nursery.insert(Nursery::start(exe, &self.layout, &self.launching)?),
            };
            // Another one for each try: nobody else must hear what the shepherd is told.
            let (ours, its) =
                socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            match nursery.fork(task, its.as_fd()) {
                Asked::Born(pid, process) => return Ok((pid, process, ours)),
                Asked::Refused(error) => return Err(error),
                Asked::Gone => {
                    if let Some(nursery) = self.nursery.take() {
                        nursery.end();
                    }
                }
            }
        }
        Err(io::Error::other("it ends before it has forked one"))
    }

    /// Takes one over that an earlier agent started.
    pub(super) fn adopt(&mut self, task: TaskId, pid: u32, process: OwnedFd) -> io::Result<()> {
        self.add(task, pid, process)
    }

    fn add(&mut self, task: TaskId, pid: u32, process: OwnedFd) -> io::Result<()> {
        let token = self.watch.add(&process)?;
        self.about.insert(token, About::Process(task));
        let shepherd = Shepherd { pid, process, link: None, unsaid: Vec::new(), ended: false };
        self.living.insert(task, shepherd);
        Ok(())
    }

    /// Tells a shepherd something, now or when its line is up.
    pub(super) fn say(&mut self, task: TaskId, message: &impl Serialize) {
        let Some(shepherd) = self.living.get_mut(&task) else { return };
        match &mut shepherd.link {
            Some(link) => link.output.extend(line(message)),
            None => shepherd.unsaid.extend(line(message)),
        }
        self.write(task);
    }

    /// Continues a shepherd that was stopped by a signal, so that it reads its messages.
    pub(super) fn wake(&self, task: TaskId) {
        if let Some(shepherd) = self.living.get(&task) {
            // One that has ended needs nothing.
            let _ = pidfd::signal(&shepherd.process, rustix::process::Signal::CONT.as_raw());
        }
    }

    /// Tells a shepherd something if its line is up.
    pub(super) fn say_now(&mut self, task: TaskId, message: &impl Serialize) {
        if self.living.get(&task).is_some_and(|shepherd| shepherd.link.is_some()) {
            self.say(task, message);
        }
    }

    /// Writes as much as there is room for.
    fn write(&mut self, task: TaskId) {
        let Some(link) = self.living.get_mut(&task).and_then(|it| it.link.as_mut()) else { return };
        let had = link.output.len();
        while !link.output.is_empty() {
            match send(&link.socket, &link.output, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(link.output.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // Its end shows when the line is read.
                Err(_) => link.output.clear(),
            }
        }
        if had > 0 {
            // Without it a line that is full would wait for ever, and there is nothing else to do.
            let _ = self.watch.want_room(&link.socket, link.token, !link.output.is_empty());
        }
    }

    /// Takes what a shepherd has said; writes what there is to write.
    pub(super) fn read(&mut self, task: TaskId) -> Vec<FromShepherd> {
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

    /// Takes a shepherd that has ended out, with its last words.
    pub(super) fn ended(&mut self, task: TaskId) -> Option<(Shepherd, Vec<FromShepherd>)> {
        let messages = self.read(task);
        let mut shepherd = self.living.remove(&task)?;
        if let Some(link) = shepherd.link.take() {
            self.about.remove(&link.token);
        }
        pidfd::reap(&shepherd.process);
        Some((shepherd, messages))
    }

    /// Lets a shepherd go that has nothing to do; its end is waited for.
    pub(super) fn dismiss(&mut self, task: TaskId) -> Option<u32> {
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

    /// A shepherd that was let go has ended.
    pub(super) fn left(&mut self, token: Token) {
        self.about.remove(&token);
        if let Some(shepherd) = self.leaving.remove(&token) {
            pidfd::reap(&shepherd.process);
        }
    }

    /// Lets those in who want to connect.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC;
        while let Ok(socket) = accept_with(&self.listener, flags) {
            let Ok(token) = self.watch.add(&socket) else { continue };
            self.about.insert(token, About::Stranger);
            let line = Line { socket, token, input: Vec::new(), output: Vec::new() };
            self.strangers.insert(token, line);
        }
    }

    /// Hears a stranger say who he is; `None` if he has not yet, or is nobody.
    pub(super) fn introduce(&mut self, token: Token) -> Option<Introduced> {
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
            FromShepherd::Hello { task } => {
                line.input = rest;
                Some(Introduced::Shepherd(Caller { task, pid, line }))
            }
            FromShepherd::Line { task, line: number, not_opened } => {
                self.watch.remove(&line.socket);
                let opened = OpenedLine { socket: line.socket, early: rest };
                let opened = not_opened.map_or(Ok(opened), Err);
                Some(Introduced::Line { pid, task, line: number, opened })
            }
            _ => None,
        }
    }

    /// Gives a caller's line to his task, if he is its shepherd. Otherwise he is hung up on, and
    /// tries again later.
    pub(super) fn connect(&mut self, caller: Caller) -> bool {
        let Caller { task, pid, mut line } = caller;
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
    pub(super) fn forget(&mut self, token: Token) {
        self.about.remove(&token);
    }
}

impl Line {
    /// Takes what is there; `false` if there will be no more.
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

/// A socket that appears under its name only once it listens. The folder is gone through by its
/// descriptor, since a socket's path has at most 107 bytes.
fn open_listener(state: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(state, flags, Mode::empty())?;
    let new = ".agent.sock.new";
    let _ = rustix::fs::unlinkat(&folder, new, rustix::fs::AtFlags::empty());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/{new}", folder.as_raw_fd());
    bind(&socket, &SocketAddrUnix::new(OsStr::new(&path))?)?;
    // Shepherds are of the same user; nobody else has business here.
    rustix::fs::chmod(&path, Mode::from_raw_mode(0o600))?;
    listen(&socket, 1024)?;
    rustix::fs::renameat(&folder, new, &folder, Layout::SOCKET)?;
    Ok(socket)
}
