//! What comes in with a request, and problems as answers.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use gpool_model::{JobId, Refusal, Reply};
use gpool_wire::{BODY_BYTES_MAX, Problem, catalogue, json, query};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::api::Api;
use gpool_server::fault::internal;

#[derive(Debug)]
pub struct ApiError(pub Box<Problem>);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Internal { why } = &refusal {
            tracing::error!(%why, "a request failed");
        }
        Problem::from(refusal).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&*self.0)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

pub(crate) async fn no_such_route(uri: Uri) -> ApiError {
    Problem::new(catalogue::NO_SUCH_ROUTE, format!("there is no path {:?}", uri.path()))
        .try_this("GET /openapi.json")
        .into()
}

pub(crate) async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let what = format!("{:?} has no {method}", uri.path());
    Problem::new(catalogue::METHOD_NOT_ALLOWED, what).try_this("GET /openapi.json").into()
}

/// The bytes of a JSON body, within the limits.
pub(crate) struct JsonBytes(pub Bytes);

impl FromRequest<Api> for JsonBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        check_type(request.headers(), &["application/json"])?;
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX);
        let read = tokio::time::timeout(api.patience.body, body.collect());
        match read.await {
            Ok(Ok(collected)) => Ok(Self(collected.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large().into()),
            Ok(Err(error)) => Err(lost(&*error)),
            Err(_) => Err(too_slow()),
        }
    }
}

fn too_large() -> Refusal {
    let most = format!("{BODY_BYTES_MAX} bytes (16 MiB); /api/v1/jobs/bulk takes many jobs");
    Refusal::TooLarge { what: "the request".to_owned(), most }
}

pub(crate) fn too_slow() -> ApiError {
    Problem::new(catalogue::BODY_TIMEOUT, "the rest of the request did not come in time").into()
}

/// The body could not be read: the caller has gone, or its framing is wrong.
pub fn lost(error: &(dyn std::error::Error + 'static)) -> ApiError {
    Problem::new(catalogue::BODY_TIMEOUT, format!("the request's body was cut off: {error}")).into()
}

/// A JSON body as a type.
pub(crate) struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Api> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let JsonBytes(bytes) = JsonBytes::from_request(request, api).await?;
        Ok(Self(json::read(&bytes)?))
    }
}

/// Checks that a body is declared as one of these types.
pub(crate) fn check_type(headers: &HeaderMap, known: &[&str]) -> Result<(), ApiError> {
    let declared = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = declared.split(';').next().unwrap_or("").trim();
    if known.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let what = match kind {
        "" => "the request has no Content-Type".to_owned(),
        kind => format!("its Content-Type is {kind:?}"),
    };
    Err(Problem::new(catalogue::NOT_JSON_TYPE, what)
        .try_this(format!("Content-Type: {}", known.join(" or ")))
        .into())
}

/// What stands after the `?`, as a type.
pub(crate) struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(params(&parts.uri)?))
    }
}

/// Reads the query of a request as a type.
pub fn params<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    query::read(pairs(uri)?)
}

/// The names and texts of the query of a request.
pub fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Problem> {
    match Query::try_from_uri(uri) {
        Ok(Query(pairs)) => Ok(pairs),
        Err(rejection) => {
            let why = rejection.body_text();
            Err(Refusal::Invalid { field: "query".to_owned(), why }.into())
        }
    }
}

/// The part of a path that a route leaves open.
pub(crate) struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(rejection) => {
                let why = rejection.body_text();
                Err(Refusal::Invalid { field: "path".to_owned(), why }.into())
            }
        }
    }
}

/// The job that a path names.
pub fn job_id(text: &str) -> Result<JobId, ApiError> {
    let bad = |error: gpool_model::ParseError| Refusal::Invalid {
        field: "id".to_owned(),
        why: error.to_string(),
    };
    Ok(text.parse().map_err(bad)?)
}

/// A request's header as text, if it is there and is text.
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// An empty answer.
pub fn accepted() -> Response<Body> {
    StatusCode::ACCEPTED.into_response()
}

/// The error of a reply that is none to the command.
pub(crate) fn unexpected(reply: &Reply) -> ApiError {
    internal(format!("the core answered {reply:?}")).into()
}
