//! Lets a test decide when a job continues.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use super::Cluster;

/// A gate that jobs wait for: they read a line from a FIFO.
pub struct Gate {
    path: PathBuf,
    /// Open in both directions, so that written lines stay for later readers.
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

    /// A shell line that waits for the gate.
    pub fn line(&self) -> String {
        format!("read line < {}", self.path.display())
    }

    /// Lets one job pass that waits now or later.
    pub fn open(&self) {
        // Only a line end, so that several readers can't share it.
        (&self.pipe).write_all(b"\n").unwrap();
    }
}
