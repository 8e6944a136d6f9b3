//! Takes one job.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use gpool_model::command::RequestKey;
use gpool_model::{Command, JobId, Refusal, Reply};
use gpool_wire::{CheckedJob, Document, Forecast, IDEMPOTENCY_KEY, JobCreate, Problem, json};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Api;
use super::asker::{Asker, Asks};
use super::context;
use super::extract::{ApiError, JsonBytes, Params, header};
use super::jobs;
use crate::handle::{CoreHandle, internal};

/// Bytes of an idempotency key.
const KEY_MAX: usize = 255;

/// Whether to do it.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// Say what would happen, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Submits a job. It is durable when the answer comes. With `Idempotency-Key` a repeated request is
/// answered (with 200) and not done again, for a day.
#[utoipa::path(
    post, path = "/jobs", operation_id = "jobs_create", request_body = JobCreate,
    params(
        DryRun,
        ("Idempotency-Key" = Option<String>, Header, description = "A name for this request"),
    ),
    responses(
        (status = 201, description = "The job", body = Document<gpool_wire::Job>),
        (status = 200, description = "With dry_run: what would become of it; for a repeated \
         request: the job", body = Document<Forecast>),
        (status = 400, description = "A field is not valid", body = Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The key was used for another request", body = Problem,
         content_type = "application/problem+json"),
        (status = 422, description = "No node could ever run it", body = Problem,
         content_type = "application/problem+json"),
        (status = 507, description = "The server can't store more", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(DryRun { dry_run }): Params<DryRun>,
    headers: HeaderMap,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let key = key_name(&headers)?.map(|name| key(name, blake3::hash(&body)));
    let job: JobCreate = json::read(&body)?;
    let checked = checked(&job, &asker, Some(&api.handle))?;
    if dry_run {
        return forecast(&api, &asker, checked).await;
    }
    let jobs = {
        let (handle, asker) = (api.handle.clone(), asker.clone());
        let store = move || context::store(handle.blobs(), checked, asker.limits());
        tokio::task::spawn_blocking(store).await.map_err(internal)??
    };
    let command = Command::Submit { jobs, key, ends: Vec::new(), dry_run: false };
    match api.handle.command(asker.caller.clone(), command).await.map_err(of_one)? {
        Reply::Submitted { first, n_jobs, repeated } => {
            // What prepares it comes first.
            let id = JobId::single(first.0 + n_jobs - 1);
            let mut answer = jobs::answer(&api, &asker, id).await?;
            *answer.status_mut() = if repeated { StatusCode::OK } else { StatusCode::CREATED };
            Ok(answer)
        }
        other => Err(unexpected(&other)),
    }
}

async fn forecast(api: &Api, asker: &Asker, checked: CheckedJob) -> Result<Response, ApiError> {
    let jobs = context::not_stored(checked);
    let command = Command::Submit { jobs, key: None, ends: Vec::new(), dry_run: true };
    match api.handle.command(asker.caller.clone(), command).await.map_err(of_one)? {
        Reply::WouldSubmit { forecasts } => match forecasts.last() {
            Some(forecast) => Ok(Json(Document::new(Forecast::from(forecast))).into_response()),
            None => Err(internal("one job has no forecast").into()),
        },
        other => Err(unexpected(&other)),
    }
}

/// A refusal, where it does not matter whether it is of the job or of what prepares it.
fn of_one(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::OfJob { refusal, .. } => *refusal,
        other => other,
    }
}

/// A job as it was asked for; who names nobody to be told has those told that are usual.
pub(crate) fn checked(
    job: &JobCreate,
    asker: &Asker,
    handle: Option<&CoreHandle>,
) -> Result<CheckedJob, Refusal> {
    let checked = job.check(&asker.home)?;
    Ok(match handle.filter(|_| job.notify.is_empty()) {
        Some(handle) => checked.told_to(handle.usual_notify()),
        None => checked,
    })
}

/// The caller's name for a request, if it gave one.
pub(crate) fn key_name(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let key =
        header(headers, IDEMPOTENCY_KEY).filter(|key| !key.is_empty() && key.len() <= KEY_MAX);
    let why = || format!("it is 1 to {KEY_MAX} printable ASCII characters, new for each request");
    let refusal = || Refusal::Invalid { field: "Idempotency-Key".to_owned(), why: why() };
    key.map(Some).ok_or_else(refusal)
}

/// A key with the digest of the request that it names.
pub(crate) fn key(name: &str, digest: blake3::Hash) -> RequestKey {
    RequestKey { name: name.to_owned(), digest: digest.to_hex().to_string() }
}

pub(crate) fn unexpected(reply: &Reply) -> ApiError {
    internal(format!("the core answered {reply:?}")).into()
}
