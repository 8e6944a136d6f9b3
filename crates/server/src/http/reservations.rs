//! Reservations, maintenance windows and drains.

use axum::Json;
use axum::extract::State;
use gpool_control::forecast::Part;
use gpool_model::{
    Affected, Command, DeviceUuid, DrainTarget, NodeName, Refusal, Reply, ReservationName,
};
use gpool_wire::{
    Document, DrainAnswer, DrainRequest, List, Problem, Reservation, ReserveAnswer, ReserveRequest,
    UndrainRequest,
};
use gpool_world::World;

use super::asker::Asks;
use super::cluster::devices_of;
use super::extract::{ApiError, JsonBody, Segment};
use super::submit::unexpected;
use super::{Api, later};
use crate::view::View;

/// More targets than this in one request are refused.
const TARGETS_MAX: usize = 10_000;

/// Every reservation and maintenance window that is not over.
#[utoipa::path(
    get, path = "/reservations", operation_id = "reservations_list",
    responses((status = 200, description = "By when they hold next", body = List<Reservation>))
)]
pub(crate) async fn list(State(api): State<Api>) -> Result<Json<List<Reservation>>, ApiError> {
    Ok(Json(List::new(api.handle.query(all).await?)))
}

/// All of them, by when they hold next.
pub(crate) fn all(view: &View<'_>) -> Vec<Reservation> {
    let all = view.world.reservations().values();
    let mut all: Vec<_> = all.map(|it| shown(view, it)).collect();
    all.sort_by(|one, other| (one.from, &one.name).cmp(&(other.from, &other.name)));
    all
}

