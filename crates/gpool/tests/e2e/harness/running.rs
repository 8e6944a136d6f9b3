//! Processes of tests, with their output and their ends.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::{LOOK, PATIENCE};

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub err: String,
    /// The exit code, as in a shell.
    pub code: i32,
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Checks that the command was refused with this code, in one message that has all of these
    /// words, and with nothing on standard output.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        assert_eq!(self.err.matches("error:").count(), 1, "one message: {self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {self:?}");
        }
    }

    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

/// A running process with its output.
pub struct Running {
    child: Child,
    out: std::thread::JoinHandle<String>,
    err: std::thread::JoinHandle<String>,
    seen: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Running {
    pub fn start(command: &mut Command, input: Option<Vec<u8>>) -> Self {
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            // It may end without reading all input; its output shows the result.
            std::thread::spawn(move || drop(pipe.write_all(&input)));
        }
        let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (out, err) = (gather(out, seen.clone()), gather(err, seen.clone()));
        Self { child, out, err, seen }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Like [`Running::signal`], for a process that may have ended.
    pub fn signal_if_there(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // The process is not reaped yet, so the ID is still its own.
        let _ = pid.map(|pid| rustix::process::kill_process(pid, signal));
    }

    pub fn has_said(&self, words: &str) -> bool {
        self.seen.lock().unwrap().contains(words)
    }

    /// All output so far, of both streams.
    pub fn said(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits for this text in the output of either stream.
    #[track_caller]
    pub fn until_says(&self, words: &str) {
        let give_up = Instant::now() + PATIENCE;
        while !self.has_said(words) {
            let seen = self.seen.lock().unwrap().clone();
            assert!(Instant::now() < give_up, "{words:?} was not said, but: {seen}");
            std::thread::sleep(LOOK);
        }
    }

    #[track_caller]
    pub fn end(mut self) -> Ran {
        let give_up = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > give_up {
                let _ = self.child.kill();
                panic!("it does not end; so far: {}", self.seen.lock().unwrap());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        use std::os::unix::process::ExitStatusExt as _;
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
        Ran { out: self.out.join().unwrap(), err: self.err.join().unwrap(), code }
    }
}

fn gather(
    mut from: impl std::io::Read + Send + 'static,
    seen: std::sync::Arc<std::sync::Mutex<String>>,
) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut block = [0; 65536];
        while let Ok(n_read @ 1..) = from.read(&mut block) {
            all.extend_from_slice(&block[..n_read]);
            seen.lock().unwrap().push_str(&String::from_utf8_lossy(&block[..n_read]));
        }
        String::from_utf8_lossy(&all).into_owned()
    })
}
