//! Writes an audit entry for each change that a route makes, and lists the entries.

mod objects;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use gpool_model::Refusal;
use gpool_wire::{API_PREFIX, AuditEntry, List, Time};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use tower::ServiceExt as _;
use utoipa::IntoParams;

use self::objects::{Change, OBJECTS_MAX, collection_of, in_path};
use super::Api;
use super::asker::{Asker, Asks};
use super::extract::{ApiError, Params};
use super::routes::{ROUTES, Role};
use crate::audit::{Audit, Kind, Wanted};
use crate::clock::now;
use crate::fault::internal;

/// Most bytes of a request that are stored.
const REQUEST_MAX: usize = 64 * 1024;
/// Most bytes of an answer that is searched for objects: those of [`OBJECTS_MAX`] jobs.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Most entries of one answer.
const LIMIT_MAX: usize = 1000;
/// Entries without another limit.
const LIMIT: usize = 100;
/// Fields of objects that change by themselves.
const BY_THEMSELVES: &[&str] = &[
    "eta",
    "reasons",
    "waited_s",
    "usage",
    "cpus_used",
    "memory_used",
    "tasks_used",
    "n_gpus_closed",
    "n_gpus_free",
    "term",
    "hints",
];

/// Marks an answer that has no entry: the handler changed nothing, or wrote an entry itself.
#[derive(Debug, Clone, Copy)]
struct NoEntry;

/// The answer of a handler that changed nothing, or that writes its own entry.
pub(crate) fn without_entry(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.extensions_mut().insert(NoEntry);
    response
}

/// The answer of a handler that changed something, unless it `is_dry_run`.
pub(crate) fn entered(answer: impl IntoResponse, is_dry_run: bool) -> Response {
    match is_dry_run {
        true => without_entry(answer),
        false => answer.into_response(),
    }
}

/// The log, and the API for reading objects before and after a change.
#[derive(Clone)]
pub(crate) struct Scribe {
    pub audit: Arc<Audit>,
    pub api: Router,
}

/// Which entries to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only changes by this user.
    user: Option<String>,
    /// Only changes of this object: `jobs/12`, `nodes/lab1`, `nodes/lab1:0`, or only its name. A
    /// job includes its elements, and a node its GPUs.
    object: Option<String>,
    /// Not before this time.
    since: Option<Time>,
    /// Not after this time.
    until: Option<Time>,
    /// Only entries with smaller numbers: the smallest of the page before.
    before: Option<u64>,
    /// Most entries: 100 without it, up to 1,000.
    limit: Option<usize>,
}

/// Lists changes, the newest first. Admins see those of all users, others their own.
#[utoipa::path(
    get, path = "/audit", operation_id = "audit_list", params(AuditQuery),
    responses((status = 200, description = "Entries", body = List<AuditEntry>))
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(asked): Params<AuditQuery>,
) -> Result<Json<List<AuditEntry>>, ApiError> {
    let AuditQuery { user, object, since, until, before, limit } = asked;
    object.as_deref().map_or(Ok(()), check_object)?;
    let own = asker.caller.owner.user.to_string();
    let user = if asker.caller.admin { user } else { Some(own) };
    let wanted = Wanted { user, object, since, until, before };
    let limit = limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let audit = api.handle.shared.audit.clone();
    let read = tokio::task::spawn_blocking(move || audit.read(&wanted, limit));
    Ok(Json(List::new(read.await.map_err(internal)?.map_err(internal)?)))
}

/// Checks the collection of an object: a wrong one would find nothing.
fn check_object(object: &str) -> Result<(), Refusal> {
    let Some((collection, _)) = object.split_once('/') else { return Ok(()) };
    let changes = ROUTES.iter().filter(|row| row.method != "GET");
    let known: BTreeSet<&str> = changes.filter_map(|row| collection_of(row.path)).collect();
    if known.contains(collection) {
        return Ok(());
    }
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    let why = format!("{collection:?} is not one of {known}");
    Err(Refusal::Invalid { field: "object".to_owned(), why })
}

