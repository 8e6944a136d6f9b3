//! Working folders that users send, and the results of jobs: both as objects by hash. A user gets
//! no object of another: each has a folder, and only its own objects count as sent.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use gpool_files::{ObjectId, StoredResult};
use gpool_model::refusal::Permitted;
use gpool_model::{JobId, Phase, Refusal};
use gpool_wire::files::{
    JobResults, MissingObjects, OBJECTS_MAX, ObjectParams, ObjectsQuery, StoredObjects, TaskResults,
};
use gpool_wire::{BODY_BYTES_MAX, Document, Problem, catalogue};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::asker::{Asker, Asks};
use super::audit::without_entry;
use super::extract::{ApiError, JsonBody, Params, Segment, check_type, job_id, lost, too_slow};
use super::found::{self, FoundJob};
use crate::api::Api;
use gpool_server::fault::internal;

const BYTES: &str = "application/octet-stream";

/// Several objects as bytes.
pub(crate) struct BundleBytes(Bytes);

impl FromRequest<Api> for BundleBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        check_type(request.headers(), &[BYTES])?;
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX);
        match tokio::time::timeout(api.patience.body, body.collect()).await {
            Ok(Ok(collected)) => Ok(Self(collected.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let most = format!("{BODY_BYTES_MAX} bytes (16 MiB)");
                Err(Refusal::TooLarge { what: "the request".to_owned(), most }.into())
            }
            Ok(Err(error)) => Err(lost(&*error)),
            Err(_) => Err(too_slow()),
        }
    }
}

