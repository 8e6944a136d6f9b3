//! The process that forks shepherds, and the agent's connection to it. Starting the program anew
//! for each task costs more than all that a shepherd does for a short job. The nursery starts once,
//! has everything loaded, and is forked. It also adopts a job's processes if the shepherd is killed
//! (`leftovers`), so it stays until its last shepherd has ended, even without an agent. If a
//! nursery is killed, no task ends, and the agent starts another.

pub mod leftovers;

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

/// The first argument of a nursery. The program's `main` checks for it before anything else and
/// calls [`main`].
pub const ARGUMENT: &str = "__nursery";

/// The variable that names the failpoint at which a test kills a process.
#[cfg(feature = "failpoints")]
const FAILPOINT: &str = "GPOOL_FAILPOINT";

/// The longest message: a task's name, a process ID or an error text.
const LONGEST: usize = 512;

/// The usual limit on open files.
/// Source: Linux's `INR_OPEN_CUR`, which has not changed since 1996.
const USUAL_FILES: u64 = 1024;

/// How long an answer may take before the nursery counts as hung: a fork takes a fraction of a
/// millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the nursery of the agent at the other end of standard input. Ends the process once that end
/// is closed and no shepherd is left.
pub fn main() -> ! {
    match serve() {
        Ok(()) => child::end(0),
        // The agent notices that the nursery is gone.
        Err(_) => child::end(1),
    }
}

fn serve() -> io::Result<()> {
    // A session of its own, so that it gets no signals from the agent's terminal.
    rustix::process::setsid()?;
    let mut brood = Brood::new(Layout::new(std::env::current_dir()?));
    std::env::set_current_dir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    for ignored in [rustix::process::Signal::PIPE, rustix::process::Signal::HUP] {
        signal::ignore(ignored.as_raw());
    }
    lower_limit_on_files();
    let boot_id = proc::boot_id();
    // Finds the vDSO clock here once, and not in each shepherd.
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

struct Ready {
    agent: bool,
    children: bool,
}

/// Waits for a request of the agent, or for a child to end.
fn wait(has_agent: bool, brood: &Brood) -> io::Result<Ready> {
    // Made each time, so that shepherds forked later do not inherit it. The signal stays blocked,
    // so no event is missed in between.
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

/// Forks the shepherd that the agent asks for; returns `false` if the agent is gone.
fn serve_one(boot_id: &str, brood: &mut Brood) -> io::Result<bool> {
    let agent = rustix::stdio::stdin();
    let Some((name, socket)) = receive(agent)? else { return Ok(false) };
    let socket = socket.ok_or(io::ErrorKind::InvalidData)?;
    fail::fail_point!("nursery-asked");
    let nursery = std::process::id();
    // In the nursery itself, dropping the closure closes the socket.
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

/// Closes the connection to the agent, and releases the lock that the next agent waits for.
fn leave_agent() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    (0..2).try_for_each(|standard| child::place(null.as_fd(), standard))
}

/// Lowers the limit on open files to the usual one, for jobs without limits of their own. The agent
/// raises it to the maximum, but some programs iterate over all numbers up to the limit, and some
/// can't use higher ones.
fn lower_limit_on_files() {
    let limit = getrlimit(Resource::Nofile);
    let usual = limit.current.map_or(USUAL_FILES, |limit| limit.min(USUAL_FILES));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(usual), ..limit });
}

/// The agent's handle of a nursery.
pub struct Nursery {
    socket: OwnedFd,
    process: Child,
}

/// The nursery's answer to a request.
pub enum ForkOutcome {
    /// It forked a shepherd with this process ID.
    Born(u32, OwnedFd),
    /// The fork failed, for example because there are too many processes.
    Refused(io::Error),
    /// The nursery has ended or hangs. A shepherd that it still forks finds its socket closed, and
    /// ends without claiming anything.
    Unavailable,
}

impl Nursery {
    /// Starts a nursery. It and its shepherds hold `launching` open until they have claimed.
    pub fn start(exe: &Path, layout: &Layout, launching: &File) -> io::Result<Self> {
        let (socket, its) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        // Passed as standard input and output, so that no descriptor is inherited by accident.
        let launching = launching.try_clone()?;
        let mut command = Command::new(exe);
        // The nursery notes in the claims of this folder which processes it has cleaned up.
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

    /// Asks for a shepherd for a task; the shepherd gets `its` end of a socket.
    pub fn fork(&self, task: TaskId, its: BorrowedFd<'_>) -> ForkOutcome {
        let asked = send(self.socket.as_fd(), task.to_string().as_bytes(), Some(its));
        let Ok(Some((answer, process))) = asked.and_then(|()| receive(self.socket.as_fd())) else {
            return ForkOutcome::Unavailable;
        };
        match (answer.parse(), process) {
            (Ok(pid), Some(process)) => ForkOutcome::Born(pid, process),
            (..) => ForkOutcome::Refused(io::Error::other(answer)),
        }
    }

    /// Ends a nursery that does not answer. A healthy one stays for its shepherds.
    pub fn end(mut self) {
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

/// Receives one message; `None` if the other end is closed.
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
