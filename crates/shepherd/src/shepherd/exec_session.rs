//! A further program beside the task's own: started for a client, among the task's processes, and
//! ended with them. Its output goes to the client and is not stored.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpool_model::job::ExitStatus;
use gpool_wire::frame::Frame;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::attachment::Attachment;
use super::start::READY;
use super::terminal::{Terminal, write_some};

/// Bytes of input that may wait for the program; at this size no more are read.
const INPUT_MOST: usize = 64 * 1024;

/// The shepherd's ends of the program's input and output.
pub(super) enum ShepherdEnds {
    Terminal(Terminal),
    Pipes { input: Option<OwnedFd>, outputs: [Option<OwnedFd>; 2] },
}

pub(super) struct ExecSession {
    pid: u32,
    attachment: Attachment,
    ends: ShepherdEnds,
    /// Input that the program has not read yet.
    input: Vec<u8>,
    input_ended: bool,
    /// The child's messages between fork and exec, as far as they are read.
    setup: Option<(OwnedFd, Vec<u8>)>,
    exit: Option<ExitStatus>,
    /// Whether the program closed its terminal, so that there is no more output.
    is_shut: bool,
    /// Whether the exit status was sent.
    over: bool,
}

impl ExecSession {
    pub(super) fn new(pid: u32, line: OwnedFd, ends: ShepherdEnds, status_pipe: OwnedFd) -> Self {
        Self {
            pid,
            attachment: Attachment::new(line),
            ends,
            input: Vec::new(),
            input_ended: false,
            setup: Some((status_pipe, Vec::new())),
            exit: None,
            is_shut: false,
            over: false,
        }
    }

    pub(super) fn poll_fds(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut wanted = Vec::new();
        if let Some((told, _)) = &self.setup {
            wanted.push((told.as_fd(), PollFlags::IN));
        }
        let mut line = PollFlags::empty();
        if self.input.len() < INPUT_MOST {
            line |= PollFlags::IN;
        }
        if self.attachment.has_output() {
            line |= PollFlags::OUT;
        }
        if !line.is_empty() {
            wanted.push((self.attachment.line().as_fd(), line));
        }
        let has_room = !self.attachment.is_full();
        match &self.ends {
            ShepherdEnds::Terminal(terminal) => {
                let mut flags = PollFlags::empty();
                if has_room && !self.is_shut {
                    flags |= PollFlags::IN;
                }
                if terminal.has_typed() {
                    flags |= PollFlags::OUT;
                }
                if !flags.is_empty() {
                    wanted.push((terminal.master().as_fd(), flags));
                }
            }
            ShepherdEnds::Pipes { input, outputs } => {
                if let Some(input) = input.as_ref().filter(|_| !self.input.is_empty()) {
                    wanted.push((input.as_fd(), PollFlags::OUT));
                }
                if has_room {
                    let open = outputs.iter().flatten();
                    wanted.extend(open.map(|output| (output.as_fd(), PollFlags::IN)));
                }
            }
        }
        wanted
    }

    /// Notes the program's end; returns `false` if another process ended.
    pub(super) fn ended(&mut self, pid: u32, exit: ExitStatus) -> bool {
        let is_it = self.pid == pid && self.exit.is_none();
        if is_it {
            self.exit = Some(exit);
        }
        is_it
    }

    /// Whether the program is finished and all output is sent, or the client has disconnected.
    pub(super) fn is_over(&self) -> bool {
        self.attachment.is_gone() || (self.over && !self.attachment.has_output())
    }

    /// Does all work that needs no waiting.
    pub(super) fn step(&mut self, buffer: &mut [u8]) {
        self.read_setup(buffer);
        self.attachment.flush();
        if self.input.len() < INPUT_MOST {
            for frame in self.attachment.hear(buffer) {
                self.take(frame);
            }
        }
        self.hand_on();
        let is_drained = self.read_outputs(buffer);
        if let (Some(exit), None, true, false) = (self.exit, &self.setup, is_drained, self.over) {
            self.attachment.say(&Frame::Exit(exit.shell_code()));
            self.over = true;
        }
        if self.attachment.is_gone() && self.exit.is_none() {
            // As when a terminal is closed. The process is not reaped yet, so the number is still
            // its group's.
            self.signal(Signal::HUP.as_raw());
            self.signal(Signal::CONT.as_raw());
        }
    }

