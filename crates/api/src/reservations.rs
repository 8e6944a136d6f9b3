//! Reservations, maintenance windows and drains.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use gpool_control::forecast::ForecastInput;
use gpool_model::{
    Affected, Command, DeviceUuid, DrainTarget, NodeName, Refusal, Reply, ReservationName,
};
use gpool_wire::{
    Document, DrainAnswer, DrainRequest, List, Reservation, ReserveAnswer, ReserveRequest,
    UndrainRequest,
};
use gpool_world::World;

use super::asker::Asks;
use super::audit::entered;
use super::device_list::devices_of;
use super::extract::{ApiError, JsonBody, Segment, unexpected};
use super::later;
use crate::api::Api;
use gpool_server::view::View;

/// More targets than this in one request are refused.
const TARGETS_MAX: usize = 10_000;

/// Lists reservations and maintenance windows that are not over.
#[utoipa::path(
    get, path = "/reservations", operation_id = "reservations_list",
    responses((status = 200, description = "Sorted by their next start", body = List<Reservation>))
)]
pub(crate) async fn list(State(api): State<Api>) -> Result<Json<List<Reservation>>, ApiError> {
    Ok(Json(List::new(api.handle.query(all).await?)))
}

/// All of them, by when they hold next.
pub(crate) fn all(view: &View<'_>) -> Vec<Reservation> {
    let all = view.world.reservations().values();
    let mut all: Vec<_> = all.map(|it| wire_reservation(view, it)).collect();
    all.sort_by(|one, other| (one.from, &one.name).cmp(&(other.from, &other.name)));
    all
}

/// Returns a reservation or maintenance window.
#[utoipa::path(
    get, path = "/reservations/{name}", operation_id = "reservations_get",
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "The reservation", body = Document<Reservation>),
        (status = 404, description = "There is no such reservation", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Segment(name): Segment,
) -> Result<Json<Document<Reservation>>, ApiError> {
    let name = ReservationName::new(name);
    let ask = move |view: &View<'_>| match view.world.reservations().get(&name) {
        Some(it) => Ok(wire_reservation(view, it)),
        None => Err(Refusal::NoSuchReservation {
            name,
            names: view.world.reservations().keys().take(20).cloned().collect(),
        }),
    };
    Ok(Json(Document::new(api.handle.query(ask).await??)))
}

