//! Streams that clients have opened to the task beside its normal run: its terminal, further
//! programs, forwarded connections. None of them keeps the task from running or from ending.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gpool_model::WindowSize;
use gpool_model::attach::{Exec, ForwardTo, NotOpened, Opening};
use gpool_model::job::ExitStatus;
use gpool_sys::clock;
use gpool_wire::frame::Frame;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::Timespec;

use super::Shepherd;
use super::attachment::Attachment;
use super::exec_session::{ExecSession, ShepherdEnds};
use super::forward;
use super::standard_streams::Fds;
use super::terminal::{self, Terminal};

/// Most open streams of one task.
const MOST: u32 = 256;
/// How long attached clients may take to read the task's last output after its end.
const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct ClientStreams {
    /// The task's own terminal, if it has one.
    pub terminal: Option<Terminal>,
    attachments: Vec<Attachment>,
    exec_sessions: Vec<ExecSession>,
    /// Processes that forward connections.
    carriers: BTreeSet<u32>,
}

impl ClientStreams {
    /// Sends the terminal's output to the attached clients.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        let Some(terminal) = &mut self.terminal else { return };
        terminal.note(bytes);
        if !self.attachments.is_empty() {
            let frame = Frame::Output(bytes.to_vec());
            self.attachments.iter_mut().for_each(|attachment| attachment.say(&frame));
        }
    }

    /// Whether the task has to wait before it writes more, as on any full terminal. A client that
    /// reads nothing can cause this only for a limited time.
    pub(super) fn holds_up(&self) -> bool {
        self.attachments.iter().any(Attachment::is_full)
    }

    pub(super) fn poll_fds(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut wanted = Vec::new();
        if let Some(terminal) = self.terminal.as_ref().filter(|it| it.has_typed()) {
            wanted.push((terminal.master().as_fd(), PollFlags::OUT));
        }
        let takes = self.terminal.as_ref().is_none_or(|terminal| !terminal.is_full());
        for attachment in &self.attachments {
            let mut flags = PollFlags::empty();
            if takes {
                flags |= PollFlags::IN;
            }
            if attachment.has_output() {
                flags |= PollFlags::OUT;
            }
            if !flags.is_empty() {
                wanted.push((attachment.line().as_fd(), flags));
            }
        }
        wanted.extend(self.exec_sessions.iter().flat_map(ExecSession::poll_fds));
        wanted
    }

    /// After how many milliseconds the next timeout is due.
    pub(super) fn due_in(&self) -> Option<u64> {
        self.attachments.iter().filter_map(Attachment::patience).min()
    }

    /// Does all work that needs no waiting.
    pub(super) fn step(&mut self, buffer: &mut [u8]) {
        for attachment in &mut self.attachments {
            attachment.flush();
            let Some(terminal) = self.terminal.as_mut().filter(|it| !it.is_full()) else {
                continue;
            };
            for frame in attachment.hear(buffer) {
                match frame {
                    Frame::Input(bytes) => terminal.write(&bytes),
                    Frame::Resize(size) => terminal.resize(size),
                    _ => {}
                }
            }
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.hand_on();
        }
        self.attachments.retain(|it| !it.is_gone() && it.patience() != Some(0));
        self.exec_sessions.iter_mut().for_each(|joined| joined.step(buffer));
        self.exec_sessions.retain(|joined| !joined.is_over());
    }

    /// Notes the end of a process that is not the task's own.
    pub(super) fn ended(&mut self, pid: u32, exit: ExitStatus) {
        if !self.carriers.remove(&pid) {
            let _ = self.exec_sessions.iter_mut().any(|joined| joined.ended(pid, exit));
        }
    }

    /// Lets all clients read the remaining output, for a limited time.
    pub(super) fn say_goodbye(&mut self, buffer: &mut [u8]) {
        let until = clock::boot_ms() + u64::try_from(GOODBYE.as_millis()).unwrap_or(0);
        loop {
            self.step(buffer);
            self.attachments.retain(Attachment::has_output);
            let left = until.saturating_sub(clock::boot_ms());
            let wanted = self.poll_fds();
            if wanted.is_empty() || left == 0 {
                break;
            }
            let mut polled: Vec<_> =
                wanted.iter().map(|(fd, flags)| PollFd::new(fd, *flags)).collect();
            let timeout = Timespec {
                tv_sec: i64::try_from(left / 1000).unwrap_or(0),
                tv_nsec: i64::try_from(left % 1000).unwrap_or(0) * 1_000_000,
            };
            let _ = poll(&mut polled, Some(&timeout));
        }
        self.attachments.clear();
        self.exec_sessions.clear();
    }

    fn n_open(&self) -> u32 {
        let n_open = self.attachments.len() + self.exec_sessions.len() + self.carriers.len();
        u32::try_from(n_open).unwrap_or(u32::MAX)
    }
}

