//! What jobs have written: the files that gpool keeps, as they are. A file that the user named is
//! not read here, since the server may be allowed to read what its user is not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use gpool_model::effect::Change;
use gpool_model::output::OutputStream;
use gpool_model::refusal::Permitted;
use gpool_model::{JobId, Notice, Phase, Refusal, Timestamp};
use gpool_wire::{LOG_OFFSET, Problem, Time, catalogue};
use gpool_world::NodeRow;
use serde::Deserialize;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use utoipa::IntoParams;

use super::Api;
use super::asker::Asks;
use super::extract::{ApiError, Params, Segment, job_id};
use super::jobs::{self, Found};
use super::output::{Opened, Output, Place};
use crate::fault::internal;
use crate::output::kept_until;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What to read of a job's output.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// `stdout` (the default), `stderr`, or `both` in the order of their writing.
    #[param(schema_with = crate::http::document::stream_words)]
    pub stream: Option<String>,
    /// Keeps sending until the job has ended and all output is sent.
    #[serde(default)]
    pub follow: bool,
    /// Returns nothing if the last output is older than this time (RFC 3339). Output has no
    /// times.
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// Begins with this number of last lines, within the last 64 MiB.
    pub tail: Option<u64>,
    /// Begins at this byte.
    pub offset: Option<u64>,
    /// The run (default: the last that has started; with `follow`, the next one if none has).
    pub attempt: Option<u32>,
    /// The rank of the task (default: 0).
    pub rank: Option<u32>,
}

