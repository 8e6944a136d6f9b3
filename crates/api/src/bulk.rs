//! Takes many jobs in one transaction: lines of JSON, read as they come.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use gpool_model::command::RequestKey;
use gpool_model::job::BlobId;
use gpool_model::{Command, NewJob, Refusal, Reply};
use gpool_wire::create::BulkDefaults;
use gpool_wire::{
    BODY_BYTES_MAX, BULK_BYTES_MAX, BULK_JOBS_MAX, BulkAnswer, CheckedJob, Document, Forecast,
    JobCreate, List, Problem, json,
};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::asker::{Asker, Asks};
use super::audit::{entered, without_entry};
use super::changes::Portion;
use super::context::{self, Files};
use super::extract::{ApiError, Params, check_type, lost, too_slow, unexpected};
use super::idempotency;
use super::submit::{self, DryRun};
use crate::api::Api;
use gpool_server::fault::internal;

/// Different environments in one submission; each is a file.
const CONTEXTS_MAX: usize = 1000;
/// Bytes that have to come while the server waits, so that a submission does not last for ever.
const PROGRESS: u64 = 256;
/// Bytes that are gathered before lines are read out of them.
const GATHER: usize = 256 * 1024;

/// Submits many jobs, all or none. Each line is a JSON object as `POST /jobs` takes it. The first
/// line may be `{"defaults": {…}}` with values for fields that the other lines leave out. IDs are
/// consecutive, in the order of the lines.
#[utoipa::path(
    post, path = "/jobs/bulk", operation_id = "jobs_create_many",
    params(
        DryRun,
        ("Idempotency-Key" = Option<String>, Header, description = "A unique name of this request"),
    ),
    request_body(content = String, content_type = "application/jsonl",
        description = "Lines of JSON; at most 64 MiB and 1,000,000 jobs"),
    responses(
        (status = 201, description = "All jobs were submitted", body = Document<BulkAnswer>),
        (status = 200, description = "With dry_run: the forecasts; for a repeated \
         request: the same answer", body = crate::document::shapes::ForecastsOrBulkAnswer),
        (status = 400, description = "A line is not valid; its number is in `line`", body = Problem,
         content_type = "application/problem+json"),
        (status = 413, description = "Too many", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(DryRun { dry_run }): Params<DryRun>,
    headers: HeaderMap,
    portion: Portion,
    body: Body,
) -> Result<Response, ApiError> {
    check_type(&headers, &["application/jsonl", "application/x-ndjson", "application/json"])?;
    let key_name = idempotency::key_name(&headers)?;
    let store = (!dry_run).then(|| Files::new(api.handle.clone(), asker.caller.owner.uid));
    let lines = BulkLines::new(store, asker.clone(), portion);
    let (lines, digest) = read(body, lines, api.patience.body).await?;
    let BulkLines { store, jobs, numbers, .. } = lines;
    let key: Option<RequestKey> = key_name.map(|name| idempotency::key(name, digest));
    let command = Command::Submit { jobs, key, ends: Vec::new(), array_ends: Vec::new(), dry_run };
    let caller = asker.caller.clone();
    let reply = match store {
        Some(files) => files.command(caller, command).await,
        None => api.handle.command(caller, command).await,
    };
    match reply.map_err(|refusal| at_line(refusal, &numbers))? {
        Reply::Submitted { first, n_jobs, repeated } => {
            let answer = BulkAnswer { first: first.to_string(), n_jobs, repeated };
            let status = if repeated { StatusCode::OK } else { StatusCode::CREATED };
            Ok(entered((status, Json(Document::new(answer))), repeated))
        }
        Reply::WouldSubmit { forecasts } => {
            let items = forecasts.iter().map(Forecast::from).collect();
            Ok(without_entry(Json(List::<Forecast>::new(items))))
        }
        other => Err(unexpected(&other)),
    }
}

/// With the line of the job that it is about.
fn at_line(refusal: Refusal, numbers: &[u64]) -> ApiError {
    match refusal {
        Refusal::OfJob { index, refusal } => {
            let line = usize::try_from(index).ok().and_then(|index| numbers.get(index));
            let problem = Problem::from(*refusal);
            match line {
                Some(line) => problem.at_line(*line).into(),
                None => problem.into(),
            }
        }
        other => other.into(),
    }
}

/// Reads all lines; returns their jobs and a digest of all bytes. The client has to send at least
/// [`PROGRESS`] bytes in each interval of `patience`.
async fn read(
    mut body: Body,
    mut lines: BulkLines,
    patience: Duration,
) -> Result<(BulkLines, blake3::Hash), ApiError> {
    let mut n_bytes = 0;
    let (mut deadline, mut enough) = (Instant::now() + patience, PROGRESS);
    loop {
        let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(lost(&error)),
            Err(_) => return Err(too_slow()),
        };
        let Ok(bytes) = frame.into_data() else { continue };
        n_bytes += bytes.len() as u64;
        if n_bytes > BULK_BYTES_MAX {
            let most = format!("{BULK_BYTES_MAX} bytes (64 MiB); split it");
            return Err(Refusal::TooLarge { what: "the submission".to_owned(), most }.into());
        }
        if n_bytes >= enough {
            (deadline, enough) = (Instant::now() + patience, n_bytes + PROGRESS);
        }
        lines.portion.take(bytes.len() as u64)?;
        lines.gathered.extend_from_slice(&bytes);
        if lines.gathered.len() >= GATHER {
            lines = lines.work(false).await?;
        }
    }
    let lines = lines.work(true).await?;
    let digest = lines.hasher.finalize();
    Ok((lines, digest))
}

/// Whether a line holds the defaults. A job has no such field.
fn has_defaults(line: &[u8]) -> bool {
    let inner = line.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    inner.is_some_and(|inner| inner.starts_with(b"\"defaults\""))
}

