//! Writes an audit entry for each change that a route makes, and lists the entries.

mod objects;
mod writer;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use gpool_model::job::JobState;
use gpool_model::{JobId, Refusal};
use gpool_wire::{API_PREFIX, AuditEntry, List, Problem, Time};
use http_body_util::{BodyExt as _, Collected, Limited};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;
use utoipa::IntoParams;

use self::objects::{AuditedChange, OBJECTS_MAX, collection_of, in_path};
pub(crate) use self::writer::Writer;
use super::asker::{Asker, Asks};
use super::changes::{Changes, Denials, Portion, SlowEnds};
use super::extract::{ApiError, Params};
use super::guard::row_of;
use super::idempotency::{is_repeated, key_name};
use super::routes::{ROUTES, Role, Route};
use crate::api::Api;
use gpool_identity::audit::{Audit, AuditFilter, AuditKind, AuditSearch};
use gpool_identity::pool::{Rates, RequestSource};
use gpool_server::clock::now;
use gpool_server::fault::internal;
use gpool_server::handle::CoreHandle;

/// Most bytes of a request that are stored.
const REQUEST_MAX: usize = 64 * 1024;
/// Most bytes of an answer that is searched for objects: those of [`OBJECTS_MAX`] jobs.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Most entries of one answer.
const LIMIT_MAX: usize = 1000;
/// The most bytes of an empty object as a body, and the time for them.
const EMPTY_MAX: usize = 16;
const EMPTY_PATIENCE: Duration = Duration::from_secs(10);
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

/// A change that its handler describes. Otherwise the objects are read from the answer.
#[derive(Debug, Clone)]
pub(crate) struct KnownChange {
    /// By the names that users see.
    objects: Vec<String>,
    after: Value,
}

impl KnownChange {
    /// A job, and its state after the change.
    pub fn job(id: JobId, state: JobState) -> Self {
        Self { objects: vec![format!("jobs/{id}")], after: json!({ "state": state }) }
    }
}

/// The answer of a handler that changed this.
pub(crate) fn with_change(answer: impl IntoResponse, change: KnownChange) -> Response {
    let mut response = answer.into_response();
    response.extensions_mut().insert(change);
    response
}

/// The answer of a handler that changed nothing, or that writes its own entry.
pub(crate) fn without_entry(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.extensions_mut().insert(NoEntry);
    response
}

/// The answer of a handler that changed something, unless it `is_unchanged`.
pub(crate) fn entered(answer: impl IntoResponse, is_unchanged: bool) -> Response {
    match is_unchanged {
        true => without_entry(answer),
        false => answer.into_response(),
    }
}

/// The log, and the API for reading objects before and after a change.
pub(crate) struct Scribe {
    pub handle: CoreHandle,
    pub audit: Arc<Audit>,
    pub writer: Arc<Writer>,
    pub api: Router,
    pub changes: Changes,
    pub denials: Denials,
    /// Entries on a full disk, and changes there that end something.
    pub when_full: Rates<RequestSource>,
    pub ends_when_full: SlowEnds,
}

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
    /// Only entries with larger numbers, the oldest first: the largest of the page before.
    after: Option<u64>,
    /// Most entries: 100 without it, up to 1,000.
    limit: Option<usize>,
}

/// Lists changes and refused requests, the newest first. Admins see those of all users, others
/// their own.
#[utoipa::path(
    get, path = "/audit", operation_id = "audit_list", params(AuditQuery),
    responses((status = 200, description = "Entries", body = List<AuditEntry>))
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(asked): Params<AuditQuery>,
) -> Result<Json<List<AuditEntry>>, ApiError> {
    let AuditQuery { user, object, since, until, before, after, limit } = asked;
    object.as_deref().map_or(Ok(()), check_object)?;
    let own = asker.caller.owner.user.to_string();
    let user = if asker.caller.admin { user } else { Some(own) };
    let wanted = AuditFilter { user, object, since, until, before, after };
    let mut page = AuditSearch::new(wanted, limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX));
    let mut is_over = false;
    // After each file it is another user's turn.
    while !is_over {
        let audit = api.handle.shared.identities.audit.clone();
        let read = move || {
            let more = audit.read_file(&mut page).map_err(internal)?;
            Ok((page, !more))
        };
        (page, is_over) = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    }
    Ok(Json(List::new(page.entries())))
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

/// Writes an entry for a request that was refused for lack of rights.
pub(crate) async fn record_refusal(
    State(scribe): State<Arc<Scribe>>,
    Asks(asker): Asks,
    path: MatchedPath,
    parameters: Parameters,
    request: Request,
    next: Next,
) -> Response {
    let row = row_of(request.method(), &path);
    let response = next.run(request).await;
    let Some(row) = row.filter(|_| response.status() == StatusCode::FORBIDDEN) else {
        return response;
    };
    let object = object_in(row, &parameters);
    // The entry is written although the client closes its connection.
    let entry = async move { scribe.refused(&asker, row, object, response).await };
    tokio::spawn(entry)
        .await
        .unwrap_or_else(|error| ApiError::from(internal(error)).into_response())
}

