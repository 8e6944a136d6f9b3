//! The output of jobs on disk, for when no server answers.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use gpool_agent::layout::Layout;
use gpool_agent::survey::{self, Left, LeftIs};
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::follow;
use gpool_cli::render::safe::Plain;
use gpool_cli::screen::not_written;
use gpool_cli::session::{BACK, Session};
use gpool_client::{Client, LogQuery, LogStream};
use gpool_model::output::{ORDER_FILE, ORDER_MAX, OutputStream, Pieces, last_lines};
use gpool_model::{Attempt, JobId, TaskId};

use super::{Found, look, state};

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
    let left = found.left.iter().find(|left| left.task == on_disk.task);
    let how = left.map(|left| format!(" ({})", state(&left.is))).unwrap_or_default();
    session.screen.note(&format!(
        "note: no server answers; this is the output of job {job}{how} on disk: {}",
        on_disk.path().display()
    ));
    on_disk.copy(failure, query, session)
}

/// Finds the output of the named attempt, or else of the newest one.
fn find(
    found: &Found,
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
            let mut on_disk = OnDisk::of(state_dir.clone(), task, streams.clone());
            let looked = on_disk.look();
            looked.map_err(|error| format!("can't read {}: {error}", on_disk.path().display()))?;
            if on_disk.files.iter().any(Option::is_some) {
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
    files: [Option<File>; 2],
    pieces: Pieces,
    n_seen: u64,
}

impl OnDisk {
    fn of(state_dir: PathBuf, task: TaskId, streams: Vec<OutputStream>) -> Self {
        let files = [None, None];
        Self { task, state_dir, streams, files, pieces: Pieces::default(), n_seen: 0 }
    }

    /// The path that messages show.
    fn path(&self) -> PathBuf {
        let folder = Layout::new(&self.state_dir).attempt(self.task);
        match self.streams[..] {
            [stream] => folder.join(stream.as_str()),
            _ => folder,
        }
    }

    /// Reads the current lengths of the files.
    fn look(&mut self) -> io::Result<()> {
        let mut lengths = [0, 0];
        for stream in &self.streams {
            let file = &mut self.files[*stream as usize];
            if file.is_none() {
                *file = opened(&self.state_dir, self.task, stream.as_str())?;
            }
            if let Some(file) = file {
                lengths[*stream as usize] = file.metadata()?.len();
            }
        }
        self.pieces = match self.streams[..] {
            [stream] => Pieces::one(stream, lengths[stream as usize]),
            _ => {
                // Read after the lengths, so the order covers all these bytes.
                let mut order = Vec::new();
                if let Ok(Some(file)) = opened(&self.state_dir, self.task, ORDER_FILE) {
                    file.take(ORDER_MAX).read_to_end(&mut order)?;
                }
                Pieces::both(lengths, &order)
            }
        };
        Ok(())
    }

    /// Whether all files belong to the user that reads them.
    fn is_mine(&self) -> io::Result<bool> {
        let me = rustix::process::geteuid().as_raw();
        let mut is_mine = true;
        for file in self.files.iter().flatten() {
            is_mine &= file.metadata()?.uid() == me;
        }
        Ok(is_mine)
    }

    /// The time of the last write, in milliseconds since 1970.
    fn written_at(&self) -> io::Result<u128> {
        let mut last = 0;
        for file in self.files.iter().flatten() {
            let at = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            last = at.as_millis().max(last);
        }
        Ok(last)
    }

    fn copy(mut self, failure: Failure, query: &LogQuery, session: &Session) -> Result<()> {
        let unread = |error: io::Error| {
            Failure::new(errors::CONNECTION_LOST, format!("can't read the output: {error}"))
        };
        if let Some(since) = query.since
            && self.written_at().map_err(unread)? < u128::from(since.0.get())
            && !query.follow
        {
            return Err(failure);
        }
        if let Some(n_lines) = query.tail {
            let read = |at, buffer: &mut [u8]| self.read_exact_at(at, buffer);
            self.n_seen = last_lines(self.pieces.length(), n_lines, read).map_err(unread)?;
        }
        let is_plain = session.screen.is_terminal() && !self.is_mine().map_err(unread)?;
        let mut out: Box<dyn Write> = match io::stdout().lock() {
            out if is_plain => Box::new(Plain::new(out)),
            out => Box::new(out),
        };
        loop {
            // Checked before reading, so no output from before the end is missed.
            let has_ended = !self.runs();
            self.look().map_err(unread)?;
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
        let is_it = |left: &Left| left.task == self.task && left.state_dir == self.state_dir;
        let claimed = survey::claimed(&self.state_dir);
        let left = claimed.unwrap_or_else(|_| survey::own_processes());
        left.iter().any(|left| is_it(left) && left.is == LeftIs::Runs)
    }

    fn copy_some(&mut self, out: &mut dyn Write) -> io::Result<bool> {
        let mut buffer = vec![0; 64 * 1024];
        let n_read = self.read_at(self.n_seen, &mut buffer)?;
        out.write_all(&buffer[..n_read]).and_then(|()| out.flush())?;
        self.n_seen += n_read as u64;
        Ok(n_read > 0)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((stream, from, n_bytes)) = self.pieces.find(at) else { return Ok(0) };
        let Some(file) = &self.files[stream as usize] else { return Ok(0) };
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX).min(buffer.len());
        file.read_at(&mut buffer[..n_bytes], from)
    }

    fn read_exact_at(&self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let n_read = self.read_at(at, buffer)?;
            if n_read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            at += n_read as u64;
            buffer = &mut buffer[n_read..];
        }
        Ok(())
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
        follow::copy_after(client, &self.task.job.to_string(), &rest, self.n_seen, out)
    }
}

fn opened(state_dir: &std::path::Path, task: TaskId, name: &str) -> io::Result<Option<File>> {
    match survey::open_output(state_dir, task, name) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
