//! Output of jobs of several tasks: each line has the rank of its task before it, and comes whole.

use std::io::{self, Write};

use gpool_client::{Client, LogQuery};
use gpool_wire::{Job, catalogue};

use crate::failure::{Failure, Result};
use crate::follow;
use crate::render::safe::Plain;

/// Of more tasks than this no output is shown side by side.
const TASKS_MAX: u32 = 64;
/// A line that is longer comes in several.
const LINE_MAX: usize = 64 * 1024;

/// How many tasks of a job write something: all, or the launcher alone.
#[must_use]
pub fn n_tasks(job: &Job) -> u32 {
    let gang = job.gang.as_ref().filter(|gang| gang.launcher.is_none());
    gang.map_or(1, |gang| gang.nodes.saturating_mul(gang.tasks_per_node))
}

/// The ranks whose output is shown: one that is asked for, or all.
#[must_use]
pub fn ranks(job: &Job) -> Vec<u32> {
    match n_tasks(job) {
        n if n > TASKS_MAX => vec![0],
        n => (0..n).collect(),
    }
}

/// A writer for one of several that write to the same place.
#[derive(Debug)]
pub struct Labelled<W: Write> {
    /// What stands before each line.
    label: String,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> Labelled<W> {
    /// With that text before each line; nothing was written yet.
    pub fn new(label: String, to: W) -> Self {
        Self { label, line: Vec::new(), to }
    }

    /// For a task of that rank.
    pub fn of_rank(rank: u32, to: W) -> Self {
        Self::new(format!("{rank}: "), to)
    }

    fn write_line(&mut self) -> io::Result<()> {
        let mut whole = self.label.clone().into_bytes();
        whole.append(&mut self.line);
        if whole.last() != Some(&b'\n') {
            whole.push(b'\n');
        }
        self.to.write_all(&whole)
    }

    /// Writes a line that was begun and has no end.
    ///
    /// # Errors
    /// It can't be written.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.write_line()?;
        }
        self.to.flush()
    }
}

impl<W: Write> Write for Labelled<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() > LINE_MAX {
                self.write_line()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Copies the output of all tasks of a job: one after the other, or side by side for as long as
/// the job runs. `is_plain` writes out what a terminal would obey.
///
/// # Errors
/// As for [`follow::copy`].
pub fn copy(client: &Client, job: &Job, query: &LogQuery, is_plain: bool) -> Result<()> {
    let one = |rank: u32| {
        let query = LogQuery { rank: Some(rank), ..query.clone() };
        let mut out = Labelled::of_rank(rank, io::stdout());
        let copied = match is_plain {
            true => follow::copy(client, &job.id, &query, &mut Plain::new(&mut out)),
            false => follow::copy(client, &job.id, &query, &mut out),
        };
        copied.and_then(|()| out.finish().map_err(|error| crate::screen::not_written(&error)))
    };
    let n_tasks = n_tasks(job);
    if n_tasks > TASKS_MAX {
        let what = format!("job {} has {n_tasks} tasks, too many to show at once", job.id);
        return Err(Failure::new(catalogue::INVALID, what).tip("--rank 0"));
    }
    let ranks = ranks(job);
    if !query.follow {
        return ranks.into_iter().try_for_each(one);
    }
    std::thread::scope(|scope| {
        let all: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || one(rank))).collect();
        // All of them end before the first failure is told.
        let ended: Vec<Result<()>> =
            all.into_iter().map(|it| it.join().unwrap_or(Ok(()))).collect();
        ended.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_comes_whole_with_its_rank() {
        let mut shown = Vec::new();
        let mut it = Labelled::of_rank(3, &mut shown);
        for part in ["on", "e\ntwo\n\nth", "ree"] {
            it.write_all(part.as_bytes()).expect("memory");
        }
        it.finish().expect("memory");
        assert_eq!(String::from_utf8_lossy(&shown), "3: one\n3: two\n3: \n3: three\n");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut shown = Vec::new();
        let mut it = Labelled::of_rank(0, &mut shown);
        for _ in 0..3 {
            it.write_all(&[b'x'; LINE_MAX]).expect("memory");
        }
        it.finish().expect("memory");
        assert_eq!(shown.iter().filter(|byte| **byte == b'\n').count(), 2);
    }
}
