//! Output of several tasks, elements or jobs: each line has a label, the rank of its task or the id
//! of its job, and lines are never mixed.

use std::io::{self, Write};

use gpool_client::{Client, LogQuery};
use gpool_model::job::JobState;
use gpool_wire::{Job, catalogue};

use crate::failure::{Failure, Result};
use crate::follow;
use crate::render::safe::Plain;

/// Most tasks, elements or jobs with output side by side.
const TASKS_MAX: u32 = 64;
/// Longer lines are split.
pub const LINE_MAX: usize = 64 * 1024;

/// The number of tasks with output: all, or only the launcher.
#[must_use]
pub fn n_tasks(job: &Job) -> u32 {
    let gang = job.gang.as_ref().filter(|gang| gang.launcher.is_none());
    gang.map_or(1, |gang| gang.nodes.saturating_mul(gang.tasks_per_node))
}

/// The ranks to show: all, or only the first if there are too many.
#[must_use]
pub fn ranks(job: &Job) -> Vec<u32> {
    match n_tasks(job) {
        n if n > TASKS_MAX => vec![0],
        n => (0..n).collect(),
    }
}

/// The last attempt of a job that waits for its next one.
#[must_use]
pub fn run_before(job: &Job) -> Option<u32> {
    let waits = matches!(job.state, JobState::Held | JobState::Waiting | JobState::Pending);
    Some(job.run.attempt - 1).filter(|run| waits && *run > 0)
}

/// A writer that labels its lines, for several writers to the same output.
#[derive(Debug)]
pub struct Labelled<W: Write> {
    label: String,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> Labelled<W> {
    /// Starts a writer with the label.
    pub fn new(label: String, to: W) -> Self {
        Self { label, line: Vec::new(), to }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let mut whole = self.label.clone().into_bytes();
        whole.append(&mut self.line);
        if whole.last() != Some(&b'\n') {
            whole.push(b'\n');
        }
        self.to.write_all(&whole)
    }

    /// Writes an unfinished last line.
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

#[derive(Debug, Clone)]
pub struct OutputSource {
    job: String,
    rank: Option<u32>,
    /// `None` for output without labels.
    label: Option<String>,
    /// Whether control characters are made visible.
    is_plain: bool,
    /// The attempt to show before following the next one.
    before: Option<u32>,
}

/// The outputs of a job: of its only task, of the requested task, or of all tasks.
///
/// # Errors
/// It has too many.
pub fn sources(
    job: &Job,
    query: &LogQuery,
    is_labelled: bool,
    is_plain: bool,
) -> Result<Vec<OutputSource>> {
    let id = is_labelled.then_some(&job.id);
    let before = run_before(job).filter(|_| query.follow && query.attempt.is_none());
    let source = |rank, label| OutputSource { job: job.id.clone(), rank, label, is_plain, before };
    match n_tasks(job) {
        n if n == 1 || query.rank.is_some() => Ok(vec![source(query.rank, id.cloned())]),
        n if n > TASKS_MAX => {
            let what = format!("job {} has {n} tasks, too many to show at once", job.id);
            Err(Failure::new(catalogue::INVALID, what).tip("--rank 0"))
        }
        n => {
            let label = |rank: u32| match id {
                Some(id) => format!("{id}/{rank}"),
                None => rank.to_string(),
            };
            Ok((0..n).map(|rank| source(Some(rank), Some(label(rank)))).collect())
        }
    }
}

/// Copies outputs one after the other, or side by side while the jobs run. `take` gets the result
/// of each.
///
/// # Errors
/// There are too many to follow, or `take` fails.
pub fn copy(
    client: &Client,
    sources: &[OutputSource],
    query: &LogQuery,
    mut take: impl FnMut(Result<()>) -> Result<()>,
) -> Result<()> {
    if !query.follow || sources.len() == 1 {
        return sources.iter().try_for_each(|source| take(source.copy(client, query)));
    }
    if sources.len() > usize::try_from(TASKS_MAX).unwrap_or(usize::MAX) {
        let what = format!("{} outputs are too many to follow at once", sources.len());
        return Err(Failure::new(catalogue::INVALID, what).tip("gpool logs -f 12.0-3"));
    }
    let ended: Vec<Result<()>> = std::thread::scope(|scope| {
        let start = |source| scope.spawn(move || OutputSource::copy(source, client, query));
        let all: Vec<_> = sources.iter().map(start).collect();
        // Waits for all of them before the first failure is reported.
        all.into_iter().map(|it| it.join().unwrap_or(Ok(()))).collect()
    });
    ended.into_iter().try_for_each(take)
}

impl OutputSource {
    fn copy(&self, client: &Client, query: &LogQuery) -> Result<()> {
        let Some(label) = &self.label else {
            return self.write(client, query, &mut io::stdout());
        };
        let mut out = Labelled::new(format!("{label}: "), io::stdout());
        self.write(client, query, &mut out)?;
        out.finish().map_err(|error| crate::screen::not_written(&error))
    }

    fn write(&self, client: &Client, query: &LogQuery, out: &mut dyn Write) -> Result<()> {
        let mut query = LogQuery { rank: self.rank, ..query.clone() };
        let mut plain;
        let out = match self.is_plain {
            true => {
                plain = Plain::new(out);
                &mut plain
            }
            false => out,
        };
        if let Some(before) = self.before {
            let before = LogQuery { attempt: Some(before), follow: false, ..query.clone() };
            follow::copy(client, &self.job, &before, out)?;
            query.tail = None;
        }
        follow::copy(client, &self.job, &query, out)
    }
}
