//! A file of finished tasks with acknowledged ends: a restarted agent must not launch one of them
//! again because of a late order. Two files of bounded length; when one is full, it replaces the
//! older.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use gpool_model::id::TaskId;
use rustix::fs::FallocateFlags;

use gpool_shepherd::layout::Layout;

/// The ledger of finished tasks.
pub struct Done {
    layout: Layout,
    file: File,
    lines: usize,
}

impl Done {
    /// Lines after which a new file is started.
    pub const MOST: usize = 32_768;

    /// Lines for which the file has space on a full disk.
    const RESERVED: usize = 2048;

    fn reserve(&self) {
        const LINE: u64 = 24;
        let length = self.file.metadata().map_or(0, |it| it.len());
        let most = length.saturating_add(Self::RESERVED as u64 * LINE);
        // Without space, a claim that was not put away is reported again to the next server.
        let _ = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, most);
    }

    /// Opens the ledger and returns its tasks, oldest first.
    pub fn open(layout: &Layout) -> io::Result<(Self, Vec<TaskId>)> {
        let [present, before] = layout.done();
        let mut tasks = VecDeque::new();
        let mut lines = 0;
        for path in [&before, &present] {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            lines = text.lines().count();
            tasks.extend(text.lines().filter_map(|line| line.parse::<TaskId>().ok()));
        }
        let file = open(&present)?;
        let done = Self { layout: layout.clone(), file, lines };
        done.reserve();
        Ok((done, tasks.into()))
    }

    pub fn note(&mut self, task: TaskId) -> io::Result<()> {
        if self.lines >= Self::MOST {
            let [present, before] = self.layout.done();
            std::fs::rename(&present, before)?;
            self.file = open(&present)?;
            self.lines = 0;
        }
        if self.lines.is_multiple_of(Self::RESERVED / 2) {
            self.reserve();
        }
        self.lines += 1;
        self.file.write_all(format!("{task}\n").as_bytes())
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}