impl Shepherd {
    /// Opens a requested stream, over a new connection to the agent.
    pub(super) fn open(&mut self, line: u64, opening: Opening) {
        if self.started.is_none() || self.exit.is_some() {
            return self.refuse(line, NotOpened::NotRunning);
        }
        if self.client_streams.n_open() >= MOST {
            return self.refuse(line, NotOpened::TooMany { most: MOST });
        }
        match opening {
            Opening::Attach { window } => self.attach(line, window),
            Opening::Exec(exec) => match self.join(&exec) {
                Ok((pid, ends, told)) => {
                    if let Some(socket) = self.link.open(line, None) {
                        self.client_streams
                            .exec_sessions
                            .push(ExecSession::new(pid, socket, ends, told));
                    }
                }
                Err(why) => self.refuse(line, NotOpened::Failed { why }),
            },
            Opening::Forward { to } => self.forward(line, &to),
        }
    }

    fn refuse(&self, line: u64, why: NotOpened) {
        // If the agent does not receive it, it has ended, and the client's request with it.
        drop(self.link.open(line, Some(why)));
    }

    fn attach(&mut self, line: u64, window: Option<WindowSize>) {
        let Some(terminal) = &self.client_streams.terminal else {
            return self.refuse(line, NotOpened::NoTerminal);
        };
        let Some(socket) = self.link.open(line, None) else { return };
        let mut attachment = Attachment::new(socket);
        attachment.say(&Frame::Output(terminal.scrollback()));
        terminal.redraw(window);
        self.client_streams.attachments.push(attachment);
    }

    /// Starts a further program.
    fn join(&mut self, exec: &Exec) -> Result<(u32, ShepherdEnds, OwnedFd), String> {
        let program = self.program.as_ref().ok_or("its program is unknown")?.for_exec(exec)?;
        let failed = |error| format!("can't make a pipe: {error}");
        if let Some(size) = exec.pty {
            let (terminal, slave) = terminal::open(size, self.owner)?;
            let fds = Fds { terminal: Some(&slave), ..Fds::default() };
            let (pid, told) = self.fork_in_tree(&fds, |setting| program.run(setting))?;
            return Ok((pid, ShepherdEnds::Terminal(terminal), told));
        }
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed);
        let ((its_input, input), (output, its_output), (errors, its_errors)) =
            (pipe()?, pipe()?, pipe()?);
        for ours in [&input, &output, &errors] {
            rustix::fs::fcntl_setfl(ours, rustix::fs::OFlags::NONBLOCK).map_err(failed)?;
        }
        for its in [&its_input, &its_output, &its_errors] {
            self.give_pipe(its)?;
        }
        let fds = Fds {
            stdin: Some(&its_input),
            stdout: Some(&its_output),
            stderr: Some(&its_errors),
            terminal: None,
        };
        let (pid, told) = self.fork_in_tree(&fds, |setting| program.run(setting))?;
        let outputs = [Some(output), Some(errors)];
        Ok((pid, ShepherdEnds::Pipes { input: Some(input), outputs }, told))
    }

    /// Starts a process that connects and forwards.
    fn forward(&mut self, line: u64, to: &ForwardTo) {
        let place = match forward::find(to) {
            Ok(place) => place,
            Err(ports) => return self.refuse(line, NotOpened::NothingListens { ports }),
        };
        let Some(socket) = self.link.open(line, None) else { return };
        let Some(program) = &self.program else { return };
        let carried = self.fork_in_tree(&Fds::default(), |setting| {
            program.run_instead(setting, || forward::carry(&place, &socket))
        });
        // If it failed, the stream is closed, as for a connection that can't be made.
        if let Ok((pid, _)) = carried {
            self.client_streams.carriers.insert(pid);
        }
    }
}
