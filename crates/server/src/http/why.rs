//! Why a job waits, with what each node has for it.

use axum::Json;
use axum::extract::State;
use gpool_model::{JobId, JobSpec, Reason};
use gpool_wire::gpu::state_of;
use gpool_wire::{Document, Problem, Time, Why, WhyDevice, WhyNode};
use gpool_world::{JobRow, NodeRow, World};

use super::Api;
use super::asker::Asks;
use super::extract::{ApiError, Segment, job_id};
use super::jobs::{self, Found};
use crate::handle::View;

/// Explains why a job waits: every reason, the decisive ones first, and what each node has for it.
#[utoipa::path(
    get, path = "/jobs/{id}/why", operation_id = "jobs_why",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The reasons; none for a job that does not wait",
         body = Document<Why>),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<Document<Why>>, ApiError> {
    let id = job_id(&id)?;
    let now = crate::core::now();
    let answer = match api.handle.query(move |view| explained(view, id)).await? {
        Some(Explained { found, reasons, nodes }) => {
            Why { reasons, nodes, ..Why::of(found.shown(&asker, now), Time(now)) }
        }
        None => Why::of(jobs::find(&api, id).await?.shown(&asker, now), Time(now)),
    };
    Ok(Json(Document::new(answer)))
}

struct Explained {
    found: Found,
    reasons: Vec<gpool_wire::Reason>,
    nodes: Vec<WhyNode>,
}

fn explained(view: &View<'_>, id: JobId) -> Option<Explained> {
    let row = view.world.job(id)?;
    let mut explainer = view.explainer();
    let decisive = explainer.briefly(row);
    let all = explainer.fully(row);
    let blocking = |reason: &Reason| match reason {
        // Nothing else keeps it: those before it take what there is.
        Reason::AheadInOrder { .. } => decisive.is_empty(),
        other => decisive.contains(other),
    };
    let reasons =
        all.iter().map(|reason| gpool_wire::Reason::new(reason, blocking(reason))).collect();
    let nodes = if all.is_empty() { Vec::new() } else { nodes(view.world, row) };
    let found = Found { spec: row.spec.clone(), job: row.job.clone(), reasons: decisive };
    Some(Explained { found, reasons, nodes })
}

fn nodes(world: &World, waiting: &JobRow) -> Vec<WhyNode> {
    let of_node = |node: &NodeRow| {
        let devices: Vec<WhyDevice> =
            (0..node.node.devices.len()).map(|ix| device(world, node, ix, &waiting.spec)).collect();
        let matching = devices.iter().filter(|device| device.matches);
        let free = matching.clone().filter(|device| device.state == gpool_model::DeviceState::Free);
        WhyNode {
            name: node.node.name.to_string(),
            connected: node.node.connected,
            n_matching: count(matching.count()),
            n_free: count(free.count()),
            devices,
        }
    };
    world.nodes_by_name().map(|(_, node)| of_node(node)).collect()
}

fn device(world: &World, node: &NodeRow, device_ix: usize, spec: &JobSpec) -> WhyDevice {
    let device = &node.node.devices[device_ix];
    let holder = node.devices[device_ix].holders.first().map(|task| task.job);
    let user = holder.and_then(|job| world.job(job)).map(|row| row.spec.owner.user.to_string());
    let stranger = || device.unmanaged.first().and_then(|process| process.user.clone());
    WhyDevice {
        index: device.index,
        model: gpool_model::gpu::short_model(&device.model),
        state: state_of(device, node.node.allows(&device.uuid), holder.is_some()),
        matches: !spec.gpus.is_none() && spec.gpus.rank_of(device).is_some(),
        job: holder.map(|job| job.to_string()),
        user: user.or_else(stranger),
        until: None,
        until_by: None,
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
