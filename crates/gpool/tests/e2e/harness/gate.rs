//! What lets a test decide when a job goes on.

use std::io::Write as _;
use std::path::PathBuf;

use super::{Cluster, until};

/// A thing that a job waits for: it reads from a pipe that nobody has opened yet.
pub struct Gate {
    path: PathBuf,
}

impl Gate {
    pub fn new(cluster: &Cluster, name: &str) -> Self {
        let path = cluster.path(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        Self { path }
    }

    /// A line for a shell that waits for the gate.
    pub fn line(&self) -> String {
        // Who opened it for another may not have closed it yet; then there is nothing to read.
        format!("until read line < {}; do :; done", self.path.display())
    }

    /// Lets one waiting job go on.
    pub fn open(&self) {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        // Without a reader it can't be opened so.
        let mut pipe = until("somebody waits at the gate", || options.open(&self.path).ok());
        pipe.write_all(b"go\n").unwrap();
    }
}
