//! What the last start of the server found and did.

use axum::Json;
use axum::extract::State;
use gpool_wire::{Document, Recovery};

use super::asker::Asks;
use super::extract::ApiError;
use crate::api::Api;

/// Returns the report of the last start of the server: how the previous server ended, and the state
/// of the jobs that it had started.
#[utoipa::path(
    get, path = "/recovery", operation_id = "recovery",
    responses((status = 200, description = "The report", body = Document<Recovery>))
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<Document<Recovery>>, ApiError> {
    let recovery = api.handle.recovery(|uid| asker.may_see(uid))?;
    Ok(Json(Document::new(recovery)))
}
