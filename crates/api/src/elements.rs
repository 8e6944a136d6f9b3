//! Lists the elements of an array, and retries them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use gpool_model::array::{ArrayValues, ValuesRef};
use gpool_model::job::{BlobId, JobState, Owner};
use gpool_model::record::EndedJob;
use gpool_model::refusal::Permitted;
use gpool_model::{
    ArrayState, Command, Job, JobId, JobNumber, NewJob, Outcome, Positions, Reason, Refusal, Reply,
    placeholder,
};
use gpool_wire::Document;
use gpool_wire::array::{ArrayElement, Retried};
use gpool_world::JobRow;
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::{Asker, Asks};
use super::audit::entered;
use super::changes::Portion;
use super::context::Files;
use super::extract::{ApiError, Params, Segment, job_id, unexpected};
use super::found::FoundJob;
use super::idempotency::{is_repeated, key, key_name};
use super::listing;
use super::page::{self, Making, Piece, Room};
use crate::api::Api;
use gpool_server::elements;
use gpool_server::fault::internal;
use gpool_server::handle::Age;
use gpool_server::view::View;

/// Number of elements in one piece of a page.
const AT_ONCE: usize = 256;

/// Query parameters of an element list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ElementParams {
    /// States separated by commas; `all` (default); `active`; `ended`.
    pub state: Option<String>,
    /// Only elements with this index or a larger one.
    pub from: Option<u32>,
    /// Maximum number of elements on the page. Default: 200.
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
}

/// A selected element, with its facts outside the archive.
struct SelectedElement {
    id: JobId,
    living: Option<FoundJob>,
    never_started: Option<Job>,
}

/// Lists the elements of an array by index. `next_cursor` is the `from` of the next page.
#[utoipa::path(
    get, path = "/jobs/{id}/elements", operation_id = "jobs_elements",
    params(("id" = String, Path, description = "The array"), ElementParams),
    responses(
        (status = 200, description = "The elements; empty if the job is not an array",
         body = gpool_wire::List<gpool_wire::Job>),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(params): Params<ElementParams>,
) -> Result<Response, ApiError> {
    let id = job_id(&id)?;
    let limit = listing::limit(params.limit)?;
    let states = listing::states(Some(params.state.as_deref().unwrap_or("all")))?;
    let mut is_first = true;
    let make = move |from: u32, room: Room| -> Making<u32> {
        let (api, asker, states) = (api.clone(), Arc::clone(&asker), states.clone());
        let age = if std::mem::replace(&mut is_first, false) { Age::New } else { Age::Last };
        Box::pin(async move { piece(&api, &asker, id, states, (from, age), room).await })
    };
    let from = params.from.unwrap_or(0);
    page::answer(from, limit, |index| index.to_string(), Box::new(make)).await
}

async fn piece(
    api: &Api,
    asker: &Asker,
    id: JobId,
    states: BTreeSet<JobState>,
    (from, age): (u32, Age),
    room: Room,
) -> Result<Piece<u32>, Refusal> {
    let mut piece = Piece::new(room);
    let limit = piece.n_left().min(AT_ONCE);
    let wanted = states.clone();
    let living = move |view: &View<'_>| {
        // Only arrays have elements.
        let row = view.world.job(JobId { element: None, ..id })?;
        Some((row.spec.clone(), choose(view, row, &wanted, from, limit)))
    };
    let uid = asker.caller.owner.uid;
    let (spec, (chosen, next)) = match api.handle.look(uid, age, living).await? {
        Some(living) => living,
        None => {
            let whole = JobId { element: None, ..id };
            let ended = api.handle.archived(whole).await?.ok_or(Refusal::NoSuchJob { id })?;
            let row = JobRow { spec: ended.spec, job: ended.job };
            let chosen = choose_ended(&row, &states, from, limit);
            (row.spec, chosen)
        }
    };
    let archived = archived(api, uid, id.number, &chosen).await?;
    let now = gpool_server::clock::now();
    let values = spec.array.as_ref().and_then(|it| it.values.as_ref());
    let values = match values.filter(|_| asker.may_see(spec.owner.uid)) {
        Some(values) => values_of(api, values).await?,
        None => None,
    };
    for one in chosen {
        let index = one.id.element.unwrap_or(0);
        let found = one.living.or_else(|| {
            let in_archive = archived.get(&one.id).cloned();
            let job = elements::latest(in_archive, one.never_started)?;
            Some(FoundJob::of_ended(EndedJob { spec: spec.clone(), job }))
        });
        let Some(found) = found else { continue };
        let mut shown = found.for_caller(asker, now);
        if let (Some(element), Some(values)) = (&mut shown.element, &values) {
            give(element, &mut shown.name, values);
        }
        if piece.is_full() || !piece.add(&shown) {
            piece.next = Some(index);
            return Ok(piece);
        }
    }
    piece.next = next;
    Ok(piece)
}