/// Lines on their way to jobs.
pub(crate) struct BulkLines {
    /// Where environments and scripts are stored; `None` where jobs are only asked about.
    store: Option<Files>,
    asker: Arc<Asker>,
    portion: Portion,
    /// Bytes that came and are no whole line yet.
    pub(crate) gathered: Vec<u8>,
    hasher: blake3::Hasher,
    n_lines: u64,
    defaults: Option<JobCreate>,
    /// Where the environment is that a line without one of its own has, by file mode mask.
    usual_context: Option<(Option<u32>, BlobId)>,
    contexts: BTreeSet<BlobId>,
    pub(crate) jobs: Vec<NewJob>,
    /// The line of each.
    pub(crate) numbers: Vec<u64>,
}

impl BulkLines {
    pub(crate) fn new(store: Option<Files>, asker: Arc<Asker>, portion: Portion) -> Self {
        Self {
            store,
            asker,
            portion,
            gathered: Vec::new(),
            hasher: blake3::Hasher::new(),
            n_lines: 0,
            defaults: None,
            usual_context: None,
            contexts: BTreeSet::new(),
            jobs: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Reads the complete lines received so far, on a thread that may wait for the disk.
    async fn work(mut self, is_last: bool) -> Result<Self, ApiError> {
        let work = move || self.take(is_last).map(|()| self);
        tokio::task::spawn_blocking(work).await.map_err(internal)?
    }

    pub(crate) fn take(&mut self, is_last: bool) -> Result<(), ApiError> {
        let whole = match self.gathered.iter().rposition(|byte| *byte == b'\n') {
            _ if is_last => self.gathered.len(),
            Some(end) => end + 1,
            None => 0,
        };
        let rest = self.gathered.split_off(whole);
        let bytes = std::mem::replace(&mut self.gathered, rest);
        if self.gathered.len() > BODY_BYTES_MAX {
            return Err(self.too_long());
        }
        self.hasher.update(&bytes);
        if self.portion.is_of_repetition() {
            // Its answer depends on the bytes alone.
            return Ok(());
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.n_lines += 1;
            let line = line.trim_ascii();
            if line.len() > BODY_BYTES_MAX {
                self.n_lines -= 1;
                return Err(self.too_long());
            }
            if !line.is_empty() {
                self.line(line).map_err(|problem| problem.at_line(self.n_lines))?;
            }
        }
        Ok(())
    }

    fn too_long(&self) -> ApiError {
        let most = format!("{BODY_BYTES_MAX} bytes (16 MiB)");
        let refusal = Refusal::TooLarge { what: "the line".to_owned(), most };
        Problem::from(refusal).at_line(self.n_lines + 1).into()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Problem> {
        if self.n_lines == 1 && has_defaults(line) {
            let BulkDefaults { defaults } = json::read(line)?;
            // Checked by itself, so that a mistake in it is not blamed on each line.
            defaults.environment_entries()?;
            self.defaults = Some(defaults);
            return Ok(());
        }
        if self.jobs.len() as u64 >= BULK_JOBS_MAX {
            let most = format!("{BULK_JOBS_MAX} jobs; split it");
            return Err(Refusal::TooLarge { what: "the submission".to_owned(), most }.into());
        }
        let job: JobCreate = json::read(line)?;
        let new = self.checked(job, line.len() as u64)?;
        self.jobs.push(new);
        self.numbers.push(self.n_lines);
        Ok(())
    }

    /// The job of a line of this length.
    fn checked(&mut self, mut job: JobCreate, length: u64) -> Result<NewJob, Problem> {
        let has_own = !job.environment.is_empty() || job.environment_bytes.is_some();
        if let Some(defaults) = &self.defaults {
            job.fill_from(defaults);
        }
        let handle = self.store.as_ref().map(Files::handle);
        let checked = submit::checked(&job, &self.asker, handle)?;
        if checked.has_setup() {
            let why =
                "a bulk submission can't have setups; submit the setup first, and name it in after"
                    .to_owned();
            return Err(Refusal::Invalid { field: "setup".to_owned(), why }.into());
        }
        // Before the job takes memory.
        self.portion.take_runs(checked.n_runs())?;
        let new = self.stored(checked, has_own)?;
        if let Some(files) = &mut self.store {
            self.portion.correct(length, files.take_sizes());
        }
        Ok(new)
    }

    /// Stores the files of a job; `has_own` is whether its line has an environment.
    fn stored(&mut self, mut checked: CheckedJob, has_own: bool) -> Result<NewJob, Refusal> {
        let Some(files) = &mut self.store else { return Ok(context::one_not_stored(checked)) };
        context::store_values(files, &mut checked)?;
        let script = match &checked.script {
            Some(script) => Some(files.store(&script.bytes)?),
            None => None,
        };
        let usual = self.usual_context.as_ref().filter(|(umask, _)| *umask == checked.umask);
        if let Some((_, context)) = usual.filter(|_| !has_own) {
            let context = context.clone();
            return Ok(checked.into_new_job(context, script));
        }
        if let Some(defaults) = &self.defaults {
            let mut environment = defaults.environment_entries()?;
            environment.append(&mut checked.environment);
            checked.environment = environment;
        }
        let limits = self.asker.limits();
        let context = context::store_context(files, &checked.environment, checked.umask, limits)?;
        if self.contexts.insert(context.clone()) && self.contexts.len() > CONTEXTS_MAX {
            let most =
                format!("{CONTEXTS_MAX} different ones; share one with a first line of defaults");
            return Err(Refusal::TooLarge { what: "the set of environments".to_owned(), most });
        }
        if !has_own {
            self.usual_context = Some((checked.umask, context.clone()));
        }
        Ok(checked.into_new_job(context, script))
    }
}
