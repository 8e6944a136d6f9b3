//! A folder for runs of the binary without a server.

use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::program::program;

/// The socket of no server: a line that needs one is refused with exit code 3.
pub const NO_SERVER: &str = "/nonexistent/gpool/api.sock";

pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(words)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("GPOOL_SOCKET", self.folder.path().join("api.sock"))
            .env("GPOOL_STATE_DIR", self.folder.path().join("state"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Writes a file, and returns its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