type Page = (Vec<SelectedElement>, Option<u32>);

fn choose(
    view: &View<'_>,
    row: &JobRow,
    states: &BTreeSet<JobState>,
    from: u32,
    limit: usize,
) -> Page {
    let explainer = view.explainer();
    let waits_for = explainer.decisive(row, Reason::LISTED_MAX);
    page(row, states, from, limit, |id, position, array| {
        if let Some(own) = view.world.job(id) {
            let reasons = match own.job.phase.allocations().is_empty() {
                true => explainer.decisive(own, Reason::LISTED_MAX),
                false => (Vec::new(), 0),
            };
            return (Some((own.clone(), reasons)), own.job.phase.state());
        }
        match array.outcome_of(position) {
            Some(outcome) => (None, outcome.state()),
            None => {
                let own = elements::alone(row, id);
                let state = own.job.phase.state();
                (Some((own, waits_for.clone())), state)
            }
        }
    })
}

fn choose_ended(row: &JobRow, states: &BTreeSet<JobState>, from: u32, limit: usize) -> Page {
    let of = |_: JobId, position: u32, array: &ArrayState| {
        let outcome = array.outcome_of(position).unwrap_or(Outcome::Cancelled);
        (None, outcome.state())
    };
    page(row, states, from, limit, of)
}

type ElementStatus = (Option<(JobRow, (Vec<Reason>, u64))>, JobState);

/// Returns elements in these states, read with `look`, and the index of the first element on the
/// next page.
fn page(
    row: &JobRow,
    states: &BTreeSet<JobState>,
    from: u32,
    limit: usize,
    mut look: impl FnMut(JobId, u32, &ArrayState) -> ElementStatus,
) -> Page {
    let (Some(spec), Some(array)) = (&row.spec.array, &row.job.array) else {
        return (Vec::new(), None);
    };
    let mut chosen = Vec::new();
    for (position, index) in spec.indexes.from(from) {
        let id = JobId { element: Some(index), ..row.job.id };
        let (known, state) = look(id, position, array);
        if !states.contains(&state) {
            continue;
        }
        if chosen.len() == limit {
            return (chosen, Some(index));
        }
        let living = known.map(|(own, reasons)| FoundJob::waiting(&own, reasons));
        let never_started = match living {
            Some(_) => None,
            None => elements::never_started(row, id, position),
        };
        chosen.push(SelectedElement { id, living, never_started });
    }
    (chosen, None)
}

/// Returns the last attempts of the selected ended elements.
async fn archived(
    api: &Api,
    uid: u32,
    number: JobNumber,
    selection: &[SelectedElement],
) -> Result<std::collections::BTreeMap<JobId, Job>, Refusal> {
    let ended: BTreeSet<u32> = selection
        .iter()
        .filter(|one| one.living.is_none())
        .filter_map(|one| one.id.element)
        .collect();
    let handle = api.handle.clone();
    let read = move || elements::ended_of(&handle.open_reader()?, number, &ended);
    api.handle.run_slow(uid, read).await
}

/// Adds the parameter values to elements.
pub(crate) async fn add_values(
    api: &Api,
    values: Option<&ValuesRef>,
    jobs: &mut [gpool_wire::Job],
) -> Result<(), Refusal> {
    let Some(values) = values else { return Ok(()) };
    let Some(values) = values_of(api, values).await? else { return Ok(()) };
    for job in jobs {
        if let Some(element) = &mut job.element {
            give(element, &mut job.name, &values);
        }
    }
    Ok(())
}

