//! Whether the server lives and takes requests, and the document of the API.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use gpool_wire::{Problem, catalogue};

use super::contract::OPENAPI;
use super::extract::ApiError;
use crate::api::Api;

/// How long a server that is ready may take to say so.
const READY_PATIENCE: Duration = Duration::from_secs(5);

/// Reports that the server is alive.
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz",
    responses((status = 200, description = "Yes", body = String, content_type = "text/plain"))
)]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Reports whether the server accepts requests.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz",
    responses(
        (status = 200, description = "Yes", body = String, content_type = "text/plain"),
        (status = 503, description = "The server is starting or stopping", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn readyz(State(api): State<Api>) -> Result<&'static str, ApiError> {
    match tokio::time::timeout(READY_PATIENCE, api.handle.query(|_| ())).await {
        Ok(Ok(())) => Ok("ready\n"),
        Ok(Err(refusal)) => Err(refusal.into()),
        Err(_) => Err(Problem::new(catalogue::NOT_READY, "the server is busy or starting").into()),
    }
}

/// Returns this document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object))
)]
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}
