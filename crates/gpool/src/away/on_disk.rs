//! The output of jobs on disk, for when no server answers.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::follow;
use gpool_cli::render::safe::Plain;
use gpool_cli::screen::not_written;
use gpool_cli::session::{BACK, Session};
use gpool_client::{Client, LogQuery, LogStream};
use gpool_model::output::OutputStream;
use gpool_model::{Attempt, JobId, TaskId};
use gpool_output::Output;
use gpool_shepherd::layout::Layout;
use gpool_shepherd::survey::{self, LocalTask, LocalTaskState};

use super::{AwayReport, look, state};

/// Interval at which followed output is read.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for an answer of the returned server; meanwhile the job may write more.
const ANSWER: Duration = Duration::from_secs(1);
/// Attempts of a job that are searched for output.
const ATTEMPTS_MAX: u32 = 64;

/// Copies a job's output from disk. With `query.follow` it goes on until the job has ended or a
/// server answers, which then sends the rest. `failure` is why the server did not answer; it is
/// returned unless there is another failure.
///
/// # Errors
/// There is no output that the caller may read, or it can't be written.
pub fn logs(
    failure: Failure,
    named: Option<&str>,
    job: JobId,
    query: &LogQuery,
    session: &Session,
) -> Result<()> {
    let found = look(named, session);
    let on_disk = match find(&found, job, query) {
        Ok(Some(on_disk)) => on_disk,
        Ok(None) => {
            let looked: Vec<String> =
                found.folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(failure
                .why(format!("{} has no output of job {job}", looked.join(" or ")))
                .tip(format!("gpool logs {job} --state-dir FOLDER")));
        }
        Err(why) => return Err(failure.why(why)),
    };
    let left = found.tasks.iter().find(|left| left.task == on_disk.task);
    let how = left.map(|left| format!(" ({})", state(&left.is))).unwrap_or_default();
    session.screen.note(&format!(
        "note: no server answers; this is the output of job {job}{how} on disk: {}",
        on_disk.path().display()
    ));
    on_disk.copy(failure, query, session)
}

/// Finds the output of the named attempt, or else of the newest one.
fn find(
    found: &AwayReport,
    job: JobId,
    query: &LogQuery,
) -> std::result::Result<Option<OnDisk>, String> {
    let attempts: Vec<u32> = match query.attempt {
        Some(attempt) => vec![attempt],
        None => (1..=ATTEMPTS_MAX).rev().collect(),
    };
    let streams = match query.stream {
        LogStream::Stdout => vec![OutputStream::Stdout],
        LogStream::Stderr => vec![OutputStream::Stderr],
        LogStream::Both => OutputStream::BOTH.to_vec(),
    };
    for state_dir in &found.folders {
        for attempt in &attempts {
            let task = TaskId { job, attempt: Attempt(*attempt), rank: query.rank.unwrap_or(0) };
            let mut on_disk = OnDisk::of(state_dir, task, streams.clone());
            let refreshed = on_disk.output.refresh();
            refreshed
                .map_err(|error| format!("can't read {}: {error}", on_disk.path().display()))?;
            if on_disk.output.is_written() {
                return Ok(Some(on_disk));
            }
        }
    }
    Ok(None)
}

/// A task's output on disk.
struct OnDisk {
    task: TaskId,
    state_dir: PathBuf,
    streams: Vec<OutputStream>,
    output: Output,
    n_copied: u64,
}

impl OnDisk {
    fn of(state_dir: &Path, task: TaskId, streams: Vec<OutputStream>) -> Self {
        let state_dir = state_dir.to_owned();
        let output = Output::new([state_dir.clone()].into(), task, streams.clone(), None);
        Self { task, state_dir, streams, output, n_copied: 0 }
    }

    /// The path that messages show.
    fn path(&self) -> PathBuf {
        let folder = Layout::new(&self.state_dir).attempt(self.task);
        match self.streams[..] {
            [stream] => folder.join(stream.as_str()),
            _ => folder,
        }
    }

    /// Whether the files belong to the user that reads them.
    fn is_mine(&self) -> io::Result<bool> {
        let me = rustix::process::geteuid().as_raw();
        Ok(self.output.owner()?.is_none_or(|owner| owner == me))
    }

    fn copy(mut self, failure: Failure, query: &LogQuery, session: &Session) -> Result<()> {
        let unread = |error: io::Error| {
            Failure::new(errors::CONNECTION_LOST, format!("can't read the output: {error}"))
        };
        if let Some(since) = query.since
            && self.output.written_at().map_err(unread)? < since.0
            && !query.follow
        {
            return Err(failure);
        }
        if let Some(n_lines) = query.tail {
            self.n_copied = self.output.last_lines(n_lines).map_err(unread)?;
        }
        let is_plain = session.screen.is_terminal() && !self.is_mine().map_err(unread)?;
        let mut out: Box<dyn Write> = match io::stdout().lock() {
            out if is_plain => Box::new(Plain::new(out)),
            out => Box::new(out),
        };
        loop {
            // Checked before reading, so no output from before the end is missed.
            let has_ended = !self.runs();
            self.output.refresh().map_err(unread)?;
            while self.copy_some(&mut out).map_err(|error| not_written(&error))? {}
            if !query.follow || has_ended {
                return Err(failure);
            }
            if let Ok(client) = session.client()
                && client.clone().with_timeout(Some(ANSWER)).ready().is_ok()
            {
                return self.go_on(&session.patient(client), query, session, &mut out);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether the task runs, as far as the caller can see.
    fn runs(&self) -> bool {
        let is_it = |left: &LocalTask| left.task == self.task && left.state_dir == self.state_dir;
        let claimed = survey::claimed(&self.state_dir);
        let left = claimed.unwrap_or_else(|_| survey::own_processes());
        left.iter().any(|left| is_it(left) && left.is == LocalTaskState::Runs)
    }

    fn copy_some(&mut self, out: &mut dyn Write) -> io::Result<bool> {
        let mut buffer = vec![0; 64 * 1024];
        let n_read = self.output.read_at(self.n_copied, &mut buffer)?;
        out.write_all(&buffer[..n_read]).and_then(|()| out.flush())?;
        self.n_copied += n_read as u64;
        Ok(n_read > 0)
    }

    /// Copies the rest from a server that answers again.
    fn go_on(
        self,
        client: &Client,
        query: &LogQuery,
        session: &Session,
        out: &mut dyn Write,
    ) -> Result<()> {
        session.screen.note(BACK);
        let attempt = Some(self.task.attempt.0);
        let rest = LogQuery { since: None, tail: None, attempt, ..query.clone() };
        follow::copy_after(client, &self.task.job.to_string(), &rest, self.n_copied, out)
    }
}
