//! What jobs have written: the files that gpool keeps, as they are. A file that the user named is
//! not read here, since the server may be allowed to read what its user is not.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use gpool_model::effect::Change;
use gpool_model::{JobId, Notice, Phase, Refusal, Timestamp};
use gpool_wire::{LOG_OFFSET, Problem, Time, catalogue};
use gpool_world::NodeRow;
use rustix::fs::{Mode, OFlags, openat};
use serde::Deserialize;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use utoipa::IntoParams;

use super::Api;
use super::asker::Asks;
use super::extract::{ApiError, Params, Segment, job_id};
use super::jobs::{self, Found};
use crate::handle::internal;
use crate::output::kept_until;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Where the last lines are looked for, from the end: a job may have made a file of any length in
/// place of its log, at no cost to itself.
const TAIL_MAX: u64 = 64 << 20;
/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What to read of a job's output.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// `stdout` (unless said) or `stderr`.
    pub stream: Option<String>,
    /// Go on until the job has ended and all is sent.
    #[serde(default)]
    pub follow: bool,
    /// Nothing, if the output was last written to before then (RFC 3339). Output carries no times
    /// of its own.
    pub since: Option<String>,
    /// At first only so many of the last lines, as far as they are in the last 64 MiB.
    pub tail: Option<u64>,
    /// Begin at this byte.
    pub offset: Option<u64>,
    /// Of which run; the last unless said.
    pub attempt: Option<u32>,
    /// Of which task, by its rank; the first unless said.
    pub rank: Option<u32>,
}

/// Reads what a job has written, as bytes. The header `gpool-log-offset` says with which byte the
/// answer begins, so that it can be gone on with by `offset`.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", operation_id = "jobs_logs",
    params(("id" = String, Path, description = "The job"), LogParams),
    responses(
        (status = 200, description = "The output; empty before the job starts", body = String,
         content_type = "text/plain"),
        (status = 403, description = "It is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job, or it writes to a file of its own",
         body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(params): Params<LogParams>,
) -> Result<Response, ApiError> {
    let id = job_id(&id)?;
    // Before the job is looked at, so that its end can't be missed in between.
    let notices = api.handle.notices();
    let found = jobs::find(&api, id).await?;
    if !asker.may_see(found.spec.owner.uid) {
        let what = format!("read the output of job {id} of user {}", found.spec.owner.user);
        return Err(Refusal::NotPermitted { what }.into());
    }
    let log = log_of(&found, &params)?;
    let nodes = api.handle.query(|view| {
        let folder = |(_, row): (_, &NodeRow)| row.node.name.folder();
        view.world.nodes_by_name().filter_map(folder).collect::<Vec<_>>()
    });
    let logs = places(&nodes.await?, &log);
    let since = params.since.as_deref().map(since_of).transpose()?;
    let state_dir = api.handle.info().state_dir.clone();
    let job_has_ended = found.job.phase.is_ended();
    let place = Place { state_dir, logs, owner: found.spec.owner.uid };
    let opened = {
        let (place, tail, offset) = (place.clone(), params.tail, params.offset);
        let open = move || open_at(&place, since, tail, offset);
        let opened = tokio::task::spawn_blocking(open).await.map_err(internal)?;
        opened.map_err(|error| unreadable(id, &error))?
    };
    let (file, offset) = match opened {
        Opened::At(file, offset) => (Some(file), offset),
        Opened::TooOld if !params.follow || job_has_ended => return Ok(answer(Body::empty(), 0)),
        Opened::Missing if job_has_ended && has_run(&found.job.phase) => {
            let what = format!("the output of job {id} is not there any more");
            let problem = Problem::new(catalogue::NO_SUCH_LOG, what);
            let keep = api.handle.shared.keep_output;
            return Err(match (keep, kept_until(&found.job.phase, keep)) {
                (Some(keep), Some(until)) if until <= crate::core::now() => problem
                    .because(format!("it was kept until {}, {keep} after its end", Time(until))),
                _ => problem,
            }
            .into());
        }
        Opened::TooOld | Opened::Unwritten | Opened::Missing => (None, 0),
    };
    let reader = LogReader {
        place,
        id,
        file,
        follow: params.follow && !job_has_ended,
        job_has_ended,
        notices,
        end: api.end.clone(),
        api,
    };
    let chunks = unfold(reader, async |mut reader| {
        reader.next().await.transpose().map(|chunk| (chunk, reader))
    });
    Ok(answer(Body::from_stream(chunks), offset))
}

/// What its user may have made of the file is told of as such, the rest is the server's trouble.
fn unreadable(id: JobId, error: &io::Error) -> ApiError {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::INVAL) => {
            let what = format!("the output of job {id} is no plain file of its user's any more");
            Problem::new(catalogue::NO_SUCH_LOG, what).into()
        }
        _ => internal(error).into(),
    }
}

