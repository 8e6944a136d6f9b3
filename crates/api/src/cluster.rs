//! Routes of devices, nodes, policy, and the server itself.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use gpool_model::device::Lending;
use gpool_model::{Bytes, Command, NodeName, Refusal};
use gpool_wire::gpu::{HeldBy, Occupancy, Restrictions};
use gpool_wire::node::InUse;
use gpool_wire::reservation::{Drain, ReservedHere};
use gpool_wire::{
    AllowDevices, Document, Gpu, List, Node, NotifyCounts, PolicyInfo, Shutdown, Status, Time,
    Version, device_words,
};
use gpool_world::{NodeRow, World};

use super::asker::Asks;
use super::device_list::devices_of;
use super::extract::{ApiError, JsonBody, Segment, accepted};
use super::listing::n_ended;
use super::movable::Shares;
use super::reservations;
use crate::api::Api;
use gpool_server::clock::now;
use gpool_server::handle::{Age, StopRequest};
use gpool_server::listeners::Which;
use gpool_server::view::View;

/// Lists all devices, with their states and jobs.
#[utoipa::path(
    get, path = "/gpus", operation_id = "gpus_list",
    responses((status = 200, description = "Sorted by node and index", body = List<Gpu>))
)]
pub(crate) async fn gpus(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<List<Gpu>>, ApiError> {
    let gpus = all_gpus(&api, asker.caller.owner.uid).await;
    gpus.map(|gpus| Json(List::new(gpus))).map_err(ApiError::from)
}

pub(crate) async fn all_gpus(api: &Api, uid: u32) -> Result<Vec<Gpu>, Refusal> {
    let devices = api.handle.look(uid, Age::New, |view| {
        let of_node = |row: &NodeRow| {
            let devices = 0..row.node.devices.len();
            let shares = Shares::of(view.world, row);
            let held = devices.map(|ix| held(view.world, (row, &shares), ix));
            let held: Vec<Occupancy> = held.collect();
            let kept: Vec<Restrictions> =
                row.node.devices.iter().map(|device| restrictions(view, row, device)).collect();
            (row.node.clone(), held, kept)
        };
        view.world.nodes_by_name().map(|(_, row)| of_node(row)).collect::<Vec<_>>()
    });
    let (samples, mut lending) = (api.handle.samples(), api.handle.lending());
    let mut gpus = Vec::new();
    for (node, held, kept) in devices.await? {
        for ((device, mut held), kept) in node.devices.iter().zip(held).zip(kept) {
            held.lending = lending.remove(&device.uuid).unwrap_or_default();
            let sample = samples.get(&device.uuid).cloned().unwrap_or_default();
            gpus.push(Gpu::new(&node, device, kept, sample, &held));
        }
    }
    Ok(gpus)
}

fn restrictions(view: &View<'_>, row: &NodeRow, device: &gpool_model::Device) -> Restrictions {
    let name = &row.node.name;
    let keeps = |it: &&gpool_model::Reservation| it.what.has_device(name, &device.uuid);
    Restrictions {
        allowed: row.node.allows(&device.uuid),
        drain: row.node.drain_of(&device.uuid).map(Drain::from),
        reservations: reserved_here(view, keeps),
    }
}

/// Returns the matching reservations, current and earliest first.
fn reserved_here(
    view: &View<'_>,
    keeps: impl Fn(&&gpool_model::Reservation) -> bool,
) -> Vec<ReservedHere> {
    let all = view.world.reservations().values().filter(keeps);
    let mut here: Vec<_> = all.map(|it| ReservedHere::new(it, view.now)).collect();
    here.sort_by(|one, other| (one.from, &one.name).cmp(&(other.from, &other.name)));
    here
}

fn held(world: &World, (row, shares): (&NodeRow, &Shares<'_>), device_ix: usize) -> Occupancy {
    let device = &row.node.devices[device_ix].uuid;
    let by = row.devices[device_ix].holders.iter().filter_map(|task| {
        let job = world.job(task.job)?;
        let mut allocations = job.job.phase.allocations().iter();
        let allocation = allocations.find(|allocation| allocation.task == *task)?;
        let slot = allocation.slots.iter().find(|slot| slot.device == *device)?;
        let (user, project) = (job.spec.owner.user.to_string(), job.spec.project.to_string());
        let stays = shares.why_not(*task, device).map(str::to_owned);
        Some(HeldBy { task: *task, user, project, part: slot.part, stays })
    });
    let lending = Lending::default();
    Occupancy { by: by.collect(), free_memory: row.free_memory(device_ix), lending }
}

/// Sets the devices of a node that new allocations may use. Running jobs keep their devices.
#[utoipa::path(
    post, path = "/gpus/allow", operation_id = "gpus_allow", request_body = AllowDevices,
    responses(
        (status = 200, description = "All devices after the change", body = List<Gpu>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such device or node", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn allow(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(allow): JsonBody<AllowDevices>,
) -> Result<Json<List<Gpu>>, ApiError> {
    let node = match allow.node {
        Some(name) => NodeName::new(name),
        None => only_node(&api).await?,
    };
    let devices = devices_of(&allow.devices)?;
    let command = Command::AllowDevices { node, devices };
    api.handle.command(asker.caller.clone(), command).await?;
    gpus(State(api), Asks(asker)).await
}

async fn only_node(api: &Api) -> Result<NodeName, Refusal> {
    let names = |view: &View<'_>| {
        view.world.nodes_by_name().map(|(_, row)| row.node.name.clone()).collect::<Vec<_>>()
    };
    let mut names = api.handle.query(names).await?;
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => {
            let why = "there are several nodes; give one".to_owned();
            Err(Refusal::Invalid { field: "node".to_owned(), why })
        }
    }
}

/// Lists all nodes.
#[utoipa::path(
    get, path = "/nodes", operation_id = "nodes_list",
    responses((status = 200, description = "By name", body = List<Node>))
)]
pub(crate) async fn nodes(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<List<Node>>, ApiError> {
    Ok(Json(List::new(all_nodes(&api, asker.caller.owner.uid).await?)))
}

pub(crate) async fn all_nodes(api: &Api, uid: u32) -> Result<Vec<Node>, Refusal> {
    let ask = |view: &View<'_>| {
        view.world.nodes_by_name().map(|(_, row)| wire_node(view, row)).collect::<Vec<_>>()
    };
    let mut nodes = api.handle.look(uid, Age::New, ask).await?;
    nodes.iter_mut().for_each(|node| add_agent(api, node));
    Ok(nodes)
}