/// Returns which objects the server lacks, so that only these need to be sent. The server keeps the
/// others for at least an hour.
#[utoipa::path(
    post, path = "/files/missing", operation_id = "files_missing", request_body = ObjectsQuery,
    responses(
        (status = 200, description = "The objects that the caller has to send",
         body = Document<MissingObjects>),
        (status = 400, description = "A name is not valid", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn missing(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(query): JsonBody<ObjectsQuery>,
) -> Result<Response, ApiError> {
    let invalid = |why: String| Refusal::Invalid { field: "objects".to_owned(), why };
    if query.objects.len() > OBJECTS_MAX {
        return Err(invalid(format!("there are more than {OBJECTS_MAX}")).into());
    }
    let ids: Result<Vec<ObjectId>, _> = query.objects.iter().map(|it| it.parse()).collect();
    let ids = ids.map_err(|error| invalid(error.to_string()))?;
    let (handle, uid) = (api.handle.clone(), asker.caller.owner.uid);
    let look = move || handle.files().objects.missing(uid, ids).map_err(internal);
    let missing = tokio::task::spawn_blocking(look).await.map_err(internal)??;
    let missing = missing.iter().map(ToString::to_string).collect();
    let upload_max = api.handle.files().upload_max().get();
    Ok(without_entry(Json(Document::new(MissingObjects { missing, upload_max }))))
}

/// Stores objects: parts of files, and lists of files. The body has the objects one after another,
/// each with its length before it, in 4 bytes with the lowest first; an object has at most 8 MiB.
/// They are durable when the answer arrives.
#[utoipa::path(
    post, path = "/files/objects", operation_id = "files_store",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "The stored objects", body = Document<StoredObjects>),
        (status = 400, description = "The last object is cut off", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "The user has too much stored", body = Problem,
         content_type = "application/problem+json"),
        (status = 507, description = "The server can't store more", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn store(
    State(api): State<Api>,
    Asks(asker): Asks,
    BundleBytes(body): BundleBytes,
) -> Result<Response, ApiError> {
    let (handle, uid) = (api.handle.clone(), asker.caller.owner.uid);
    let store = move || handle.files().put(uid, &body);
    let stored = tokio::task::spawn_blocking(store).await.map_err(internal)??;
    let stored = stored.iter().map(ToString::to_string).collect();
    Ok(without_entry(Json(Document::new(StoredObjects { stored }))))
}

/// Returns the results of a job: the files of its nodes that match `download`. Only the owner and
/// admins may read them.
#[utoipa::path(
    get, path = "/jobs/{id}/results", operation_id = "jobs_results",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The results of each task", body = Document<JobResults>),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job, or it has no results", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn results(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<Document<JobResults>>, ApiError> {
    let id = job_id(&id)?;
    let found = found_for(&api, &asker, id).await?;
    let handle = api.handle.clone();
    let read = move || Ok(handle.files().results_of(id));
    let stored = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    let is_here = |rank: u32, attempt: u32| {
        stored.iter().any(|(at, it, _)| *at == rank && it.attempt >= attempt)
    };
    let pending: Vec<String> = match &found.job.phase {
        Phase::Ended(end) if end.started_at.is_some() => end
            .allocations
            .iter()
            .filter(|it| !is_here(it.task.rank, it.task.attempt.0))
            .map(|it| it.node.to_string())
            .collect(),
        _ => Vec::new(),
    };
    if stored.is_empty() {
        check_expected(id, &found, &pending)?;
    }
    let results = stored.into_iter().filter_map(|(rank, it, manifest)| {
        let manifest = manifest?;
        Some(TaskResults {
            rank,
            attempt: it.attempt,
            manifest: it.manifest.to_string(),
            n_files: manifest.n_files(),
            size: manifest.n_bytes(),
            left_out: manifest.left_out().to_vec(),
        })
    });
    Ok(Json(Document::new(JobResults { results: results.collect(), pending })))
}

/// Refuses a job that has no results and gets none.
fn check_expected(id: JobId, found: &FoundJob, pending: &[String]) -> Result<(), Problem> {
    let what = format!("job {id} has no results");
    let problem = Problem::new(catalogue::NO_RESULTS, what);
    if found.spec.files.download.is_empty() {
        return Err(problem
            .because("it was submitted without --download")
            .try_this("gpool submit --download 'out/*' -- COMMAND"));
    }
    if found.job.array.is_some() {
        return Err(problem
            .because("it is an array, and each element has its own")
            .try_this(format!("gpool download {id}.0")));
    }
    match (&found.job.phase, pending) {
        (Phase::Ended(_), [_, ..]) => Ok(()),
        (Phase::Ended(_), []) => {
            Err(problem.because("it ended before it started, or they were removed (keep_output)"))
        }
        _ => Err(problem.because("it has not ended").try_this(format!("gpool wait {id}"))),
    }
}

/// Returns an object of a job's results: a list of files, or a part of a file.
#[utoipa::path(
    get, path = "/jobs/{id}/results/object", operation_id = "jobs_results_object",
    params(("id" = String, Path, description = "The job"), ObjectParams),
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>,
         content_type = "application/octet-stream"),
        (status = 400, description = "The name is not valid", body = Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job, or its results have no such object",
         body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn object(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(params): Params<ObjectParams>,
) -> Result<Response, ApiError> {
    let id = job_id(&id)?;
    let object: Option<ObjectId> =
        params.object.map(|it| it.parse()).transpose().map_err(|error| {
            let why = format!("{error}");
            Refusal::Invalid { field: "object".to_owned(), why }
        })?;
    found_for(&api, &asker, id).await?;
    let handle = api.handle.clone();
    let read = move || {
        let files = handle.files();
        let stored = files.results.of(&id.to_string());
        let has_object = |it: &&StoredResult| match object {
            None => true,
            Some(object) => {
                let members = files.objects.members(it.user, &it.manifest);
                members.is_ok_and(|it| it.contains(&object))
            }
        };
        let found = stored.values().find(has_object);
        let of = |it: &StoredResult| files.objects.get(it.user, &object.unwrap_or(it.manifest));
        Ok(found.and_then(|it| of(it).ok()))
    };
    let bytes = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    let bytes = bytes.ok_or_else(|| {
        let what = match object {
            Some(object) => format!("the results of job {id} have no object {object}"),
            None => format!("job {id} has no results"),
        };
        Problem::new(catalogue::NO_RESULTS, what)
    })?;
    let mut response = Body::from(bytes).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(BYTES));
    Ok(response)
}

/// Finds a job, if the caller may read its results.
async fn found_for(api: &Api, asker: &Asker, id: JobId) -> Result<FoundJob, Refusal> {
    let found = found::find(api, id).await?;
    if asker.may_see(found.spec.owner.uid) {
        return Ok(found);
    }
    let what = format!("read the results of job {id} of user {}", found.spec.owner.user);
    Err(Refusal::NotPermitted { what, by: Permitted::Owner })
}