    fn take(&mut self, frame: Frame) {
        match (frame, &mut self.ends) {
            (Frame::Input(bytes), ShepherdEnds::Terminal(terminal)) => terminal.write(&bytes),
            (Frame::Input(bytes), ShepherdEnds::Pipes { .. }) => self.input.extend(bytes),
            (Frame::InputEnd, ShepherdEnds::Pipes { .. }) => self.input_ended = true,
            (Frame::Resize(size), ShepherdEnds::Terminal(terminal)) => terminal.resize(size),
            (Frame::Signal(number), _) => self.signal(number),
            _ => {}
        }
    }

    fn signal(&self, number: i32) {
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Some(group), Some(signal), None) =
            (group, Signal::from_named_raw(number), self.exit)
        {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Writes input to the program.
    fn hand_on(&mut self) {
        match &mut self.ends {
            ShepherdEnds::Terminal(terminal) => terminal.hand_on(),
            ShepherdEnds::Pipes { input, .. } => {
                if let Some(pipe) = input {
                    let is_read = write_some(pipe, &mut self.input);
                    if !is_read || (self.input_ended && self.input.is_empty()) {
                        *input = None;
                    }
                } else {
                    self.input.clear();
                }
            }
        }
    }

    /// Sends the program's output, as far as there is room; returns whether all of it was read.
    fn read_outputs(&mut self, buffer: &mut [u8]) -> bool {
        let attachment = &mut self.attachment;
        match &mut self.ends {
            ShepherdEnds::Terminal(terminal) => {
                let read = read_out(terminal.master(), attachment, Frame::Output, buffer);
                self.is_shut |= read == ReadOutcome::Closed;
                read != ReadOutcome::Full
            }
            ShepherdEnds::Pipes { outputs, .. } => {
                let mut is_drained = true;
                for (output, frame) in outputs.iter_mut().zip([Frame::Output, Frame::Errors]) {
                    let Some(pipe) = output else { continue };
                    match read_out(pipe, attachment, frame, buffer) {
                        ReadOutcome::All => {}
                        ReadOutcome::Full => is_drained = false,
                        ReadOutcome::Closed => *output = None,
                    }
                }
                is_drained
            }
        }
    }

    /// Reads the child's messages between fork and exec.
    fn read_setup(&mut self, buffer: &mut [u8]) {
        let Some((fd, said)) = &mut self.setup else { return };
        loop {
            match rustix::io::read(&*fd, &mut *buffer) {
                Ok(0) => break,
                Ok(length) => said.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => break,
            }
        }
        let is_ready = said.first() == Some(&READY);
        let why = String::from_utf8_lossy(&said[usize::from(is_ready)..]).into_owned();
        self.setup = None;
        if !why.is_empty() {
            self.attachment.say(&Frame::NotStarted(why));
        }
    }
}

#[derive(PartialEq, Eq)]
enum ReadOutcome {
    /// Everything that there is now.
    All,
    /// There may be more, but the attachment is full.
    Full,
    /// The end: there will be no more.
    Closed,
}

fn read_out(
    from: &OwnedFd,
    attachment: &mut Attachment,
    frame: fn(Vec<u8>) -> Frame,
    buffer: &mut [u8],
) -> ReadOutcome {
    loop {
        if attachment.is_full() {
            return ReadOutcome::Full;
        }
        match rustix::io::read(from, &mut *buffer) {
            Ok(0) => return ReadOutcome::Closed,
            Ok(length) => attachment.say(&frame(buffer[..length].to_vec())),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return ReadOutcome::All,
            // Reading a terminal fails once the program has closed it.
            Err(_) => return ReadOutcome::Closed,
        }
    }
}