/// Writes an entry for a request that has changed something. The answer follows the entry.
pub(crate) async fn record(
    State(scribe): State<Arc<Scribe>>,
    Asks(asker): Asks,
    path: MatchedPath,
    parameters: Parameters,
    request: Request,
    next: Next,
) -> Response {
    let row = row_of(request.method(), &path);
    let Some(row) = row.filter(|row| row.method != "GET") else {
        return next.run(request).await;
    };
    let request = match without_body(row, request).await {
        Ok(request) => request,
        Err(refused) => return ApiError::from(refused).into_response(),
    };
    let length = HttpBody::size_hint(request.body()).exact();
    let portion = match scribe.portion(&asker, row, request.headers(), length).await {
        Ok(portion) => portion,
        Err(refused) => return ApiError::from(refused).into_response(),
    };
    let in_path = object_in(row, &parameters);
    // Streams only use a job; of other verbs the answer has the state.
    let is_looked_at = matches!(row.method, "PATCH" | "DELETE") && row.role != Role::Everybody;
    // The request has whole addresses, which may contain secrets; the stored ones are shown without
    // their paths.
    let is_secret = row.path.ends_with("/subscription");
    let target = (is_secret || is_looked_at).then(|| request.uri().path().to_owned());
    let before = scribe.look(&asker, target.as_deref()).await;
    let body = Arc::new(Mutex::new(RequestBody::default()));
    let kind = kind(row, asker.caller.admin);
    let is_of_jobs = matches!(kind, AuditKind::Jobs | AuditKind::AdminJobs);
    let is_hidden = is_secret || row.path.starts_with("/api/v1/secrets");
    let most = if is_of_jobs || is_hidden { 0 } else { REQUEST_MAX };
    let mut request = with_copy(request, body.clone(), most);
    request.extensions_mut().insert(portion.clone());
    let mut response = next.run(request).await;
    let is_done = response.status().is_success() || response.status().as_u16() == 101;
    if !is_done || response.extensions().get::<NoEntry>().is_some() {
        return response;
    }
    if let Some(KnownChange { objects, after }) = response.extensions_mut().remove() {
        let entry = AuditEntry { objects, after: Some(after), ..entry(&asker, row) };
        let n_bytes = scribe.writer.write(kind, entry).await;
        portion.settle(take_copy(&body).n_bytes, n_bytes);
        return response;
    }
    let (response, answer) = peek_json(response).await;
    let after = scribe.look(&asker, target.as_deref()).await;
    let body = take_copy(&body);
    let document: Option<Value> = serde_json::from_slice(&body.start).ok();
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => differences(&before, &after),
        (before, after) => (before, after.or_else(|| states(&answer))),
    };
    let change = AuditedChange {
        pattern: row.path,
        in_path: in_path.as_deref(),
        request: document.as_ref(),
        answer: &answer,
    };
    let mut entry = AuditEntry { objects: change.objects(), ..entry(&asker, row) };
    // The changed fields say more than the request.
    entry.request = document.filter(|_| before.is_none() || after.is_none());
    (entry.before, entry.after) = (before, after);
    let n_bytes = scribe.writer.write(kind, entry).await;
    portion.settle(body.n_bytes, n_bytes);
    response
}

/// Checks that a request to a route that reads no body has none, or an empty object.
async fn without_body(row: &Route, request: Request) -> Result<Request, Refusal> {
    if row.has_body || HttpBody::size_hint(request.body()).exact() == Some(0) {
        return Ok(request);
    }
    let (head, body) = request.into_parts();
    let body = Limited::new(body, EMPTY_MAX).collect();
    let read = tokio::time::timeout(EMPTY_PATIENCE, body).await;
    let bytes = read.ok().and_then(Result::ok).map(Collected::to_bytes);
    match bytes.as_deref().map(<[u8]>::trim_ascii) {
        Some(b"" | b"{}") => Ok(Request::from_parts(head, Body::empty())),
        _ => {
            let why = format!("{} {} reads none; leave it out", row.method, row.path);
            Err(Refusal::Invalid { field: "body".to_owned(), why })
        }
    }
}

/// The parts of a path that its route leaves open.
type Parameters = Result<RawPathParams, RawPathParamsRejection>;

/// The object that the path of a request names.
fn object_in(row: &Route, parameters: &Parameters) -> Option<String> {
    let value = |name: &str| {
        let mut all = parameters.as_ref().ok()?.iter();
        all.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    };
    in_path(row.path, value)
}

/// The files for entries of a route.
fn kind(row: &Route, is_admin: bool) -> AuditKind {
    let is_of_jobs = row.path.starts_with("/api/v1/jobs");
    match (is_of_jobs, is_admin) {
        (true, true) => AuditKind::AdminJobs,
        (true, false) => AuditKind::Jobs,
        (false, true) => AuditKind::Admin,
        (false, false) => AuditKind::Cluster,
    }
}

