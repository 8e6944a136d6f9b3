//! Checks of every request before its handler runs: the user's request rate, the headers, and the
//! user's role for the route. A route that is not in the table of routes is not served.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    IF_MATCH, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gpool_model::Refusal;
use gpool_model::refusal::Permitted;
use gpool_wire::{IDEMPOTENCY_KEY, Problem, catalogue, json};

use super::asker::{Asker, Asks};
use super::contract;
use super::extract::{ApiError, no_such_route, pairs};
use super::routes::{self, ROUTES, Role, Route};
use crate::api::Api;
use gpool_server::fault::internal;

/// Bytes of a request's target and headers together.
const HEADERS_MAX: usize = 16 * 1024;
/// Headers that may occur once only; with two, the meaning would depend on which one is read.
const SINGLE: [HeaderName; 7] = [
    AUTHORIZATION,
    HOST,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    IF_MATCH,
    HeaderName::from_static(IDEMPOTENCY_KEY),
    HeaderName::from_static("last-event-id"),
];

/// Lets a request in when it has a place among those of its class, or not at all.
pub(crate) async fn admit(
    State(api): State<Api>,
    Asks(asker): Asks,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let row = path.and_then(|path| row_of(request.method(), &path));
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let place = api.classes.enter(request.method(), row, asker.source()).await;
    let answer = async move {
        let answer = answer(&api, &asker, request, next).await;
        // The place is free once the answer begins.
        drop(place);
        answer
    };
    if reads {
        return answer.await;
    }
    // hyper drops the future of a request when the client closes its connection. A stored change
    // still needs its audit entry, and counts for its user.
    match tokio::spawn(answer).await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => ApiError::from(internal(error)).into_response(),
        },
    }
}

async fn answer(api: &Api, asker: &Asker, request: Request, next: Next) -> Response {
    if !api.rates.take(asker.source(), Instant::now()) {
        let most = api.handle.limits().requests;
        let what = format!("you have sent more than {most} requests a second");
        return ApiError::from(Problem::new(catalogue::TOO_MANY_REQUESTS, what)).into_response();
    }
    if let Err(refused) = check(request.uri(), request.headers()) {
        return refused.into_response();
    }
    // A request with a chunked body may give a length too, which leaves its end ambiguous (request
    // smuggling): bytes after the body are not read as another request.
    let in_pieces = request.headers().contains_key(TRANSFER_ENCODING);
    let mut response = next.run(request).await;
    if in_pieces {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    let sizes = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let size = target + sizes.sum::<usize>();
    if size > HEADERS_MAX {
        let what = format!("the headers have {size} bytes; the maximum is {HEADERS_MAX}");
        return Err(Problem::new(catalogue::HEADERS_TOO_LARGE, what).into());
    }
    for name in &SINGLE {
        if headers.get_all(name).iter().nth(1).is_some() {
            let why = "it is given more than once".to_owned();
            return Err(Refusal::Invalid { field: name.to_string(), why }.into());
        }
    }
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    match headers.get(CONTENT_ENCODING).filter(|value| !is_plain(value)) {
        None => Ok(()),
        Some(value) => {
            let kind = String::from_utf8_lossy(value.as_bytes());
            let what = format!("its Content-Encoding is {kind:?}");
            Err(Problem::new(catalogue::ENCODED_BODY, what)
                .try_this("send the body without compression")
                .into())
        }
    }
}

/// Refuses a name in the query that the route does not know: a handler without parameters would not
/// look at it, and the caller would take it for granted (`dry_run`).
fn check_query(row: &Route, uri: &Uri) -> Result<(), Problem> {
    if uri.query().is_none_or(str::is_empty) {
        return Ok(());
    }
    let pairs = pairs(uri)?;
    let is_known = |name: &str| contract::parameters(row).any(|known| known == name);
    let Some((name, _)) = pairs.iter().find(|(name, _)| !is_known(name)) else { return Ok(()) };
    let known: Vec<&str> = contract::parameters(row).collect();
    Err(json::unknown("field", name, &known, ("", " in the query of this route")))
}

/// The row of a route in the table.
pub(crate) fn row_of(method: &Method, path: &MatchedPath) -> Option<&'static Route> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    routes::find(method.as_str(), path.as_str())
}

/// Lets a request through to its route if the table says so. A route without a row is none.
pub(crate) async fn permit(
    Asks(asker): Asks,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let row = row_of(request.method(), &path);
    if row.is_none() && !ROUTES.iter().any(|row| row.path == path.as_str()) {
        return no_such_route(request.uri().clone()).await.into_response();
    }
    if let Some(row) = row
        && let Err(refused) = asker.way.check(row)
    {
        return ApiError::from(refused).into_response();
    }
    if let Some(row) = row
        && row.role == Role::Admin
        && !asker.caller.admin
    {
        let (what, by) = (row.task.to_owned(), Permitted::Admin);
        return ApiError::from(Refusal::NotPermitted { what, by }).into_response();
    }
    if let Some(row) = row
        && let Err(refused) = check_query(row, request.uri())
    {
        return ApiError::from(refused).into_response();
    }
    // Handlers check the owners of things, the router checks methods.
    let response = next.run(request).await;
    let status = response.status();
    debug_assert!(
        row.is_none_or(|row| contract::documents(row, status)),
        "{row:?} answers {status}, which the API's document lacks"
    );
    response
}