/// Adds the present values of the node's agent.
fn add_agent(api: &Api, node: &mut Node) {
    let Some(agent) = api.handle.agent(&NodeName::new(&node.name)) else { return };
    let view = agent.view(now());
    node.last_message_at = view.last_message_at.map(Time);
    node.clock_offset_ms = view.clock_offset_ms;
    node.agent_cpu_percent = view.cpu_percent;
    node.agent_memory = view.memory.map(Bytes::get);
    node.agent_refusal = view.refusal;
}

/// Returns one node.
#[utoipa::path(
    get, path = "/nodes/{name}", operation_id = "nodes_get",
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "The node", body = Document<Node>),
        (status = 404, description = "There is no such node", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn node(
    State(api): State<Api>,
    Segment(name): Segment,
) -> Result<Json<Document<Node>>, ApiError> {
    let name = NodeName::new(name);
    let asked = name.clone();
    let found = api
        .handle
        .query(move |view| view.world.node(&asked).map(|row| wire_node(view, row)))
        .await?;
    match found {
        Some(mut node) => {
            add_agent(&api, &mut node);
            Ok(Json(Document::new(node)))
        }
        None => Err(Refusal::NoSuchNode { name }.into()),
    }
}

fn wire_node(view: &View<'_>, row: &NodeRow) -> Node {
    let n_in = |state| {
        let all = (0..row.devices.len()).filter(|ix| state_at(row, *ix) == state);
        u32::try_from(all.count()).unwrap_or(u32::MAX)
    };
    let in_use = InUse {
        n_gpus_free: n_in(gpool_model::DeviceState::Free),
        n_gpus_closed: n_in(gpool_model::DeviceState::NotAllowed),
        reservations: reserved_here(view, |it| it.what.touches(&row.node.name)),
        booked: row.node.capacity.checked_sub(&row.free_now()).unwrap_or_default(),
    };
    Node::new(&row.node, &in_use)
}

pub(crate) fn state_at(row: &NodeRow, device_ix: usize) -> gpool_model::DeviceState {
    let device = &row.node.devices[device_ix];
    gpool_wire::gpu::state_of(&row.node, device, &row.devices[device_ix].holders)
}

/// Returns the name and version of the server.
#[utoipa::path(
    get, path = "/version", operation_id = "version",
    responses((status = 200, description = "The version", body = Document<Version>))
)]
pub(crate) async fn version(State(api): State<Api>) -> Json<Document<Version>> {
    let version = api.handle.info().version.to_owned();
    let name = "gpool".to_owned();
    Json(Document::new(Version { name, version, pid: std::process::id() }))
}

