//! MIG instances by demand: carries out the plans of `gpool_sched::mig_plan` through the agents.
//! Nothing is stored: after a crash, the next plan starts from the instances that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::{DeviceUuid, NodeName, PoolName, Refusal};
use gpool_protocol::{Answer, Question};
use gpool_sched::mig_plan::{self, MigStep};

use crate::agents::Reply;
use crate::fault::internal;
use crate::handle::{Age, CoreHandle};
use crate::view::View;

/// How long an agent may take; longer than it waits for the driver.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two rounds.
const ROUND: Duration = Duration::from_secs(1);
/// How long a device is left alone after a failed change.
const REST: Duration = Duration::from_secs(60);

/// Makes planned changes for as long as the server runs.
pub async fn keep(handle: CoreHandle) {
    let mut failed = BTreeMap::<DeviceUuid, Instant>::new();
    // The last new instance. Until the state has it, a plan would create another one.
    let mut awaited: Option<(DeviceUuid, Instant)> = None;
    loop {
        tokio::time::sleep(ROUND).await;
        failed.retain(|_, at| at.elapsed() < REST);
        if let Some((instance, since)) = awaited.take_if(|(_, since)| since.elapsed() < REST)
            && !matches!(is_known(&handle, instance.clone()).await, Ok(true))
        {
            awaited = Some((instance, since));
            continue;
        }
        match planned(&handle, None, failed.keys().cloned().collect()).await {
            Ok(steps) => {
                let created = to_next_instance(&handle, steps, &mut failed).await;
                awaited = created.map(|instance| (instance, Instant::now()));
            }
            Err(Refusal::ShuttingDown) => return,
            Err(refusal) => tracing::warn!(?refusal, "can't plan MIG instances"),
        }
    }
}

/// Whether the state has an instance.
async fn is_known(handle: &CoreHandle, instance: DeviceUuid) -> Result<bool, Refusal> {
    let look = move |view: &View<'_>| {
        let mut devices = view.world.nodes().iter().flat_map(|row| &row.node.devices);
        devices.any(|device| device.uuid == instance)
    };
    handle.query(look).await
}

/// Plans one round: for this pool, or for the pools with the setting `mig_auto`. Devices of
/// `except` stay as they are.
///
/// # Errors
/// If the server is stopping, or a commit failed.
pub async fn planned(
    handle: &CoreHandle,
    pool: Option<PoolName>,
    except: BTreeSet<DeviceUuid>,
) -> Result<Vec<MigStep>, Refusal> {
    let is_any = pool.is_some();
    let is_asked = move |view: &View<'_>| {
        (is_any || view.world.policy().all().any(|policy| policy.mig_auto))
            && !mig_plan::waiting(view.world).is_empty()
    };
    // Most servers never need a copy of the state for this.
    if !handle.query(is_asked).await? {
        return Ok(Vec::new());
    }
    let look = move |view: &View<'_>| {
        let explainer = view.explainer();
        let lacks = |row| explainer.briefly(row).first().is_some_and(mig_plan::lacks_instances);
        let mut waiting = mig_plan::waiting(view.world);
        waiting.retain(|job| view.world.job(*job).is_some_and(lacks));
        let is_auto = |of: &PoolName| match &pool {
            Some(pool) => of == pool,
            None => view.world.makes_instances(of),
        };
        mig_plan::plan(view.world, &waiting, &is_auto, &except)
    };
    handle.look(handle.info().uid, Age::New, look).await
}

/// Carries out a plan up to its first new instance, which it returns: that may start a job that the
/// rest of the plan did not expect.
async fn to_next_instance(
    handle: &CoreHandle,
    steps: Vec<MigStep>,
    failed: &mut BTreeMap<DeviceUuid, Instant>,
) -> Option<DeviceUuid> {
    for step in steps {
        let (node, gpu, profile, job) = (&step.node, step.gpu, &step.profile, step.job);
        let change = format!("{:?}", step.change);
        tracing::info!(target: "audit", %node, gpu, change, %job, "change MIG instances by demand");
        let why = match ask(handle, node, Some(step.change)).await {
            Ok(Ok(report)) if report.created.is_some() => return report.created,
            Ok(Ok(_)) => continue,
            // A job came first; the next plan is without the instance.
            Ok(Err(MigError::HasTask { .. })) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(refusal) => format!("{refusal:?}"),
        };
        tracing::warn!(%node, gpu, profile, %job, why, "can't change MIG instances");
        failed.insert(step.device, Instant::now());
        return None;
    }
    None
}

/// Has the agent of a node list or change its instances.
///
/// # Errors
/// If no agent of this process has the node.
pub async fn ask(
    handle: &CoreHandle,
    node: &NodeName,
    change: Option<MigChange>,
) -> Result<Result<MigReport, MigError>, Refusal> {
    let agent = handle.agent(node);
    let agent = agent.ok_or_else(|| internal(format!("node {node} has no agent here")))?;
    // If the caller has gone, the change is made all the same.
    match agent.ask(Question::MigInstances { change }, PATIENCE).await {
        Some(Reply::Answer(Answer::MigInstances(report))) => Ok(Ok(report)),
        Some(Reply::Answer(Answer::MigRefused(error))) => Ok(Err(error)),
        _ => {
            let why = "its agent does not answer; gpool mig list shows whether it was done";
            Ok(Err(MigError::Driver { why: why.to_owned() }))
        }
    }
}