/// Returns the output of a job as bytes. The header `gpool-log-offset` is the position of the first
/// byte; `offset` continues from a position.
#[utoipa::path(
    get, path = "/jobs/{id}/logs", operation_id = "jobs_logs",
    params(("id" = String, Path, description = "The job"), LogParams),
    responses(
        (status = 200, description = "The output; empty before the job starts", body = String,
         content_type = "text/plain"),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job, its output goes to a file of the \
          user, or it is an array: each element has output",
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
        return Err(Refusal::NotPermitted { what, by: Permitted::Owner }.into());
    }
    let (run, suffix, streams) = log_of(&found, &params)?;
    let folders = places(&node_folders(&api).await?, &run);
    let since = params.since.as_deref().map(since_of).transpose()?;
    let state_dir = api.handle.info().state_dir.clone();
    let job_has_ended = found.job.phase.is_ended();
    let place = Place { state_dir, folders, suffix, streams, owner: found.spec.owner.uid };
    let opened = {
        let (place, tail, offset) = (place.clone(), params.tail, params.offset);
        let open = move || place.open(since, tail, offset);
        let opened = tokio::task::spawn_blocking(open).await.map_err(internal)?;
        opened.map_err(|error| unreadable(id, &error))?
    };
    let (output, offset) = match opened {
        Opened::At(output, offset) => (output, offset),
        Opened::TooOld if !params.follow || job_has_ended => return Ok(answer(Body::empty(), 0)),
        Opened::Missing if job_has_ended && has_run(&found.job.phase) => {
            let what = format!("the output of job {id} was removed");
            let problem = Problem::new(catalogue::NO_SUCH_LOG, what);
            let keep = api.handle.shared.keep_output;
            return Err(match (keep, kept_until(&found.job.phase, keep)) {
                (Some(keep), Some(until)) if until <= crate::clock::now() => problem
                    .because(format!("it was kept until {}, {keep} after its end", Time(until))),
                _ => problem,
            }
            .into());
        }
        // There is nothing yet, or a follower gets all of it.
        Opened::TooOld | Opened::Unwritten | Opened::Missing => (Output::default(), 0),
    };
    let reader = LogReader {
        place,
        id,
        output: Some(output),
        position: offset,
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

/// Maps an error to a refusal where the user may have caused it, and to a server error otherwise.
fn unreadable(id: JobId, error: &io::Error) -> ApiError {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::INVAL) => {
            let what = format!("the output of job {id} is not a regular file of its user any more");
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

/// The output that a request names: the folder of the run, the suffix of the task's files, and the
/// streams. No part of it comes from a user's text.
fn log_of(
    found: &Found,
    params: &LogParams,
) -> Result<(PathBuf, String, Vec<OutputStream>), ApiError> {
    let (spec, job) = (&found.spec, &found.job);
    if job.array.is_some() {
        let what = format!("job {} is an array: each element has its own output", job.id);
        let first = spec.array.as_ref().map_or(0, |array| array.indexes.at(0).unwrap_or(0));
        return Err(Problem::new(catalogue::NO_SUCH_LOG, what)
            .try_this(format!("gpool logs {}.{first}", job.id))
            .into());
    }
    let streams = streams(found, params.stream.as_deref().unwrap_or("stdout"))?;
    let is_to_come =
        matches!(job.phase, Phase::Held { .. } | Phase::Waiting { .. } | Phase::Pending { .. });
    let newest = job.attempt.0;
    // A job that waits to be run again has nothing yet of that run.
    let last = if is_to_come && !params.follow { newest.saturating_sub(1).max(1) } else { newest };
    let attempt = params.attempt.unwrap_or(last);
    if attempt == 0 || attempt > newest {
        let what = format!("job {} has no attempt {attempt}", job.id);
        let newest = format!("the newest is {}#{newest}", job.id);
        return Err(Problem::new(catalogue::NO_SUCH_LOG, what).because(newest).into());
    }
    let n_tasks = spec.gang.n_tasks();
    let suffix = match params.rank.unwrap_or(0) {
        0 => String::new(),
        rank if rank < n_tasks => format!("-{rank}"),
        rank => {
            let what = format!("job {} has no task {rank}", job.id);
            let there = format!("it has {n_tasks} tasks, counted from 0");
            return Err(Problem::new(catalogue::NO_SUCH_LOG, what).because(there).into());
        }
    };
    Ok((PathBuf::from(format!("jobs/{}/{attempt}", job.id)), suffix, streams))
}

/// The streams of that word that gpool keeps.
fn streams(found: &Found, word: &str) -> Result<Vec<OutputStream>, ApiError> {
    let wanted = match word {
        "stdout" => vec![OutputStream::Stdout],
        "stderr" => vec![OutputStream::Stderr],
        "both" => OutputStream::BOTH.to_vec(),
        other => {
            let shown: String = other.chars().take(40).collect();
            let why = format!("{shown:?} is not stdout, stderr or both");
            return Err(Refusal::Invalid { field: "stream".to_owned(), why }.into());
        }
    };
    let own = |stream: &OutputStream| match stream {
        OutputStream::Stdout => found.spec.stdout.as_deref(),
        OutputStream::Stderr => found.spec.stderr.as_deref(),
    };
    let kept: Vec<OutputStream> =
        wanted.iter().copied().filter(|stream| own(stream).is_none()).collect();
    match (kept.is_empty(), wanted.first()) {
        (true, Some(first)) => {
            let what =
                format!("job {} writes {} to a file of its user", found.job.id, first.as_str());
            let path = own(first).unwrap_or_default();
            Err(Problem::new(catalogue::NO_SUCH_LOG, what)
                .because(format!("{path:?}, relative to {:?}", found.spec.directory))
                .into())
        }
        _ => Ok(kept),
    }
}

/// Folders below the state directory: it is on the node that it ran on, of
/// which there may have been one or several at that time. Runs are numbered, so no two nodes have
/// the same.
fn places(nodes: &[String], run: &Path) -> Arc<[PathBuf]> {
    let of_several = nodes.iter().map(|folder| Path::new(folder).join(run));
    std::iter::once(run.to_owned()).chain(of_several).collect()
}

/// Returns gpool's own output files of the newest attempt of a job, as far as they exist.
pub(crate) async fn paths(api: &Api, found: &Found) -> Result<gpool_wire::LogFiles, Refusal> {
    let nodes = node_folders(api).await?;
    let state_dir = api.handle.info().state_dir.clone();
    let of_stream = |stream: OutputStream| {
        let params = LogParams { stream: Some(stream.as_str().to_owned()), ..LogParams::default() };
        let (run, suffix, _) = log_of(found, &params).ok()?;
        Some((places(&nodes, &run), format!("{}{suffix}", stream.as_str())))
    };
    let logs = OutputStream::BOTH.map(of_stream);
    let look = move || {
        logs.map(|log| {
            let (folders, file) = log?;
            let mut paths = folders.iter().map(|folder| state_dir.join(folder).join(&file));
            let there = paths.find(|path| path.exists())?;
            Some(there.display().to_string())
        })
    };
    let [stdout, stderr] = tokio::task::spawn_blocking(look).await.map_err(internal)?;
    Ok(gpool_wire::LogFiles { stdout, stderr })
}

/// The folders of nodes below the state directory, where there are several.
async fn node_folders(api: &Api) -> Result<Vec<String>, Refusal> {
    let nodes = api.handle.query(|view| {
        let folder = |(_, row): (_, &NodeRow)| row.node.name.folder();
        view.world.nodes_by_name().filter_map(folder).collect::<Vec<_>>()
    });
    nodes.await
}

/// Waits until a notice about the job arrives, or may have been missed.
async fn change_of(notices: &mut broadcast::Receiver<Notice>, id: JobId) {
    loop {
        match notices.recv().await {
            Ok(Notice { change: Change::JobState { job, .. }, .. }) if job != id => {}
            Ok(Notice {
                change:
                    Change::NodeChanged { .. }
                    | Change::ReservationChanged { .. }
                    | Change::ProjectChanged { .. }
                    | Change::ToldOfPayer { .. },
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
    /// `None` while it is read.
    output: Option<Output>,
    /// How many bytes are sent, or left out.
    position: u64,
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

    /// Reads the bytes that are there now, if there are any.
    async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let (mut output, place) = (self.output.take().unwrap_or_default(), self.place.clone());
        let position = self.position;
        let read = move || {
            let mut buffer = vec![0; CHUNK];
            let n_read = output.read(&place, position, &mut buffer)?;
            buffer.truncate(n_read);
            Ok::<_, io::Error>((output, buffer))
        };
        let (output, chunk) =
            tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
        self.output = Some(output);
        self.position += chunk.len() as u64;
        Ok((!chunk.is_empty()).then(|| Bytes::from(chunk)))
    }
}
