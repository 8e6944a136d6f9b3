//! The present state with its plan, for a replay elsewhere.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::extract::ApiError;
use crate::api::Api;
use gpool_journal::case::Case;
use gpool_server::fault::internal;

/// Returns the present state and its plan, as `gpool replay` reads them, without commands, names,
/// notes and paths of users.
#[utoipa::path(
    get, path = "/dump", operation_id = "dump",
    responses(
        (status = 200, description = "The state, the plan, and a checksum of both",
         body = Object, content_type = "application/json"),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(State(api): State<Api>) -> Result<Response, ApiError> {
    let asked = api.handle.query(|view| {
        let revision = view.world.revision();
        (revision, view.world.records(), view.now)
    });
    let (revision, records, now) = asked.await?;
    let work = move || Case::of(revision, records, now).map(|case| case.file());
    let made = tokio::task::spawn_blocking(work).await.map_err(internal)?;
    let file = made.map_err(internal)?;
    Ok(([(CONTENT_TYPE, "application/json")], file).into_response())
}
