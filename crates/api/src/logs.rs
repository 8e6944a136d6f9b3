//! What jobs have written: the files that gpool keeps, as they are. A file that the user named is
//! not read here, since the server may be allowed to read what its user is not.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use gpool_model::effect::Change;
use gpool_model::output::OutputStream;
use gpool_model::refusal::Permitted;
use gpool_model::{Attempt, JobId, Notice, Phase, Refusal, TaskId, Timestamp};
use gpool_protocol::{OutputPart, OutputStart};
use gpool_wire::{LOG_OFFSET, LogFiles, Problem, Time, catalogue};
use serde::Deserialize;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use utoipa::IntoParams;

use super::asker::Asks;
use super::extract::{ApiError, Params, Segment, job_id};
use super::found::{self, FoundJob};
use super::output::TaskOutput;
use crate::api::Api;
use gpool_server::fault::internal;
use gpool_server::output::kept_until;

/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What to read of a job's output.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// `stdout` (the default), `stderr`, or `both` in the order of their writing.
    #[param(schema_with = crate::document::shapes::stream_words)]
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
    let found = found::find(&api, id).await?;
    if !asker.may_see(found.spec.owner.uid) {
        let what = format!("read the output of job {id} of user {}", found.spec.owner.user);
        return Err(Refusal::NotPermitted { what, by: Permitted::Owner }.into());
    }
    let (task, streams) = log_of(&found, &params)?;
    let since = params.since.as_deref().map(since_of).transpose()?;
    let start = match (params.offset, params.tail) {
        (Some(offset), _) => OutputStart::Byte(offset),
        (None, Some(n_lines)) => OutputStart::LastLines(n_lines),
        (None, None) => OutputStart::Byte(0),
    };
    let job_has_ended = found.job.phase.is_ended();
    let mut output = TaskOutput::new(api.clone(), &found, task, streams);
    let (first, offset) = match output.read(start, since).await? {
        OutputPart::Bytes { offset, bytes } => (Bytes::from(bytes), offset),
        OutputPart::NotRegular => {
            let what = format!("the output of job {id} is not a regular file of its user any more");
            return Err(Problem::new(catalogue::NO_SUCH_LOG, what).into());
        }
        OutputPart::Unreadable { why } => return Err(internal(why).into()),
        OutputPart::TooOld if !params.follow || job_has_ended => {
            return Ok(answer(Body::empty(), 0));
        }
        OutputPart::Missing if job_has_ended && has_run(&found.job.phase) => {
            return Err(removed(&api, &found).into());
        }
        // There is nothing yet, or a follower gets all of it.
        OutputPart::TooOld | OutputPart::Unwritten | OutputPart::Missing => (Bytes::new(), 0),
    };
    let reader = LogReader {
        output,
        id,
        position: offset + first.len() as u64,
        first: Some(first).filter(|first| !first.is_empty()),
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

/// The problem of output that was there once.
fn removed(api: &Api, found: &FoundJob) -> Problem {
    let what = format!("the output of job {} was removed", found.job.id);
    let problem = Problem::new(catalogue::NO_SUCH_LOG, what);
    let keep = api.handle.shared.settings.keep_output;
    match (keep, kept_until(&found.job.phase, keep)) {
        (Some(keep), Some(until)) if until <= gpool_server::clock::now() => {
            problem.because(format!("it was kept until {}, {keep} after its end", Time(until)))
        }
        _ => problem,
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

/// The task and the streams that a request names.
fn log_of(found: &FoundJob, params: &LogParams) -> Result<(TaskId, Vec<OutputStream>), ApiError> {
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
    let n_tasks = spec.n_tasks();
    let rank = params.rank.unwrap_or(0);
    if rank >= n_tasks {
        let what = format!("job {} has no task {rank}", job.id);
        let there = format!("it has {n_tasks} tasks, counted from 0");
        return Err(Problem::new(catalogue::NO_SUCH_LOG, what).because(there).into());
    }
    Ok((TaskId { job: job.id, attempt: Attempt(attempt), rank }, streams))
}

/// The streams of that word that gpool keeps.
fn streams(found: &FoundJob, word: &str) -> Result<Vec<OutputStream>, ApiError> {
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

/// Returns gpool's own output files of the newest attempt of a job, as far as they exist and its
/// agent answers.
pub(super) async fn paths(api: &Api, found: &FoundJob) -> Option<LogFiles> {
    let (task, _) =
        log_of(found, &LogParams { stream: Some("both".to_owned()), ..Default::default() }).ok()?;
    let own = [&found.spec.stdout, &found.spec.stderr].map(Option::is_some);
    let paths = TaskOutput::new(api.clone(), found, task, Vec::new()).paths().await.ok()?;
    let [stdout, stderr] = [(paths.stdout, own[0]), (paths.stderr, own[1])]
        .map(|(path, is_own)| path.filter(|_| !is_own));
    Some(LogFiles { stdout, stderr })
}

/// Waits until a notice about the job arrives, or may have been missed.
async fn change_of(notices: &mut broadcast::Receiver<Notice>, id: JobId) {
    loop {
        match notices.recv().await {
            // Elements that end before they start have no event of their own.
            Ok(Notice { change: Change::JobState { job, .. }, .. })
                if job != id && job != (JobId { element: None, ..id }) => {}
            Ok(Notice {
                change:
                    Change::NodeChanged { .. }
                    | Change::NodeMembership { .. }
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
    output: TaskOutput,
    id: JobId,
    /// The first part, until it is sent.
    first: Option<Bytes>,
    /// How many bytes are read, or left out.
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
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
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
        let part = self.output.read(OutputStart::Byte(self.position), None).await;
        match part.map_err(|error| io::Error::other(error.0.detail))? {
            OutputPart::Bytes { bytes, .. } if !bytes.is_empty() => {
                self.position += bytes.len() as u64;
                Ok(Some(Bytes::from(bytes)))
            }
            OutputPart::Unreadable { why } => Err(io::Error::other(why)),
            OutputPart::NotRegular => Err(io::Error::other("it is no regular file any more")),
            OutputPart::Bytes { .. }
            | OutputPart::TooOld
            | OutputPart::Unwritten
            | OutputPart::Missing => Ok(None),
        }
    }
}