impl Scribe {
    /// What a change takes of the budget of its user.
    async fn portion(
        &self,
        asker: &Asker,
        row: &Route,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Result<Portion, Problem> {
        if row.is_counted && !self.may_write(asker) {
            let why = "the space of the audit log is for what ends jobs".to_owned();
            return Err(Refusal::StorageFull { why }.into());
        }
        if !row.is_counted && !asker.caller.admin && self.audit.is_full() {
            self.ends_when_full.next(asker.source()).await;
        }
        // The handler refuses a bad key.
        let key = key_name(headers).ok().flatten().filter(|_| row.is_of_new_jobs());
        if is_repeated(&self.handle, asker, key).await? {
            return Ok(self.changes.repeat(asker).await);
        }
        self.changes.begin(asker, row, length).await
    }

    /// Whether an entry may be written for a change that ends nothing. On a full disk each user has
    /// only a few, so that there is space for those of others.
    fn may_write(&self, asker: &Asker) -> bool {
        asker.caller.admin
            || !self.audit.is_full()
            || self.when_full.take(asker.source(), Instant::now())
    }

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

    /// Writes an entry for an answer that refused a request for lack of rights. A user that sends
    /// many of them has an entry now and then, with their number.
    async fn refused(
        &self,
        asker: &Asker,
        row: &Route,
        in_path: Option<String>,
        response: Response,
    ) -> Response {
        let Some(n_more) = self.denials.next(asker.source(), Instant::now()) else {
            return response;
        };
        let (response, answer) = peek_json(response).await;
        let refused = answer["code"].as_str().map(str::to_owned);
        let n_more = Some(n_more).filter(|n_more| *n_more > 0);
        let collection = || collection_of(row.path).map(str::to_owned);
        let objects = in_path.or_else(collection).into_iter().collect();
        let entry = AuditEntry { objects, refused, n_more, ..entry(asker, row) };
        self.writer.write(AuditKind::Denials, entry).await;
        response
    }
}

fn entry(asker: &Asker, row: &Route) -> AuditEntry {
    let way = &asker.way;
    let action = format!("{} {}", row.method, row.path.trim_start_matches(API_PREFIX));
    let user = asker.caller.owner.user.to_string();
    AuditEntry {
        network_user: way.network_user.as_ref().map(ToString::to_string),
        token: way.token.as_ref().map(ToString::to_string),
        ..AuditEntry::new(Time(now()), user, way.origin.to_string(), action)
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

/// Keeps the fields that differ, also within objects; of long texts, the parts that differ.
fn differences(before: &Value, after: &Value) -> (Option<Value>, Option<Value>) {
    if let (Value::String(before), Value::String(after)) = (before, after) {
        let (before, after) = texts_that_differ(before, after);
        return (Some(before.into()), Some(after.into()));
    }
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

/// The different part of two long texts, with a little of the text around it.
fn texts_that_differ(before: &str, after: &str) -> (String, String) {
    const LONG: usize = 200;
    const AROUND: usize = 20;
    if before.len() <= LONG && after.len() <= LONG {
        return (before.to_owned(), after.to_owned());
    }
    let (old, new): (Vec<char>, Vec<char>) = (before.chars().collect(), after.chars().collect());
    let n_same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let ends = old.iter().rev().zip(new.iter().rev());
    let n_left = old.len().min(new.len()) - n_same;
    let n_same_end = ends.take(n_left).take_while(|(old, new)| old == new).count();
    let part = |text: &[char]| {
        let from = n_same.saturating_sub(AROUND);
        let to = (text.len() - n_same_end + AROUND).min(text.len());
        let middle: String = text[from..to].iter().collect();
        let [start, end] = [from > 0, to < text.len()].map(|is_cut| if is_cut { "…" } else { "" });
        format!("{start}{middle}{end}")
    };
    (part(&old), part(&new))
}

/// The body of a request, as far as its handler has read it.
#[derive(Debug, Default)]
struct RequestBody {
    /// Its first bytes.
    start: Vec<u8>,
    n_bytes: u64,
}

/// Takes the copied part of a request.
fn take_copy(copy: &Mutex<RequestBody>) -> RequestBody {
    std::mem::take(&mut copy.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes a copy of the first bytes of a request, at most this number, while its handler reads it.
fn with_copy(request: Request, copy: Arc<Mutex<RequestBody>>, most: usize) -> Request {
    request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
                copy.n_bytes += data.len() as u64;
                let left = most.saturating_sub(copy.start.len());
                copy.start.extend_from_slice(&data[..data.len().min(left)]);
            }
            frame
        }))
    })
}

/// Reads a small answer, and returns it unchanged.
async fn peek_json(response: Response) -> (Response, Value) {
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    if size.is_none_or(|size| size > ANSWER_MAX) {
        return (response, Value::Null);
    }
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
    let answer = serde_json::from_slice(&bytes).unwrap_or_default();
    (Response::from_parts(head, Body::from(bytes)), answer)
}