/// Creates a reservation of devices or nodes for users, or a maintenance window. If jobs run there,
/// the request is refused unless `at_begin` says what happens to them.
#[utoipa::path(
    post, path = "/reservations", operation_id = "reservations_create",
    request_body = ReserveRequest,
    responses(
        (status = 200, description = "The reservation and the affected jobs",
         body = Document<ReserveAnswer>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It overlaps, there are too few GPUs, or it affects jobs",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<ReserveRequest>,
) -> Result<Response, ApiError> {
    let user = |name: &str| (api.handle.info().find_user)(name);
    let reservation = Box::new(asked.create(&user, &targets_of)?);
    let command = Command::Reserve { reservation, consent: asked.consent()? };
    let uid = asker.caller.owner.uid;
    let before = later::before(&api, uid).await?;
    answer(&api, uid, before, api.handle.command(asker.caller.clone(), command).await?).await
}

/// Changes a reservation.
#[utoipa::path(
    patch, path = "/reservations/{name}", operation_id = "reservations_edit",
    params(("name" = String, Path, description = "The name")),
    request_body = ReserveRequest,
    responses(
        (status = 200, description = "The reservation and the affected jobs",
         body = Document<ReserveAnswer>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such reservation", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It overlaps, there are too few GPUs, or it affects jobs",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn edit(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(asked): JsonBody<ReserveRequest>,
) -> Result<Response, ApiError> {
    let user = |name: &str| (api.handle.info().find_user)(name);
    let patch = Box::new(asked.patch(&user, &targets_of)?);
    let name = ReservationName::new(name);
    let command = Command::EditReservation { name, patch, consent: asked.consent()? };
    let uid = asker.caller.owner.uid;
    let before = later::before(&api, uid).await?;
    answer(&api, uid, before, api.handle.command(asker.caller.clone(), command).await?).await
}

/// Ends a reservation early; other jobs can use its capacity at once.
#[utoipa::path(
    delete, path = "/reservations/{name}", operation_id = "reservations_cancel",
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "The other reservations", body = List<Reservation>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such reservation", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
) -> Result<Json<List<Reservation>>, ApiError> {
    let command = Command::Unreserve { names: vec![ReservationName::new(name)] };
    api.handle.command(asker.caller.clone(), command).await?;
    list(State(api)).await
}

/// Drains nodes or devices: they get no new jobs. If jobs of other users run there, the request is
/// refused unless `at_deadline` chooses what happens to them.
#[utoipa::path(
    post, path = "/nodes/drain", operation_id = "nodes_drain_many", request_body = DrainRequest,
    responses(
        (status = 200, description = "The affected jobs", body = Document<DrainAnswer>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It affects jobs", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn drain_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<DrainRequest>,
) -> Result<Response, ApiError> {
    let targets = all_targets(&asked.targets, None)?;
    drain_these(&api, asker.caller.clone(), targets, &asked).await
}

/// Drains a node or devices of it.
#[utoipa::path(
    post, path = "/nodes/{name}/drain", operation_id = "nodes_drain", request_body = DrainRequest,
    params(("name" = String, Path, description = "The node")),
    responses(
        (status = 200, description = "The affected jobs", body = Document<DrainAnswer>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It affects jobs", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn drain(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(asked): JsonBody<DrainRequest>,
) -> Result<Response, ApiError> {
    let targets = all_targets(&asked.targets, Some(&name))?;
    drain_these(&api, asker.caller.clone(), targets, &asked).await
}

async fn drain_these(
    api: &Api,
    caller: gpool_model::Caller,
    targets: Vec<DrainTarget>,
    request: &DrainRequest,
) -> Result<Response, ApiError> {
    let drain = gpool_model::Drain {
        by: request.by.map(|by| by.0),
        at_deadline: gpool_model::Displace::LetFinish,
        reason: request.reason.as_str().into(),
        who: caller.owner.user.clone(),
        since: gpool_server::clock::now(),
    };
    let (by, reason) = (drain.by, drain.reason.clone());
    let command = Command::Drain { targets, by, reason, consent: request.consent()? };
    let uid = caller.owner.uid;
    let before = later::before(api, uid).await?;
    let reply = api.handle.command(caller, command).await?;
    let Reply::Drained(outcome) = reply else { return Err(unexpected(&reply)) };
    let mut affected = gpool_wire::Affected::from(&outcome.affected);
    let mut after = before.clone();
    later::drain(&mut after, &outcome.targets, &drain);
    affected.waiting = later::fill(api, uid, before, after, affected.waiting).await?;
    let targets = outcome.targets.iter().map(target_word).collect();
    let done = outcome.done;
    Ok(entered(Json(Document::new(DrainAnswer { targets, affected, done })), !done))
}

/// Ends the drain of nodes or devices.
#[utoipa::path(
    post, path = "/nodes/undrain", operation_id = "nodes_undrain_many",
    request_body = UndrainRequest,
    responses(
        (status = 200, description = "Done", body = Document<DrainAnswer>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "A node or GPU is not drained", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn undrain_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<UndrainRequest>,
) -> Result<Json<Document<DrainAnswer>>, ApiError> {
    let targets = all_targets(&asked.targets, None)?;
    undrain_these(&api, asker.caller.clone(), targets).await
}

/// Ends the drain of a node or of devices of it.
#[utoipa::path(
    post, path = "/nodes/{name}/undrain", operation_id = "nodes_undrain",
    request_body = UndrainRequest,
    params(("name" = String, Path, description = "The node")),
    responses(
        (status = 200, description = "Done", body = Document<DrainAnswer>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The node or GPU is not drained", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn undrain(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(asked): JsonBody<UndrainRequest>,
) -> Result<Json<Document<DrainAnswer>>, ApiError> {
    let targets = all_targets(&asked.targets, Some(&name))?;
    undrain_these(&api, asker.caller.clone(), targets).await
}

async fn undrain_these(
    api: &Api,
    caller: gpool_model::Caller,
    targets: Vec<DrainTarget>,
) -> Result<Json<Document<DrainAnswer>>, ApiError> {
    let words = targets.iter().map(target_word).collect();
    api.handle.command(caller, Command::Undrain { targets }).await?;
    let affected = (&Affected::default()).into();
    Ok(Json(Document::new(DrainAnswer { targets: words, affected, done: true })))
}

async fn answer(
    api: &Api,
    uid: u32,
    before: ForecastInput,
    reply: Reply,
) -> Result<Response, ApiError> {
    let Reply::Reserved(outcome) = reply else {
        return Err(unexpected(&reply));
    };
    let done = outcome.done;
    let mut affected = gpool_wire::Affected::from(&outcome.affected);
    let mut after = before.clone();
    later::reserve(&mut after, &outcome.reservation);
    affected.waiting = later::fill(api, uid, before, after, affected.waiting).await?;
    let ask = move |view: &View<'_>| wire_reservation(view, &outcome.reservation);
    let reservation = api.handle.query(ask).await?;
    Ok(entered(Json(Document::new(ReserveAnswer { reservation, affected, done })), !done))
}

fn wire_reservation(view: &View<'_>, it: &gpool_model::Reservation) -> Reservation {
    let find = |node: &NodeName, uuid: &DeviceUuid| found(view.world, node, uuid);
    let mut shown = Reservation::new(it, view.now, &find);
    for node in &it.what.nodes {
        if view.world.node(node).is_none() {
            shown.warnings.push(format!("there is no node {node}"));
        }
    }
    shown
}

/// Returns the index of a reserved device, and its fault if it has one.
fn found(world: &World, node: &NodeName, uuid: &DeviceUuid) -> (Option<u32>, Option<String>) {
    use gpool_world::Unusable;
    let gone = (None, Some("does not exist any more".to_owned()));
    let Some(row) = world.node(node) else { return gone };
    let Some(ix) = row.node.devices.iter().position(|device| device.uuid == *uuid) else {
        return gone;
    };
    let wrong = gpool_world::unusable(row, ix).map(|why| match why {
        Unusable::Unhealthy(_) => "is faulty",
        Unusable::Unmanaged(_) => "is in use outside gpool",
        Unusable::NotAllowed => "is closed for new jobs by an admin",
        Unusable::Drained(_) => "is drained",
        Unusable::Divided => "is divided into MIG instances",
        Unusable::Guest(_) => "is in use by a job that can't move",
    });
    (Some(row.node.devices[ix].index), wrong.map(str::to_owned))
}

/// `lab2`, or `lab1:0,2-5`.
pub fn targets_of(text: &str) -> Result<Vec<DrainTarget>, Refusal> {
    let (node, devices) = match text.split_once(':') {
        Some((node, devices)) => (node, Some(devices)),
        None => (text, None),
    };
    let invalid = |why: &str| {
        let why = format!("{why}; write, for example, lab2 or lab1:0,2-5");
        Refusal::Invalid { field: "targets".to_owned(), why }
    };
    if node.is_empty() {
        return Err(invalid("it has no node"));
    }
    let node = NodeName::new(node);
    let Some(devices) = devices else {
        return Ok(vec![DrainTarget { node, device: None }]);
    };
    let words: Vec<String> = devices.split(',').map(str::to_owned).collect();
    if words.iter().any(String::is_empty) {
        return Err(invalid("the index of a GPU is missing"));
    }
    let devices =
        devices_of(&words)?.ok_or_else(|| invalid("for the whole node, give only its name"))?;
    let of = |device| DrainTarget { node: node.clone(), device: Some(device) };
    Ok(devices.into_iter().map(of).collect())
}

/// Those that were named; below a path that names the node, devices of it.
fn all_targets(words: &[String], node: Option<&str>) -> Result<Vec<DrainTarget>, Refusal> {
    let mut targets = Vec::new();
    match node {
        Some(node) if words.is_empty() => targets.extend(targets_of(node)?),
        Some(node) => {
            for word in words {
                targets.extend(targets_of(&format!("{node}:{word}"))?);
            }
        }
        None => {
            for word in words {
                targets.extend(targets_of(word)?);
                if targets.len() > TARGETS_MAX {
                    let most = format!("{TARGETS_MAX} nodes and GPUs");
                    return Err(Refusal::TooLarge { what: "the list".to_owned(), most });
                }
            }
        }
    }
    Ok(targets)
}

/// The target as text, as `targets_of` reads it.
pub fn target_word(target: &DrainTarget) -> String {
    match &target.device {
        Some(device) => format!("{}:{device}", target.node),
        None => target.node.to_string(),
    }
}
