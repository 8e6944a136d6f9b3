//! The shepherd's side of a keeper process: it gets a plan, sends lines of JSON, and waits for
//! answers in between. It is a child of the shepherd, and no process of the task.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use gpool_checkpoint::{ARGUMENT, Aim, Plan, Say, Work};

use crate::message::take_lines;

/// The program of this process: a shepherd is forked from a nursery, which runs it.
const PROGRAM: &str = "/proc/self/exe";

pub(super) struct Keeper {
    pub pid: u32,
    pub aim: Aim,
    /// Its result, once it said one.
    pub last: Option<Say>,
    input: ChildStdin,
    output: ChildStdout,
    unread: Vec<u8>,
}

/// The messages read from a keeper.
#[derive(Default)]
pub(super) struct News {
    pub messages: Vec<Say>,
    pub is_over: bool,
}

impl Keeper {
    /// Starts one. It is reaped with the processes of the task.
    pub(super) fn start(plan: &Plan) -> io::Result<Self> {
        let work = serde_json::to_string(&Work::Plan(Box::new(plan.clone())))?;
        let mut child = Command::new(PROGRAM)
            .args([ARGUMENT, &work])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self { pid: child.id(), aim: plan.aim, last: None, input, output, unread: Vec::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    pub(super) fn hear(&mut self) -> News {
        let mut news = News::default();
        let mut buffer = [0; 4096];
        loop {
            match self.output.read(&mut buffer) {
                Ok(0) => news.is_over = true,
                Ok(length) => {
                    self.unread.extend_from_slice(&buffer[..length]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => news.is_over = true,
            }
            break;
        }
        news.messages = take_lines(&mut self.unread);
        news
    }

    pub(super) fn answer(&mut self, yes: bool) {
        let line: &[u8] = if yes { b"yes\n" } else { b"no\n" };
        // A keeper that is gone is noticed by the end of its output.
        let _ = self.input.write_all(line);
    }
}
