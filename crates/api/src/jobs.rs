//! Jobs: one by ID, lists, and edits.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use gpool_model::{Command, JobId, JobRequest, Phase, Refusal};
use gpool_wire::cost::Cost;
use gpool_wire::live_usage::LiveUsage;
use gpool_wire::{Document, Hint, JobPatch, LogFiles};

use super::asker::{Asker, Asks};
use super::changes::Portion;
use super::context::Files;
use super::extract::{ApiError, JsonBody, Params, Segment, header, job_id};
use super::found::{self, FoundJob};
use super::listing::{self, ListParams};
use super::logs;
use crate::api::Api;
use gpool_server::environments;
use gpool_server::fault::internal;
use gpool_server::output::kept_until;

/// One job as the answer to a request, with its version as the tag.
pub(crate) async fn answer(api: &Api, asker: &Asker, id: JobId) -> Result<Response, ApiError> {
    let found = found::find(api, id).await?;
    answer_of(api, asker, found, Vec::new()).await
}

/// The same of a job that was found, with suggestions for the next request.
pub(crate) async fn answer_of(
    api: &Api,
    asker: &Asker,
    found: FoundJob,
    hints: Vec<Hint>,
) -> Result<Response, ApiError> {
    let tag = format!("\"{}\"", found.job.version);
    let spec = found.spec.clone();
    let kept_until = kept_until(&found.job.phase, api.handle.shared.settings.keep_output);
    let retry = retry_until(api, &found).await?;
    // Nothing else has these, and to look takes longer than the whole submission of a job.
    let course = match found.has_run() {
        true => RunDetails::of(api, asker, &found).await?,
        false => RunDetails::default(),
    };
    let mut job = found.for_caller(asker, gpool_server::clock::now());
    (job.usage.metrics, job.run.logs) = (course.metrics, course.logs);
    (job.usage.live, job.usage.cost) = (course.live, course.cost);
    job.hints = hints;
    job.run.output_kept_until = kept_until.map(gpool_wire::Time);
    (job.run.can_retry, job.run.retry_until) = retry;
    if job.element.is_some() && !job.private {
        let values = spec.array.as_ref().and_then(|array| array.values.as_ref());
        super::elements::add_values(api, values, std::slice::from_mut(&mut job)).await?;
    }
    Ok(([(ETAG, tag)], Json(Document::new(job))).into_response())
}

/// What a job has had and left since it first ran.
#[derive(Default)]
struct RunDetails {
    metrics: BTreeMap<String, f64>,
    logs: Option<LogFiles>,
    live: Option<LiveUsage>,
    cost: Vec<Cost>,
}

impl RunDetails {
    async fn of(api: &Api, asker: &Asker, found: &FoundJob) -> Result<Self, Refusal> {
        let uid = asker.caller.owner.uid;
        let logs = match asker.may_see(found.spec.owner.uid) {
            true => logs::paths(api, found).await.filter(|it| *it != LogFiles::default()),
            false => None,
        };
        let cost = super::cost::of_job(api, uid, found).await?;
        let live = live_usage(api, uid, found).await?;
        let metrics = super::job_metrics::last(api, asker, found).await?;
        Ok(Self { metrics, logs, live, cost })
    }
}

/// What a running job has used so far.
pub(super) async fn live_usage(
    api: &Api,
    uid: u32,
    found: &FoundJob,
) -> Result<Option<LiveUsage>, Refusal> {
    let Phase::Running { allocations, .. } = &found.job.phase else { return Ok(None) };
    let (handle, allocations) = (api.handle.clone(), allocations.clone());
    let look = move || Ok(LiveUsage::of_tasks(&handle.live_usage(&allocations)));
    api.handle.run_slow(uid, look).await
}