/// Writes an entry for a request that has changed something. The answer follows the entry.
pub(crate) async fn record(
    State(scribe): State<Scribe>,
    Asks(asker): Asks,
    path: MatchedPath,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().as_str();
    let row = ROUTES.iter().find(|row| row.method == method && row.path == path.as_str());
    let Some(row) = row.filter(|row| row.method != "GET") else {
        return next.run(request).await;
    };
    let kind = match row.path.starts_with("/api/v1/jobs") {
        true => Kind::Jobs,
        false => Kind::Cluster,
    };
    let value = |name: &str| {
        let mut all = parameters.as_ref().ok()?.iter();
        all.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    };
    let in_path = in_path(row.path, value);
    // Streams only use a job; of other verbs the answer has the state.
    let is_looked_at = matches!(method, "PATCH" | "DELETE") && row.role != Role::Everybody;
    // The request has whole addresses, which may contain secrets; the stored ones are shown without
    // their paths.
    let is_secret = row.path.ends_with("/subscription");
    let target = (is_secret || is_looked_at).then(|| request.uri().path().to_owned());
    let before = scribe.look(&asker, target.as_deref()).await;
    let said = Arc::new(Mutex::new(Vec::new()));
    let is_heard = kind == Kind::Cluster && !is_secret;
    let request = if is_heard { listened(request, said.clone()) } else { request };
    let response = next.run(request).await;
    let is_done = response.status().is_success() || response.status().as_u16() == 101;
    if !is_done || response.extensions().get::<NoEntry>().is_some() {
        return response;
    }
    let (response, answer) = heard(response).await;
    let after = scribe.look(&asker, target.as_deref()).await;
    let said = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    let asked: Option<Value> = serde_json::from_slice(&said).ok();
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => differences(&before, &after),
        (before, after) => (before, after.or_else(|| states(&answer))),
    };
    let action = format!("{} {}", row.method, row.path.trim_start_matches(API_PREFIX));
    let mut entry = entry(&asker, action);
    let change = Change {
        pattern: row.path,
        in_path: in_path.as_deref(),
        request: asked.as_ref(),
        answer: &answer,
    };
    entry.objects = change.objects();
    (entry.request, entry.before, entry.after) = (asked, before, after);
    scribe.write(kind, entry).await;
    response
}

impl Scribe {
    /// Reads an object as the caller sees it, if there is a route for it.
    async fn look(&self, asker: &Arc<Asker>, target: Option<&str>) -> Option<Value> {
        let mut request = Request::get(target?).body(Body::empty()).ok()?;
        request.extensions_mut().insert(Asks(asker.clone()));
        let Ok(response) = self.api.clone().oneshot(request).await;
        let is_found = response.status().is_success();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        let mut object: Value = serde_json::from_slice(&body).ok().filter(|_| is_found)?;
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|name, _| name != "apiVersion" && !BY_THEMSELVES.contains(&&**name));
        }
        Some(object)
    }

    async fn write(&self, kind: Kind, entry: AuditEntry) {
        let audit = self.audit.clone();
        let written = tokio::task::spawn_blocking(move || audit.add(kind, entry)).await;
        if let Ok(Err(error)) = written {
            // The change is made and stored, so the caller gets the answer.
            tracing::error!(%error, "can't write the audit log");
        }
    }
}

fn entry(asker: &Asker, action: String) -> AuditEntry {
    AuditEntry {
        id: 0,
        at: Time(now()),
        user: asker.caller.owner.user.to_string(),
        network_user: asker.way.network_user.as_ref().map(ToString::to_string),
        origin: asker.way.origin.to_string(),
        token: asker.way.token.as_ref().map(ToString::to_string),
        action,
        objects: Vec::new(),
        request: None,
        before: None,
        after: None,
    }
}

/// The states of changed jobs.
fn states(answer: &Value) -> Option<Value> {
    let state = |it: &Value| Some((it["id"].as_str()?.to_owned(), it["state"].clone()));
    if let Some((_, state)) = state(answer).filter(|(_, state)| !state.is_null()) {
        return Some(Map::from_iter([("state".to_owned(), state)]).into());
    }
    let states: Map<String, Value> =
        answer["items"].as_array()?.iter().filter_map(state).take(OBJECTS_MAX).collect();
    let is_of_jobs = states.values().any(|state| !state.is_null());
    is_of_jobs.then(|| Map::from_iter([("state".to_owned(), states.into())]).into())
}

/// Keeps the fields that differ, also within objects.
fn differences(before: &Value, after: &Value) -> (Option<Value>, Option<Value>) {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return (Some(before.clone()), Some(after.clone()));
    };
    let (mut gone, mut come) = (Map::new(), Map::new());
    for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
        let (before, after) = match (old.get(name), new.get(name)) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(before), Some(after)) => differences(before, after),
            (before, after) => (before.cloned(), after.cloned()),
        };
        gone.extend(before.map(|value| (name.clone(), value)));
        come.extend(after.map(|value| (name.clone(), value)));
    }
    (Some(gone.into()), Some(come.into()))
}

/// Takes a copy of the first bytes of a request while its handler reads it.
fn listened(request: Request, said: Arc<Mutex<Vec<u8>>>) -> Request {
    request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                let left = REQUEST_MAX.saturating_sub(said.len());
                said.extend_from_slice(&data[..data.len().min(left)]);
            }
            frame
        }))
    })
}

/// Reads a small answer, and returns it unchanged.
async fn heard(response: Response) -> (Response, Value) {
    use axum::body::HttpBody as _;
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    if size.is_none_or(|size| size > ANSWER_MAX) {
        return (response, Value::Null);
    }
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
    let answer = serde_json::from_slice(&bytes).unwrap_or_default();
    (Response::from_parts(head, Body::from(bytes)), answer)
}
