//! The process that forks shepherds, and the agent's line to it. To start the program anew for each
//! task costs more than all that a shepherd does for a short job: this process starts once, has
//! everything loaded, and is copied. It also takes in the processes of a job when its shepherd is
//! killed (`leftovers`), so it stays until its last shepherd has ended, without an agent if need
//! be. A nursery that is killed ends no task, and the agent starts another.

pub(crate) mod leftovers;

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use gpool_model::id::TaskId;
use gpool_sys::{child, clock, proc, signal};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::layout::Layout;
use crate::shepherd;
use leftovers::Brood;

/// The first argument by which a nursery is started; the program's `main` looks for it before
/// anything else and calls [`main`].
pub const ARGUMENT: &str = "__nursery";

/// The variable that chooses the point at which a process of a test is killed.
#[cfg(feature = "failpoints")]
const FAILPOINT: &str = "GPOOL_FAILPOINT";

/// A message holds a task's name, a process id or an error in words.
const LONGEST: usize = 512;

/// How many files a program may usually open.
/// Source: Linux's `INR_OPEN_CUR`, which has not changed since 1996.
const USUAL_FILES: u64 = 1024;

/// How long an answer may take before the nursery counts as hung: a fork takes a fraction of a
/// millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the nursery of the agent that is at the other end of its standard input, until that end is
/// closed and no shepherd is left, and ends the process.
pub fn main() -> ! {
    match serve() {
        Ok(()) => child::end(0),
        // Its agent sees that it is gone.
        Err(_) => child::end(1),
    }
}

fn serve() -> io::Result<()> {
    // Of its own session: what a terminal sends to the agent is not meant for it.
    rustix::process::setsid()?;
    let mut brood = Brood::new(Layout::new(std::env::current_dir()?));
    std::env::set_current_dir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    for ignored in [rustix::process::Signal::PIPE, rustix::process::Signal::HUP] {
        signal::ignore(ignored.as_raw());
    }
    lower_limit_on_files();
    let boot_id = proc::boot_id();
    // Where the kernel keeps the time is found out here, once, and not by each shepherd.
    let _ = clock::unix_ms();
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let mut has_agent = true;
    while has_agent || !brood.is_empty() {
        let ready = wait(has_agent, &brood)?;
        if ready.children {
            brood.look();
        }
        if ready.agent && !serve_one(&boot_id, &mut brood).unwrap_or(false) {
            has_agent = false;
            leave_agent()?;
        }
    }
    Ok(())
}

/// What there is to do.
struct Ready {
    agent: bool,
    children: bool,
}

/// Waits for the agent to ask, or for a child to end.
fn wait(has_agent: bool, brood: &Brood) -> io::Result<Ready> {
    // Made each time: a shepherd that is forked later must not have it. The signal stays blocked,
    // so none is missed in between.
    let ended = signal::watch(&[rustix::process::Signal::CHILD.as_raw()])?;
    let agent = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&agent, PollFlags::IN)];
    let n_fds = if has_agent { 2 } else { 1 };
    let pause = brood.pause().and_then(|pause| Timespec::try_from(pause).ok());
    let n_ready = match poll(&mut fds[..n_fds], pause.as_ref()) {
        Err(rustix::io::Errno::INTR) => 0,
        other => other?,
    };
    let [children, agent] = fds.map(|fd| !fd.revents().is_empty());
    signal::take(&ended)?;
    Ok(Ready { agent, children: children || n_ready == 0 })
}

/// Forks the shepherd that the agent asks for; `false` if the agent is gone.
fn serve_one(boot_id: &str, brood: &mut Brood) -> io::Result<bool> {
    let agent = rustix::stdio::stdin();
    let Some((name, socket)) = receive(agent)? else { return Ok(false) };
    let socket = socket.ok_or(io::ErrorKind::InvalidData)?;
    fail::fail_point!("nursery-asked");
    let nursery = std::process::id();
    // In this process the socket is closed with the closure.
    let forked = child::fork_with_handle(|| shepherd::run(&name, boot_id, nursery, socket));
    match forked {
        Ok((pid, process)) => {
            brood.born(pid, &name);
            fail::fail_point!("nursery-forked");
            send(agent, pid.to_string().as_bytes(), Some(process.as_fd()))?;
            fail::fail_point!("nursery-told");
        }
        Err(error) => send(agent, error.to_string().as_bytes(), None)?,
    }
    Ok(true)
}

/// Closes the line to the agent, and lets go of the lock that the next agent awaits.
fn leave_agent() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    (0..2).try_for_each(|standard| child::place(null.as_fd(), standard))
}

/// Undoes for jobs without limits of their own that the agent may open as many files as there can
/// be: some programs go through all numbers up to the limit, and some can't name higher ones.
fn lower_limit_on_files() {
    let limit = getrlimit(Resource::Nofile);
    let usual = limit.current.map_or(USUAL_FILES, |limit| limit.min(USUAL_FILES));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(usual), ..limit });
}

/// The agent's side of a nursery.
pub(crate) struct Nursery {
    socket: OwnedFd,
    process: Child,
}

/// What came of asking a nursery.
pub(crate) enum Asked {
    /// A shepherd with this id.
    Born(u32, OwnedFd),
    /// The system has no room for one more process, or the like.
    Refused(io::Error),
    /// It was ended, or has hung. What it may have forked nonetheless finds nobody at the other
    /// end of its socket, if nobody else has that, and goes without having claimed anything.
    Gone,
}

impl Nursery {
    /// Starts one, which holds that file open, and so does each shepherd until it has claimed.
    pub(crate) fn start(exe: &Path, layout: &Layout, launching: &File) -> io::Result<Self> {
        let (socket, its) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        // In the places of standard input and output: so no descriptor has to be inherited by
        // accident.
        let launching = launching.try_clone()?;
        let mut command = Command::new(exe);
        // It notes in the claims of that folder what it has ended.
        command.arg(ARGUMENT).env_clear().current_dir(layout.state());
        #[cfg(feature = "failpoints")]
        command.envs(std::env::vars_os().filter(|(name, _)| name == FAILPOINT));
        let process = command
            .stdin(Stdio::from(its))
            .stdout(Stdio::from(launching))
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { socket, process })
    }

    /// Has it fork the shepherd of a task, which gets its end of a socket.
    pub(crate) fn fork(&self, task: TaskId, its: BorrowedFd<'_>) -> Asked {
        let asked = send(self.socket.as_fd(), task.to_string().as_bytes(), Some(its));
        let Ok(Some((answer, process))) = asked.and_then(|()| receive(self.socket.as_fd())) else {
            return Asked::Gone;
        };
        match (answer.parse(), process) {
            (Ok(pid), Some(process)) => Asked::Born(pid, process),
            (..) => Asked::Refused(io::Error::other(answer)),
        }
    }

    /// Ends one that does not answer. Otherwise it stays for its shepherds, and ends after them.
    pub(crate) fn end(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send(socket: BorrowedFd<'_>, text: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let fds = fd.map(|fd| [fd]);
    if let Some(fds) = &fds {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let text = &text[..text.len().min(LONGEST)];
    rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Takes one message; `None` if the other end is closed.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<(String, Option<OwnedFd>)>> {
    let mut text = [0_u8; LONGEST];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let length = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?
    .bytes;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    Ok((length > 0).then_some((text, fd)))
}