/// Whether a job that has ended can be run again, and until when at least.
async fn retry_until(
    api: &Api,
    found: &FoundJob,
) -> Result<(Option<bool>, Option<gpool_wire::Time>), Refusal> {
    let keep = api.handle.shared.settings.keep_environment;
    let Some(until) = environments::kept_until(&found.job.phase, keep) else {
        return Ok((None, None));
    };
    let (handle, spec) = (api.handle.clone(), found.spec.clone());
    let look = move || environments::are_there(&handle, &spec);
    let can_retry = tokio::task::spawn_blocking(look).await.map_err(internal)?;
    Ok((Some(can_retry), can_retry.then_some(gpool_wire::Time(until))))
}

/// Lists jobs: first those that have not ended, by id, then ended ones, newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "jobs_list", params(ListParams),
    responses(
        (status = 200, description = "A page of jobs of at most 8 MiB; it may have fewer jobs than \
                                      the limit",
         body = gpool_wire::List<gpool_wire::Job>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<ListParams>,
) -> Result<Response, ApiError> {
    listing::page(&api, &asker, params).await
}

/// Returns a job.
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "jobs_get",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The job", body = Document<gpool_wire::Job>,
         headers(("ETag" = String, description = "The version, for If-Match"))),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Response, ApiError> {
    answer(&api, &asker, job_id(&id)?).await
}

/// Edits a job that has not ended; with `If-Match`, only if the job has that version.
#[utoipa::path(
    patch, path = "/jobs/{id}", operation_id = "jobs_edit", request_body = JobPatch,
    params(
        ("id" = String, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "The version that the job must have"),
    ),
    responses(
        (status = 200, description = "The job after the change", body = Document<gpool_wire::Job>),
        (status = 403, description = "The job belongs to another user", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The job has ended", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 412, description = "Another request changed it first", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn edit(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    headers: HeaderMap,
    portion: Portion,
    JsonBody(patch): JsonBody<JobPatch>,
) -> Result<Response, ApiError> {
    let job = job_id(&id)?;
    let mut version = header(&headers, "if-match").map(version_of).transpose()?.flatten();
    let mut checked = patch.check()?;
    let (script, environment) = (checked.script.take(), std::mem::take(&mut checked.environment));
    let context = match environment.is_empty() {
        true => None,
        false => {
            let found = found::find(&api, job).await?;
            // Of two changes at the same time, the second would undo the first.
            version = version.or(Some(found.job.version.0));
            Some(found.spec.context.clone())
        }
    };
    let mut files = Files::new(api.handle.clone(), asker.caller.owner.uid);
    let of_files = portion.clone();
    let store = move || -> Result<_, Refusal> {
        let script = script.map(|script| files.store(&script.bytes)).transpose()?;
        let context = context.map(|old| files.store_changed(&old, &environment)).transpose()?;
        of_files.correct(0, files.take_sizes());
        Ok((files, script, context))
    };
    let (files, script, context) = tokio::task::spawn_blocking(store).await.map_err(internal)??;
    let patch = checked.into_patch(script, context);
    api.handle.check_notify(&asker.caller, &patch.to.standing.notify)?;
    if patch.to.life.retry.is_some() {
        // All of them may come from now on.
        let spec = found::find(&api, job).await?.spec;
        let again = JobRequest { life: patch.to.life.clone(), ..spec.request.clone() };
        portion.take_runs(again.n_runs())?;
    }
    let command = Command::Edit { job, version, patch, ends: Vec::new() };
    files.command(asker.caller.clone(), command).await?;
    answer(&api, &asker, job).await
}

/// The version in a tag; `None` for `*`, which any will do.
pub(crate) fn version_of(tag: &str) -> Result<Option<u64>, Refusal> {
    if tag.trim() == "*" {
        return Ok(None);
    }
    let digits = tag.trim().trim_matches('"');
    digits.parse().map(Some).map_err(|_| Refusal::Invalid {
        field: "If-Match".to_owned(),
        why: "it is not a version; send the ETag of the last read: \"3\"".to_owned(),
    })
}