/// One reservation or maintenance window.
#[utoipa::path(
    get, path = "/reservations/{name}", operation_id = "reservations_get",
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The reservation", body = Document<Reservation>),
        (status = 404, description = "There is none", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Segment(name): Segment,
) -> Result<Json<Document<Reservation>>, ApiError> {
    let name = ReservationName::new(name);
    let ask = move |view: &View<'_>| match view.world.reservations().get(&name) {
        Some(it) => Ok(shown(view, it)),
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
        (status = 200, description = "The reservation, and whose work it touches",
         body = Document<ReserveAnswer>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It clashes, there is not as much, or it touches the work of \
         others", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<ReserveRequest>,
) -> Result<Json<Document<ReserveAnswer>>, ApiError> {
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
    params(("name" = String, Path, description = "Its name")),
    request_body = ReserveRequest,
    responses(
        (status = 200, description = "The reservation, and whose work it touches",
         body = Document<ReserveAnswer>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It clashes, there is not as much, or it touches the work of \
         others", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn edit(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(asked): JsonBody<ReserveRequest>,
) -> Result<Json<Document<ReserveAnswer>>, ApiError> {
    let user = |name: &str| (api.handle.info().find_user)(name);
    let patch = Box::new(asked.patch(&user, &targets_of)?);
    let name = ReservationName::new(name);
    let command = Command::EditReservation { name, patch, consent: asked.consent()? };
    let uid = asker.caller.owner.uid;
    let before = later::before(&api, uid).await?;
    answer(&api, uid, before, api.handle.command(asker.caller.clone(), command).await?).await
}

/// Ends a reservation before its time; other jobs can use its capacity at once.
#[utoipa::path(
    delete, path = "/reservations/{name}", operation_id = "reservations_cancel",
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "Those that are left", body = List<Reservation>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem,
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

/// Gives nodes or devices no new work. Where the work of others is touched, nothing is done unless
/// `at_deadline` says what becomes of it.
#[utoipa::path(
    post, path = "/nodes/drain", operation_id = "nodes_drain_many", request_body = DrainRequest,
    responses(
        (status = 200, description = "Whose work it touches", body = Document<DrainAnswer>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It touches the work of others", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn drain_many(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<DrainRequest>,
) -> Result<Json<Document<DrainAnswer>>, ApiError> {
    let targets = all_targets(&asked.targets, None)?;
    drain_these(&api, asker.caller.clone(), targets, &asked).await
}

/// Gives a node, or devices of it, no new work.
#[utoipa::path(
    post, path = "/nodes/{name}/drain", operation_id = "nodes_drain", request_body = DrainRequest,
    params(("name" = String, Path, description = "The node")),
    responses(
        (status = 200, description = "Whose work it touches", body = Document<DrainAnswer>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It touches the work of others", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn drain(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(asked): JsonBody<DrainRequest>,
) -> Result<Json<Document<DrainAnswer>>, ApiError> {
    let targets = all_targets(&asked.targets, Some(&name))?;
    drain_these(&api, asker.caller.clone(), targets, &asked).await
}

async fn drain_these(
    api: &Api,
    caller: gpool_model::Caller,
    targets: Vec<DrainTarget>,
    asked: &DrainRequest,
) -> Result<Json<Document<DrainAnswer>>, ApiError> {
    let drain = gpool_model::Drain {
        by: asked.by.map(|by| by.0),
        at_deadline: gpool_model::Displace::LetFinish,
        reason: asked.reason.as_str().into(),
        who: caller.owner.user.clone(),
        since: crate::clock::now(),
    };
    let (by, reason) = (drain.by, drain.reason.clone());
    let command = Command::Drain { targets, by, reason, consent: asked.consent()? };
    let uid = caller.owner.uid;
    let before = later::before(api, uid).await?;
    let reply = api.handle.command(caller, command).await?;
    let Reply::Drained(outcome) = reply else { return Err(unexpected(&reply)) };
    let mut affected = gpool_wire::Affected::from(&outcome.affected);
    let mut after = before.clone();
    later::drain(&mut after, &outcome.targets, &drain);
    affected.waiting = later::fill(api, uid, before, after, affected.waiting).await?;
    let targets = outcome.targets.iter().map(target_word).collect();
    Ok(Json(Document::new(DrainAnswer { targets, affected, done: outcome.done })))
}

/// Gives nodes or devices work again.
#[utoipa::path(
    post, path = "/nodes/undrain", operation_id = "nodes_undrain_many",
    request_body = UndrainRequest,
    responses(
        (status = 200, description = "It was done", body = Document<DrainAnswer>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "One is not drained", body = Problem,
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

/// Gives a node, or devices of it, work again.
#[utoipa::path(
    post, path = "/nodes/{name}/undrain", operation_id = "nodes_undrain",
    request_body = UndrainRequest,
    params(("name" = String, Path, description = "The node")),
    responses(
        (status = 200, description = "It was done", body = Document<DrainAnswer>),
        (status = 403, description = "Only admins may", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node or device", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "It is not drained", body = Problem,
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
    before: Part,
    reply: Reply,
) -> Result<Json<Document<ReserveAnswer>>, ApiError> {
    let Reply::Reserved(outcome) = reply else {
        return Err(unexpected(&reply));
    };
    let done = outcome.done;
    let mut affected = gpool_wire::Affected::from(&outcome.affected);
    let mut after = before.clone();
    later::reserve(&mut after, &outcome.reservation);
    affected.waiting = later::fill(api, uid, before, after, affected.waiting).await?;
    let ask = move |view: &View<'_>| shown(view, &outcome.reservation);
    let reservation = api.handle.query(ask).await?;
    Ok(Json(Document::new(ReserveAnswer { reservation, affected, done })))
}

fn shown(view: &View<'_>, it: &gpool_model::Reservation) -> Reservation {
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
    use gpool_sched::Unusable;
    let gone = (None, Some("is not there any more".to_owned()));
    let Some(row) = world.node(node) else { return gone };
    let Some(ix) = row.node.devices.iter().position(|device| device.uuid == *uuid) else {
        return gone;
    };
    let wrong = gpool_sched::unusable(row, ix).map(|why| match why {
        Unusable::Unhealthy(_) => "can't be used: it is faulty",
        Unusable::Unmanaged(_) => "is used outside gpool",
        Unusable::NotAllowed => "is kept from new work by an admin",
        Unusable::Drained(_) => "is drained",
        Unusable::Divided => "is divided into MIG instances",
    });
    (Some(row.node.devices[ix].index), wrong.map(str::to_owned))
}

/// `lab2`, or `lab1:0,2-5`.
fn targets_of(text: &str) -> Result<Vec<DrainTarget>, Refusal> {
    let (node, devices) = match text.split_once(':') {
        Some((node, devices)) => (node, Some(devices)),
        None => (text, None),
    };
    let invalid = |why: &str| {
        let why = format!("{why}; write, for example, lab2 or lab1:0,2-5");
        Refusal::Invalid { field: "targets".to_owned(), why }
    };
    if node.is_empty() {
        return Err(invalid("it names no node"));
    }
    let node = NodeName::new(node);
    let Some(devices) = devices else {
        return Ok(vec![DrainTarget { node, device: None }]);
    };
    let words: Vec<String> = devices.split(',').map(str::to_owned).collect();
    if words.iter().any(String::is_empty) {
        return Err(invalid("a GPU is missing"));
    }
    let devices =
        devices_of(&words)?.ok_or_else(|| invalid("name the node alone for all of it"))?;
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

fn target_word(target: &DrainTarget) -> String {
    match &target.device {
        Some(device) => format!("{}:{device}", target.node),
        None => target.node.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_nodes_or_devices_of_them() {
        let words = |text: &str| -> Vec<String> {
            targets_of(text).expect(text).iter().map(target_word).collect()
        };
        assert_eq!(words("lab2"), ["lab2"]);
        assert_eq!(words("lab1:0,2-3"), ["lab1:0", "lab1:2", "lab1:3"]);
        for wrong in ["", ":0", "lab1:", "lab1:0,,1", "lab1:all", "lab1:3-1"] {
            assert!(targets_of(wrong).is_err(), "{wrong}");
        }
    }
}