fn answer(body: Body, offset: u64) -> Response {
    let headers = [
        (CONTENT_TYPE.as_str(), "text/plain; charset=utf-8".to_owned()),
        (X_CONTENT_TYPE_OPTIONS.as_str(), "nosniff".to_owned()),
        (LOG_OFFSET, offset.to_string()),
    ];
    (headers, body).into_response()
}

fn has_run(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended(end) if end.started_at.is_some())
}

pub(crate) fn since_of(text: &str) -> Result<Timestamp, Refusal> {
    let time: Result<Time, _> = text.parse();
    time.map(|time| time.0)
        .map_err(|error| Refusal::Invalid { field: "since".to_owned(), why: error.to_string() })
}

/// The file of a job's output, below the folder of its node. No part of it is what a user wrote.
fn log_of(found: &Found, params: &LogParams) -> Result<PathBuf, ApiError> {
    let stream = params.stream.as_deref().unwrap_or("stdout");
    let own = match stream {
        "stdout" => &found.spec.stdout,
        "stderr" => &found.spec.stderr,
        other => {
            let shown: String = other.chars().take(40).collect();
            let why = format!("{shown:?} is neither stdout nor stderr");
            return Err(Refusal::Invalid { field: "stream".to_owned(), why }.into());
        }
    };
    if let Some(own) = own {
        let what = format!("job {} writes {stream} to a file of its own", found.job.id);
        return Err(Problem::new(catalogue::NO_SUCH_LOG, what)
            .because(format!("{own:?}, as seen from {:?}", found.spec.directory))
            .into());
    }
    let attempt = params.attempt.unwrap_or(found.job.attempt.0);
    if attempt == 0 || attempt > found.job.attempt.0 {
        let what = format!("job {} has no attempt {attempt}", found.job.id);
        let newest = format!("its newest is {}#{}", found.job.id, found.job.attempt.0);
        return Err(Problem::new(catalogue::NO_SUCH_LOG, what).because(newest).into());
    }
    let n_tasks = found.spec.gang.n_tasks();
    let file = match params.rank.unwrap_or(0) {
        0 => stream.to_owned(),
        rank if rank < n_tasks => format!("{stream}-{rank}"),
        rank => {
            let what = format!("job {} has no task {rank}", found.job.id);
            let there = format!("it has {n_tasks}, counted from 0");
            return Err(Problem::new(catalogue::NO_SUCH_LOG, what).because(there).into());
        }
    };
    Ok(PathBuf::from(format!("jobs/{}/{attempt}/{file}", found.job.id)))
}

/// Where a run's output may lie below the state directory: it is on the node that it ran on, of
/// which there may have been one or several at that time. Runs are numbered, so no two nodes have
/// the same.
fn places(nodes: &[String], log: &Path) -> Arc<[PathBuf]> {
    let of_several = nodes.iter().map(|folder| Path::new(folder).join(log));
    std::iter::once(log.to_owned()).chain(of_several).collect()
}

/// Where a job's output is, and whose the file has to be.
#[derive(Clone)]
struct Place {
    state_dir: PathBuf,
    /// Below the state directory; it is in one of them.
    logs: Arc<[PathBuf]>,
    owner: u32,
}

enum Opened {
    /// The file, to be read from that byte on.
    At(File, u64),
    /// It was last written to too long ago.
    TooOld,
    /// The job has not written anything (yet).
    Unwritten,
    /// The job has not run here, or what it left was removed.
    Missing,
}

fn open_at(
    place: &Place,
    since: Option<Timestamp>,
    tail: Option<u64>,
    offset: Option<u64>,
) -> io::Result<Opened> {
    let Some(mut file) = open(place)? else {
        let folders = place.logs.iter().filter_map(|log| Some(place.state_dir.join(log.parent()?)));
        let has_folder = folders
            .map(|folder| folder.symlink_metadata())
            .any(|about| about.is_ok_and(|about| about.is_dir()));
        return Ok(if has_folder { Opened::Unwritten } else { Opened::Missing });
    };
    let metadata = file.metadata()?;
    if let Some(since) = since {
        let written = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        if written.as_millis() < u128::from(since.get()) {
            return Ok(Opened::TooOld);
        }
    }
    let start = match (offset, tail) {
        (Some(offset), _) => offset.min(metadata.len()),
        (None, Some(n_lines)) => last_lines(&mut file, metadata.len(), n_lines)?,
        (None, None) => 0,
    };
    file.seek(SeekFrom::Start(start))?;
    Ok(Opened::At(file, start))
}

