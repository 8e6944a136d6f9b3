//! What lets a test decide when a job goes on.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use super::Cluster;

/// A thing that jobs wait for: they read a line from a pipe.
pub struct Gate {
    path: PathBuf,
    /// Open in both directions: what was written is there for whoever comes to read it, even if
    /// nobody reads at the moment.
    pipe: File,
}

impl Gate {
    pub fn new(cluster: &Cluster, name: &str) -> Self {
        let path = cluster.path(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let pipe = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Self { path, pipe }
    }

    /// A line for a shell that waits for the gate.
    pub fn line(&self) -> String {
        format!("read line < {}", self.path.display())
    }

    /// Lets one job go on that waits, or will.
    pub fn open(&self) {
        // Nothing but the end of a line, so that those who read it together can't share it.
        (&self.pipe).write_all(b"\n").unwrap();
    }
}
