//! The script of a job, as it was submitted.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpool_model::Refusal;
use gpool_model::refusal::Permitted;
use gpool_store::BlobId;
use gpool_wire::{Document, JobScript};

use super::asker::Asks;
use super::extract::{ApiError, Segment, job_id};
use super::found;
use crate::api::Api;

/// Returns the script of a job. Only the owner and admins may read it.
#[utoipa::path(
    get, path = "/jobs/{id}/script", operation_id = "jobs_script",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The script", body = Document<JobScript>),
        (status = 400, description = "The job runs a program and has no script",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 403, description = "The job belongs to another user", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The script was removed some time after the end of the job",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<Document<JobScript>>, ApiError> {
    let id = job_id(&id)?;
    let spec = found::find(&api, id).await?.spec;
    if !asker.may_see(spec.owner.uid) {
        let what = format!("read the script of job {id} of user {}", spec.owner.user);
        return Err(Refusal::NotPermitted { what, by: Permitted::Owner }.into());
    }
    let Some(script) = &spec.script else {
        let why = format!("job {id} runs a program and has no script");
        return Err(Refusal::Invalid { field: "id".to_owned(), why }.into());
    };
    let handle = api.handle.clone();
    let blob: Option<BlobId> = script.0.parse().ok();
    let read = move || Ok(blob.and_then(|blob| handle.blobs().get(&blob).ok()));
    let bytes = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    let bytes = bytes.ok_or(Refusal::NotKept { id })?;
    let name = spec.name.to_string();
    let script = match String::from_utf8(bytes) {
        Ok(text) => JobScript { name, text: Some(text), base64: None },
        Err(error) => {
            let base64 = Some(STANDARD.encode(error.as_bytes()));
            JobScript { name, text: None, base64 }
        }
    };
    Ok(Json(Document::new(script)))
}
