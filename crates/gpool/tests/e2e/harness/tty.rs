//! A terminal that a test types on and reads from.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use super::{Cluster, until};

/// A command on its own terminal, as for a user.
pub struct Tty {
    master: std::fs::File,
    slave: OwnedFd,
    child: Child,
    pub seen: Arc<Mutex<String>>,
}

impl Tty {
    pub fn start(cluster: &Cluster, words: &[&str]) -> Self {
        Self::start_with(cluster, words, &[])
    }

    /// The same with these variables.
    pub fn start_with(cluster: &Cluster, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command: Command = cluster.command();
        command.args(words).env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.envs(variables.iter().copied());
        command.stdin(end()).stdout(end()).stderr(end());
        set_size(&master, 30, 90);
        let child = command.spawn().unwrap();
        let master = std::fs::File::from(master);
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut reader, kept) = (master.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n_read @ 1..) = reader.read(&mut buffer) {
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n_read]));
            }
        });
        Self { master, slave, child, seen }
    }

    #[track_caller]
    pub fn until_shows(&self, words: &str) {
        let seen = || self.seen.lock().unwrap().clone();
        until(&format!("{words:?} to be shown"), || seen().contains(words).then_some(()));
    }

    /// The same for a later prompt, which it requests by typing Enter.
    #[track_caller]
    pub fn until_prompts(&mut self, words: &str) {
        let from = self.seen.lock().unwrap().len();
        until(&format!("a prompt with {words:?}"), || {
            self.types("\r");
            self.seen.lock().unwrap()[from..].contains(words).then_some(())
        });
    }

    pub fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size, as a terminal window does.
    pub fn resize(&self, rows: u16, columns: u16) {
        set_size(&self.master, rows, columns);
        self.signal(Signal::WINCH);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap();
        !modes.local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Waits for its end; the terminal must be in its first mode again.
    #[track_caller]
    pub fn end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        let status = until("it to end", || self.child.try_wait().unwrap());
        assert!(!self.is_raw(), "the terminal is left raw");
        status.code().or(status.signal().map(|signal| 128 + signal)).unwrap()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(of: &impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(of, size).unwrap();
}