/// Returns an overview of the server and its cluster.
#[utoipa::path(
    get, path = "/status", operation_id = "status",
    responses((status = 200, description = "The status", body = Document<Status>))
)]
pub(crate) async fn status(State(api): State<Api>) -> Result<Json<Document<Status>>, ApiError> {
    let info = api.handle.info();
    let (version, socket) = (info.version.to_owned(), info.socket.display().to_string());
    let (state_dir, started_at) = (info.state_dir.display().to_string(), info.started_at);
    let (user, mail) = (api.user.to_string(), info.mail.can_send());
    let usage_fault = api.handle.shared.insight.usage.fault();
    let web = api.handle.shared.identities.web.get().map(|web| web.url());
    let listeners = &api.handle.shared.listeners;
    let web_fault = listeners.fault(Which::Dashboard);
    let network_fault = listeners.fault(Which::Network);
    let lacking = gpool_server::environments::lacking(&api.handle).await?;
    let ask = move |view: &View<'_>| {
        let world = view.world;
        let rows = || world.nodes_by_name().map(|(_, row)| row);
        Status {
            version,
            pid: std::process::id(),
            user,
            socket,
            web,
            web_fault,
            network_fault,
            state_dir,
            term: world.cluster().term.0,
            revision: world.revision().0,
            started_at: Time(started_at),
            uptime_s: view.now.since(started_at).get() / 1000,
            jobs: n_jobs(world),
            jobs_ended: n_ended(view),
            gpus: n_gpus(world),
            nodes: rows().count() as u64,
            nodes_connected: rows().filter(|row| row.node.is_reachable()).count() as u64,
            policy: PolicyInfo::from(world.policy()),
            store_fault: view.store_fault.map(ToString::to_string),
            usage_fault,
            lacking,
            notifications: notify_counts(world),
            mail,
            reservations: reservations::all(view),
        }
    };
    let status = api.handle.query(ask).await?;
    Ok(Json(Document::new(status)))
}

/// Returns the counts of messages about jobs.
pub(crate) fn notify_counts(world: &World) -> NotifyCounts {
    let counts = world.cluster().deliveries;
    NotifyCounts {
        waiting: world.outbox().n_waiting() as u64,
        taken: counts.n_taken,
        given_up: counts.n_given_up,
        dropped: counts.n_dropped,
    }
}

fn n_jobs(world: &World) -> BTreeMap<String, u64> {
    let counted = world.n_by_state().iter().filter(|(_, n_jobs)| **n_jobs > 0);
    counted.map(|(state, n_jobs)| (state.as_str().to_owned(), *n_jobs)).collect()
}

fn n_gpus(world: &World) -> BTreeMap<String, u64> {
    let mut n_by_state = BTreeMap::new();
    for (_, row) in world.nodes_by_name() {
        for ix in 0..row.devices.len() {
            let word = device_words::device_state_word(state_at(row, ix)).to_owned();
            *n_by_state.entry(word).or_default() += 1;
        }
    }
    n_by_state
}

/// Stops the server. Running jobs continue, unless `now` is true, which ends all jobs first.
#[utoipa::path(
    post, path = "/shutdown", operation_id = "shutdown", request_body = Shutdown,
    responses(
        (status = 202, description = "The server is stopping"),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn shutdown(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(Shutdown { now }): JsonBody<Shutdown>,
) -> Result<Response, ApiError> {
    let request = if now { StopRequest::EndJobs } else { StopRequest::LeaveJobs };
    tracing::info!(user = %asker.caller.owner.user, now, "stop requested");
    api.handle.stop(request);
    Ok(accepted())
}
