//! Writes an audit entry for each change that a route makes, and lists the entries.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Json, Router};
use gpool_wire::{API_PREFIX, AuditEntry, List, Time};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use tower::ServiceExt as _;
use utoipa::IntoParams;

use super::Api;
use super::asker::{Asker, Asks};
use super::extract::{ApiError, Params};
use super::routes::{ROUTES, Role};
use crate::audit::{Audit, Kind, Wanted};
use crate::clock::now;
use crate::fault::internal;

/// Most bytes of a request or an answer that are looked at.
const LOOKED_AT: usize = 64 * 1024;
/// Most objects of one entry.
const OBJECTS_MAX: usize = 1000;
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
    /// Only changes of this object, such as `jobs/12` or `projects/vision`.
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
    let own = asker.caller.owner.user.to_string();
    let user = if asker.caller.admin { user } else { Some(own) };
    let wanted = Wanted { user, object, since, until, before };
    let limit = limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let audit = api.handle.shared.audit.clone();
    let read = tokio::task::spawn_blocking(move || audit.read(&wanted, limit));
    Ok(Json(List::new(read.await.map_err(internal)?.map_err(internal)?)))
}

/// Writes an entry for a request that has changed something. The answer follows the entry.
pub(crate) async fn record(
    State(scribe): State<Scribe>,
    Asks(asker): Asks,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let is_dry = request.uri().query().is_some_and(|query| query.contains("dry_run=true"));
    let method = request.method().as_str();
    let row = ROUTES.iter().find(|row| row.method == method && row.path == path.as_str());
    let Some(row) = row.filter(|row| row.method != "GET" && !is_dry) else {
        return next.run(request).await;
    };
    // A sign-in at the identity provider writes its own entry, at its end.
    if row.path.ends_with("/simulate") || row.path.contains("/login/device") {
        return next.run(request).await;
    }
    let kind = match row.path.starts_with("/api/v1/jobs") {
        true => Kind::Jobs,
        false => Kind::Cluster,
    };
    let object = object_of(row.path, request.uri().path());
    // Streams only use a job; of other verbs the answer has the state.
    let is_looked_at = matches!(method, "PATCH" | "DELETE") && row.role != Role::Everybody;
    // The request has whole addresses, which may contain secrets; the stored ones are shown without
    // their paths.
    let is_secret = row.path.ends_with("/subscription");
    let target = match is_secret {
        true => Some(request.uri().path().to_owned()),
        false => object.as_ref().filter(|_| is_looked_at).map(|it| format!("{API_PREFIX}/{it}")),
    };
    let before = scribe.look(&asker, target.as_deref()).await;
    let said = Arc::new(Mutex::new(Vec::new()));
    let is_heard = kind == Kind::Cluster && !is_secret;
    let request = if is_heard { listened(request, said.clone()) } else { request };
    let response = next.run(request).await;
    if !response.status().is_success() && response.status().as_u16() != 101 {
        return response;
    }
    let (response, answer) = heard(response).await;
    let after = scribe.look(&asker, target.as_deref()).await;
    let said = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    let asked: Option<Value> = serde_json::from_slice(&said).ok();
    if is_no_change(row.path, asked.as_ref()) {
        return response;
    }
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => differences(&before, &after),
        (before, after) => (before, after.or_else(|| states(&answer))),
    };
    let action = format!("{} {}", row.method, row.path.trim_start_matches(API_PREFIX));
    let mut entry = entry(&asker, action);
    entry.objects = objects(object, row.path, &answer);
    (entry.request, entry.before, entry.after) = (asked, before, after);
    scribe.write(kind, entry).await;
    response
}

/// Whether a successful request only asked: a dry run, or a list of MIG instances.
fn is_no_change(path: &str, asked: Option<&Value>) -> bool {
    let Some(fields) = asked.and_then(Value::as_object) else { return path.ends_with("/mig") };
    fields.get("dry_run") == Some(&Value::Bool(true))
        || (path.ends_with("/mig") && fields.is_empty())
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

/// The object that a path names: `jobs/12` of `/api/v1/jobs/12/cancel`.
fn object_of(pattern: &str, path: &str) -> Option<String> {
    let pattern = pattern.strip_prefix(API_PREFIX)?.trim_start_matches('/');
    let path = path.strip_prefix(API_PREFIX)?.trim_start_matches('/');
    let n_parts = match pattern.split('/').position(|part| part.starts_with('{')) {
        Some(at) => at + 1,
        None if pattern.contains('/') => return None,
        None => 1,
    };
    Some(path.split('/').take(n_parts).collect::<Vec<_>>().join("/"))
}

/// The objects of an entry: those that the answer names, otherwise the path's.
fn objects(object: Option<String>, pattern: &str, answer: &Value) -> Vec<String> {
    let collection = pattern.trim_start_matches(API_PREFIX).trim_start_matches('/');
    let collection = collection.split('/').next().unwrap_or_default();
    let named = |it: &Value| {
        let name = it["id"].as_str().or_else(|| it["name"].as_str())?;
        Some(format!("{collection}/{name}"))
    };
    if pattern.contains('{') {
        return object.into_iter().collect();
    }
    if let Some(items) = answer["items"].as_array().filter(|_| collection == "jobs") {
        return items.iter().filter_map(named).take(OBJECTS_MAX).collect();
    }
    if let Some(first) = answer["first"].as_str() {
        return vec![format!("{collection}/{first}")];
    }
    named(answer).or(object).into_iter().chain(collection_of(pattern)).take(1).collect()
}

fn collection_of(pattern: &str) -> Option<String> {
    pattern.strip_prefix(API_PREFIX)?.split('/').nth(1).map(str::to_owned)
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

/// Keeps the fields that differ.
fn differences(before: &Value, after: &Value) -> (Option<Value>, Option<Value>) {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return (Some(before.clone()), Some(after.clone()));
    };
    let differ = |one: &Map<String, Value>, other: &Map<String, Value>| {
        let fields = one.iter().filter(|(name, value)| other.get(*name) != Some(value));
        Value::from(
            fields.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>(),
        )
    };
    (Some(differ(old, new)), Some(differ(new, old)))
}

/// Takes a copy of the first bytes of a request while its handler reads it.
fn listened(request: Request, said: Arc<Mutex<Vec<u8>>>) -> Request {
    request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                let left = LOOKED_AT.saturating_sub(said.len());
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
    if size.is_none_or(|size| size > LOOKED_AT) {
        return (response, Value::Null);
    }
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
    let answer = serde_json::from_slice(&bytes).unwrap_or_default();
    (Response::from_parts(head, Body::from(bytes)), answer)
}
