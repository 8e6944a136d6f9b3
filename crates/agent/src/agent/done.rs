//! A file of finished tasks with acknowledged ends: a restarted agent must not launch one of them
//! again because of a late order. Two files of bounded length; when one is full, it replaces the
//! older.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use gpool_model::id::TaskId;

use crate::layout::Layout;

/// The ledger of finished tasks.
pub(super) struct Done {
    layout: Layout,
    file: File,
    lines: usize,
}

impl Done {
    /// Lines after which a new file is started.
    const MOST: usize = 32_768;

    /// Opens the ledger and returns its tasks, oldest first.
    pub(super) fn open(layout: &Layout) -> io::Result<(Self, Vec<TaskId>)> {
        let [present, before] = layout.done();
        let mut tasks = VecDeque::new();
        let mut lines = 0;
        for path in [&before, &present] {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            lines = text.lines().count();
            tasks.extend(text.lines().filter_map(|line| line.parse::<TaskId>().ok()));
        }
        let file = open(&present)?;
        Ok((Self { layout: layout.clone(), file, lines }, tasks.into()))
    }

    /// Adds a task.
    pub(super) fn note(&mut self, task: TaskId) -> io::Result<()> {
        if self.lines >= Self::MOST {
            let [present, before] = self.layout.done();
            std::fs::rename(&present, before)?;
            self.file = open(&present)?;
            self.lines = 0;
        }
        self.lines += 1;
        self.file.write_all(format!("{task}\n").as_bytes())
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end by a panic.
mod tests {
    use super::*;

    #[test]
    fn noted_tasks_are_read_in_order_and_the_oldest_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let task = |number: usize| format!("{number}#1/0").parse::<TaskId>().unwrap();
        let (mut done, none) = Done::open(&layout).unwrap();
        assert!(none.is_empty());
        let count = Done::MOST * 2 + 5;
        for number in 0..count {
            done.note(task(number)).unwrap();
        }
        let (_, read) = Done::open(&layout).unwrap();
        assert_eq!(read.len(), Done::MOST + 5);
        assert_eq!((read.first(), read.last()), (Some(&task(Done::MOST)), Some(&task(count - 1))));
    }
}