/// Opens the output wherever it lies.
fn open(place: &Place) -> io::Result<Option<File>> {
    let mut opened = place.logs.iter().map(|log| open_log(place, log));
    opened.find(|opened| !matches!(opened, Ok(None))).unwrap_or(Ok(None))
}

/// Opens a file below a folder, through folders only: its user may have put links or pipes in
/// their place, which are neither followed nor waited for. Nor is a second name for somebody
/// else's file read, which where the kernel does not forbid it anybody can make.
fn open_log(place: &Place, log: &Path) -> io::Result<Option<File>> {
    let Place { state_dir, owner, .. } = place;
    let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder: OwnedFd = rustix::fs::open(state_dir.as_path(), folder_flags, Mode::empty())?;
    let mut parts = log.iter().peekable();
    while let Some(part) = parts.next() {
        let is_file = parts.peek().is_none();
        let flags = match is_file {
            true => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            false => folder_flags | OFlags::NOFOLLOW,
        };
        folder = match openat(folder.as_fd(), part, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    let file = File::from(folder);
    let about = file.metadata()?;
    match (about.is_file(), about.uid() == *owner) {
        (true, true) => Ok(Some(file)),
        (true, false) | (false, _) => Err(rustix::io::Errno::INVAL.into()),
    }
}

/// Where the last so many lines begin, looked for in the last part of the file only.
fn last_lines(file: &mut File, length: u64, n_lines: u64) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK];
    if n_lines == 0 {
        return Ok(length);
    }
    let first = length.saturating_sub(TAIL_MAX);
    let mut end = length;
    let mut n_found = 0;
    while end > first {
        let start = end.saturating_sub(CHUNK as u64).max(first);
        let size = usize::try_from(end - start).expect("a chunk fits in memory");
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut buffer[..size])?;
        for (ix, byte) in buffer[..size].iter().enumerate().rev() {
            let position = start + ix as u64;
            // The new line at the very end ends the last line and begins none.
            if *byte == b'\n' && position + 1 != length {
                n_found += 1;
                if n_found == n_lines {
                    return Ok(position + 1);
                }
            }
        }
        end = start;
    }
    Ok(first)
}

/// Waits until something is said of a job, or may have been.
async fn change_of(notices: &mut broadcast::Receiver<Notice>, id: JobId) {
    loop {
        match notices.recv().await {
            Ok(Notice { change: Change::JobState { job, .. }, .. }) if job != id => {}
            Ok(Notice {
                change:
                    Change::NodeChanged { .. }
                    | Change::ReservationChanged { .. }
                    | Change::ProjectChanged { .. },
                ..
            }) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            // The server ends, and says so elsewhere.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

struct LogReader {
    api: Api,
    place: Place,
    id: JobId,
    file: Option<File>,
    follow: bool,
    job_has_ended: bool,
    notices: broadcast::Receiver<Notice>,
    end: watch::Receiver<bool>,
}

impl LogReader {
    /// The next bytes; `None` where there will be no more. When the server stops first, it is an
    /// error, so that the reader knows that this is not the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.read().await? {
                return Ok(Some(chunk));
            }
            if !self.follow {
                return Ok(None);
            }
            if self.job_has_ended {
                // Everything was written before the end was known, so one more look sees it all.
                self.follow = false;
                continue;
            }
            let id = self.id;
            let changed = tokio::select! {
                () = tokio::time::sleep(LOOK) => false,
                () = change_of(&mut self.notices, id) => true,
                _ = self.end.wait_for(|end| *end) => {
                    return Err(io::Error::other("the server is stopping"));
                }
            };
            if changed {
                self.job_has_ended = !self.lives().await?;
            }
        }
    }

    async fn lives(&self) -> io::Result<bool> {
        let id = self.id;
        let lives = self.api.handle.query(move |view| view.world.job(id).is_some()).await;
        lives.map_err(|_| io::Error::other("the server is stopping"))
    }

    /// What can be read now, if anything can.
    async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let (file, place) = (self.file.take(), self.place.clone());
        let read = move || {
            let file = match file {
                Some(file) => Some(file),
                None => open(&place)?,
            };
            let Some(mut file) = file else { return Ok((None, None)) };
            let mut buffer = vec![0; CHUNK];
            let n_read = file.read(&mut buffer)?;
            buffer.truncate(n_read);
            Ok::<_, io::Error>((Some(file), (n_read > 0).then(|| Bytes::from(buffer))))
        };
        let (file, chunk) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
        self.file = file;
        Ok(chunk)
    }
}