/// Returns the parameter values of elements, if they are still stored. The rest of the answer is
/// valid without them.
async fn values_of(api: &Api, values: &ValuesRef) -> Result<Option<ArrayValues>, Refusal> {
    let (handle, blob) = (api.handle.clone(), values.blob.clone());
    let read = move || {
        let id = blob.0.parse().ok()?;
        let bytes = handle.blobs().get(&id).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    tokio::task::spawn_blocking(read).await.map_err(internal)
}

/// Adds the parameter values to an element, and inserts them into its name.
fn give(element: &mut ArrayElement, name: &mut String, values: &ArrayValues) {
    let (item, params) = (values.item(element.index), values.params(element.index));
    *name = placeholder::fill(name, item, &params);
    element.item = item.map(str::to_owned);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    element.params = params.into_iter().map(owned).collect();
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetryParams {
    /// If true, holds the job, so that it can be changed before it starts. Not allowed for an array
    /// with live elements.
    hold: bool,
}

/// Retries an ended job. Elements of a live array begin their next attempt. Otherwise the
/// unsuccessful part is submitted as a new job, once per `Idempotency-Key`.
#[utoipa::path(
    post, path = "/jobs/{id}/retry", operation_id = "jobs_retry",
    params(
        ("id" = String, Path, description = "The job, array or element"), RetryParams,
        ("Idempotency-Key" = Option<String>, Header, description = "A unique name of this request"),
    ),
    responses(
        (status = 200, description = "The jobs that run again", body = Document<Retried>),
        (status = 400, description = "The job can't be held", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "The job belongs to another user", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The job has not ended, or its environment was removed",
         body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn retry(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(params): Params<RetryParams>,
    portion: Portion,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = job_id(&id)?;
    let digest = || blake3::hash(format!("retry {id} {}", params.hold).as_bytes());
    let key = key_name(&headers)?.map(|name| key(name, digest()));
    let lives = move |view: &View<'_>| {
        let row = view.world.array(id.number)?;
        let array = row.job.array.as_ref()?;
        let all = u64::from(array.n_ended() - array.n_ended_as(Outcome::Succeeded));
        let n_elements = if id.element.is_some() { 1 } else { all };
        Some((n_elements, n_elements * u64::from(row.spec.n_tasks())))
    };
    if let Some((n, n_runs)) = api.handle.query(lives).await? {
        if params.hold {
            let why =
                format!("name the whole array {}: its elements run again together", id.number);
            return Err(Refusal::Invalid { field: "hold".to_owned(), why }.into());
        }
        portion.take_runs(n_runs)?;
        let command = Command::Retry { jobs: vec![id] };
        api.handle.command(asker.caller.clone(), command).await?;
        let retried = Retried { id: id.to_string(), n_elements: Some(n), is_new: false };
        return Ok(Json(Document::new(retried)).into_response());
    }
    if let Some((state, owner)) = api.handle.query(move |view| state_of(view, id)).await? {
        check_owner(&asker, id, &owner)?;
        let action = "retry".to_owned();
        return Err(Refusal::WrongState { id, state, action }.into());
    }
    let ended = api.handle.archived(id).await?.ok_or(Refusal::NoSuchJob { id })?;
    check_owner(&asker, id, &ended.spec.owner)?;
    let files = keep_blobs(&api, &ended).await?;
    let mut new = anew(&ended).ok_or_else(|| {
        let why = format!("no element of job {id} has ended without success");
        Refusal::Invalid { field: "id".to_owned(), why }
    })?;
    new.standing.hold = params.hold;
    if !is_repeated(&api.handle, &asker, key.as_ref().map(|key| &*key.name)).await? {
        portion.take_runs(new.n_runs())?;
    }
    let n_elements = new.array.as_ref().map(|array| u64::from(array.indexes.len()));
    let caller = gpool_model::Caller::new(ended.spec.owner.clone(), asker.caller.admin);
    let command = Command::Submit {
        jobs: vec![new],
        key,
        ends: Vec::new(),
        array_ends: Vec::new(),
        dry_run: false,
    };
    match files.command(caller, command).await? {
        Reply::Submitted { first, repeated, .. } => {
            let retried = Retried { id: first.to_string(), n_elements, is_new: true };
            Ok(entered(Json(Document::new(retried)), repeated))
        }
        other => Err(unexpected(&other)),
    }
}

fn state_of(view: &View<'_>, id: JobId) -> Option<(JobState, Owner)> {
    let row = view.world.row_for(id)?;
    Some((row.job.phase.state(), row.spec.owner.clone()))
}

fn check_owner(asker: &Asker, id: JobId, owner: &Owner) -> Result<(), Refusal> {
    if asker.caller.admin || asker.caller.owner.uid == owner.uid {
        return Ok(());
    }
    let what = format!("retry job {id} of user {}", owner.user);
    Err(Refusal::NotPermitted { what, by: Permitted::Owner })
}

/// Pins the files of an ended job while it is submitted again.
async fn keep_blobs(api: &Api, ended: &EndedJob) -> Result<Files, Refusal> {
    let (handle, uid) = (api.handle.clone(), ended.spec.owner.uid);
    let blobs: Vec<BlobId> = ended.spec.blobs().cloned().collect();
    let keep = move || Files::of(handle, uid, &blobs);
    let kept = tokio::task::spawn_blocking(keep).await.map_err(internal)?;
    kept.ok_or(Refusal::NotKept { id: ended.job.id })
}

/// Returns the request of a retry: the same job, the unsuccessful elements of an array, or one
/// named element. It uses the blobs of the ended job.
fn anew(ended: &EndedJob) -> Option<NewJob> {
    let (spec, job) = (&ended.spec, &ended.job);
    let array = match &spec.array {
        None => None,
        Some(asked) => {
            let positions: Positions = match (job.id.element, &job.array) {
                (Some(index), _) => asked.indexes.position(index).into_iter().collect(),
                (None, Some(array)) => array.unsuccessful(),
                (None, None) => return None,
            };
            let mut again = asked.clone();
            again.indexes = asked.indexes.of(&positions)?;
            Some(again)
        }
    };
    Some(NewJob::again(spec, job, array))
}
