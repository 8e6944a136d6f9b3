//! MIG instances of GPUs: listed, created and destroyed by admins. The agents carry it out; the
//! state machine learns the result from their next inventories.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use gpool_model::escape::repeated;
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::{DeviceUuid, NodeName, PoolName, Refusal};
use gpool_sched::mig_plan;
use gpool_wire::{
    Document, Gpu, List, MigAnswer, MigInstance, MigProfile, MigRequest, MigStep, Problem,
    catalogue, check,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::Asks;
use super::audit::without_entry;
use super::cluster::all_gpus;
use super::extract::{ApiError, JsonBody, Params};
use crate::api::Api;
use gpool_server::controllers::{self, ask};
use gpool_server::view::View;

/// Lists MIG profiles and instances, and creates or destroys an instance first if asked to. GPUs
/// without MIG mode are not listed.
#[utoipa::path(
    post, path = "/mig", operation_id = "mig", request_body = MigRequest,
    responses(
        (status = 200, description = "Sorted by node and GPU", body = Document<MigAnswer>),
        (status = 403, description = "Only for admins", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such device or node", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The instance is in use, or the GPU has no room for it",
         body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn mig(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<MigRequest>,
) -> Result<Response, ApiError> {
    let uid = asker.caller.owner.uid;
    let gpus = all_gpus(&api, uid).await?;
    let change = match (&asked.create, &asked.destroy) {
        (Some(_), Some(_)) => {
            let why = "give either create or destroy".to_owned();
            return Err(Refusal::Invalid { field: "destroy".to_owned(), why }.into());
        }
        (Some(create), None) => {
            let gpu = find(&gpus, "gpu", &create.gpu)?;
            let (device, profile) = (DeviceUuid::new(&gpu.uuid), create.profile.clone());
            Some((gpu, MigChange::Create { device, profile }))
        }
        (None, Some(instance)) => {
            let gpu = find(&gpus, "destroy", instance)?;
            Some((gpu, MigChange::Destroy { instance: check_unused(gpu)? }))
        }
        (None, None) => None,
    };
    let Some((gpu, change)) = change else {
        return Ok(without_entry(list(&api, &gpus, asked.node.as_deref()).await?));
    };
    let (by, what) = (&*asker.caller.owner.user, format!("{change:?}"));
    tracing::info!(target: "audit", by, node = gpu.node, change = what, "change MIG instances");
    let node = NodeName::new(&gpu.node);
    let report = ask(&api.handle, &node, Some(change)).await?;
    let report = report.map_err(|error| refused(gpu, &error))?;
    let created = report.created.clone();
    let profiles = profiles(&node, &report, &gpus);
    let is_new = |it: &&MigInstance| it.uuid.as_deref() == created.as_ref().map(|it| it.as_str());
    let all = profiles.iter().flat_map(|profile| &profile.instances);
    let created = created.as_ref().and_then(|_| all.into_iter().find(is_new).cloned());
    Ok(Json(Document::new(MigAnswer { created, profiles })).into_response())
}

async fn list(
    api: &Api,
    gpus: &[Gpu],
    node: Option<&str>,
) -> Result<Json<Document<MigAnswer>>, ApiError> {
    let agents = api.handle.agents();
    let agents: Vec<NodeName> = agents.iter().map(|agent| agent.node().clone()).collect();
    if let Some(node) = node.filter(|node| agents.iter().all(|it| it.as_str() != *node)) {
        return Err(Refusal::NoSuchNode { name: NodeName::new(node) }.into());
    }
    let mut answer = MigAnswer::default();
    for name in agents.iter().filter(|name| node.is_none_or(|node| node == name.as_str())) {
        let has_mig = |gpu: &Gpu| {
            gpu.node == name.as_str() && gpu.mig.as_ref().is_some_and(|mig| mig.enabled)
        };
        if !gpus.iter().any(has_mig) {
            continue;
        }
        let report = ask(&api.handle, name, None).await?;
        let report = report.map_err(|error| {
            let what = format!("can't list the MIG instances of node {name}: {error}");
            Problem::new(catalogue::MIG_REFUSED, what)
        })?;
        answer.profiles.extend(profiles(name, &report, gpus));
    }
    Ok(Json(Document::new(answer)))
}

fn profiles(node: &NodeName, report: &MigReport, gpus: &[Gpu]) -> Vec<MigProfile> {
    report.devices.iter().flat_map(|it| MigProfile::of(node.as_str(), it, gpus)).collect()
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PlanParams {
    /// Only this pool, as if its setting `mig_auto` were on. Default: the pools with that setting.
    pub pool: Option<String>,
}

/// Lists the changes of MIG instances that waiting jobs need. The server makes them in pools with
/// the setting `mig_auto`.
#[utoipa::path(
    get, path = "/mig/plan", operation_id = "mig_plan", params(PlanParams),
    responses(
        (status = 200, description = "In the order of execution", body = List<MigStep>),
        (status = 404, description = "There is no such pool", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn plan(
    State(api): State<Api>,
    Params(params): Params<PlanParams>,
) -> Result<Json<List<MigStep>>, ApiError> {
    let pool = params.pool.as_deref().map(check::pool).transpose()?;
    if let Some(name) = pool.clone() {
        let pools = |view: &View<'_>| {
            let of_nodes = view.world.nodes().iter().map(|row| row.node.pool.clone());
            of_nodes.collect::<BTreeSet<PoolName>>()
        };
        let pools = api.handle.query(pools).await?;
        if !pools.contains(&name) {
            let pools = pools.into_iter().collect();
            return Err(Refusal::NoSuchPool { name, pools }.into());
        }
    }
    let steps = controllers::mig_steps(&api.handle, pool).await?;
    Ok(Json(List::new(steps.into_iter().map(mig_step).collect())))
}

fn mig_step(step: mig_plan::MigStep) -> MigStep {
    let change = match step.change {
        MigChange::Create { .. } => "create",
        MigChange::Destroy { .. } => "destroy",
    };
    MigStep {
        node: step.node.to_string(),
        pool: step.pool.to_string(),
        gpu: step.gpu,
        gpu_uuid: step.device.to_string(),
        change: change.to_owned(),
        profile: step.profile,
        instance: step.instance,
        job: step.job.to_string(),
    }
}

/// Finds a device by `INDEX`, `NODE:INDEX` or UUID.
fn find<'a>(gpus: &'a [Gpu], field: &str, text: &str) -> Result<&'a Gpu, ApiError> {
    let (node, device) = match text.split_once(':') {
        Some((node, device)) => (Some(node), device),
        None => (None, text),
    };
    let is_it = |gpu: &&Gpu| {
        node.is_none_or(|node| gpu.node == node)
            && (gpu.uuid == device || gpu.index.to_string() == device)
    };
    let found: Vec<&Gpu> = gpus.iter().filter(is_it).collect();
    match &found[..] {
        [gpu] => Ok(gpu),
        [] => {
            let what = format!("there is no GPU {:?}", repeated(text));
            Err(Problem::new(catalogue::NO_SUCH_DEVICE, what).try_this("gpool gpus").into())
        }
        [first, ..] => {
            let why = format!("several nodes have it; write {}:{device}", first.node);
            Err(Refusal::Invalid { field: field.to_owned(), why }.into())
        }
    }
}

/// An instance that no job has.
fn check_unused(gpu: &Gpu) -> Result<DeviceUuid, ApiError> {
    if gpu.part_of.is_none() {
        let what = format!("GPU {} of {} is not a MIG instance", gpu.index, gpu.node);
        let problem = Problem::new(catalogue::MIG_REFUSED, what);
        return Err(problem.try_this("gpool mig list").into());
    }
    if let (Some(job), Some(user)) = (&gpu.job, &gpu.user) {
        let what = format!("can't destroy MIG instance {} of {}", gpu.index, gpu.node);
        let problem = Problem::new(catalogue::MIG_REFUSED, what);
        let problem = problem.because(format!("job {job} of {user} has it"));
        return Err(problem.try_this(format!("gpool wait {job}")).into());
    }
    Ok(DeviceUuid::new(&gpu.uuid))
}

fn refused(gpu: &Gpu, error: &MigError) -> Problem {
    let what = match gpu.part_of {
        Some(_) => format!("can't destroy MIG instance {} of {}", gpu.index, gpu.node),
        None => format!("can't create a MIG instance on GPU {} of {}", gpu.index, gpu.node),
    };
    let problem = Problem::new(catalogue::MIG_REFUSED, what).because(error.to_string());
    match error {
        MigError::IsOff => problem.try_this(format!("nvidia-smi -i {} -mig 1", gpu.index)),
        MigError::HasTask { task } => problem.try_this(format!("gpool wait {}", task.job)),
        MigError::HasProcess { pid, .. } => problem.try_this(format!("end process {pid}")),
        MigError::NoSuchProfile { .. }
        | MigError::NoRoom { .. }
        | MigError::NoSuchDevice
        | MigError::Driver { .. } => problem.try_this("gpool mig list"),
    }
}
