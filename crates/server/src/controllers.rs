//! Runs controllers: gives them their facts, and carries out their acts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_control::controller::{self, Act, Controller, Look, MigController, Needs, Next, Outcome};
use gpool_model::budget::{MonthSpending, Overspent};
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::{Command, NodeName, PoolName, Refusal};
use gpool_protocol::{Answer, Question};
use gpool_sched::mig_plan::{self, MigStep};

use crate::agents::Reply;
use crate::budgets::spending;
use crate::fault::internal;
use crate::handle::{Age, CoreHandle, server_itself};
use crate::view::View;

/// How long an agent may take to change instances; longer than it waits for the driver.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two rounds for MIG instances.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes MIG instances by demand until the server stops.
pub async fn keep_instances(handle: CoreHandle) {
    let began = Instant::now();
    let mut controller = MigController::default();
    loop {
        tokio::time::sleep(PAUSE).await;
        match round(&handle, &mut controller, began).await {
            Ok(()) => {}
            Err(Refusal::ShuttingDown) => return,
            Err(refusal) => tracing::warn!(?refusal, "can't plan MIG instances"),
        }
    }
}

/// Runs a round of a controller that began to run at that time.
///
/// # Errors
/// The history can't be read, a commit failed, or the server is stopping.
pub async fn round<C: Controller>(
    handle: &CoreHandle,
    controller: &mut C,
    began: Instant,
) -> Result<(), Refusal> {
    let ask = |view: &View<'_>| {
        let needs = C::needs(view.world);
        let of_costs = (needs == Needs::Costs)
            .then(|| (view.world.policy().clone(), view.world.projects().clone()));
        (needs, of_costs)
    };
    let (needs, of_costs) = handle.query(ask).await?;
    let uid = handle.info().uid;
    let costs: Vec<MonthSpending> = match of_costs {
        Some((policy, projects)) => {
            let shared = Arc::clone(&handle.shared);
            let read = move || spending(&shared.insight.usage, &policy, &projects);
            handle.run_slow(uid, read).await?
        }
        None => Vec::new(),
    };
    let mut planner = controller.clone();
    let look = move |view: &View<'_>| {
        let explainer = &view.explainer();
        let look = Look { world: view.world, explainer, costs: &costs, uptime: began.elapsed() };
        let acts = planner.round(&look);
        (planner, acts)
    };
    let acts;
    (*controller, acts) = match needs {
        Needs::Nothing => return Ok(()),
        Needs::State | Needs::Costs => handle.query(look).await?,
        Needs::Reasons => handle.look(uid, Age::New, look).await?,
    };
    for act in acts {
        let outcome = carry_out(handle, &act).await?;
        if controller.note(&act, &outcome, began.elapsed()) == Next::Round {
            break;
        }
    }
    Ok(())
}

/// Carries out an act.
///
/// # Errors
/// A command was refused, or the server is stopping.
async fn carry_out(handle: &CoreHandle, act: &Act) -> Result<Outcome, Refusal> {
    match act {
        Act::Command(command) => {
            if let Command::SetOverspent { all } = &**command {
                for Overspent { payer, spent, budget, .. } in all {
                    tracing::warn!(%payer, %spent, %budget, "a budget is used up");
                }
            }
            handle.command(server_itself(handle), (**command).clone()).await?;
            Ok(Outcome::Done)
        }
        Act::ChangeInstances(step) => change_instances(handle, step).await,
    }
}

async fn change_instances(handle: &CoreHandle, step: &MigStep) -> Result<Outcome, Refusal> {
    let (node, gpu, profile, job) = (&step.node, step.gpu, &step.profile, step.job);
    let change = format!("{:?}", step.change);
    tracing::info!(target: "audit", %node, gpu, change, %job, "change MIG instances by demand");
    let why = match ask(handle, node, Some(step.change.clone())).await {
        Ok(Ok(report)) => return Ok(report.created.map_or(Outcome::Done, Outcome::Created)),
        // A job came first.
        Ok(Err(MigError::HasTask { .. })) => return Ok(Outcome::Outdated),
        Ok(Err(error)) => error.to_string(),
        Err(Refusal::ShuttingDown) => return Err(Refusal::ShuttingDown),
        Err(refusal) => format!("{refusal:?}"),
    };
    tracing::warn!(%node, gpu, profile, %job, why, "can't change MIG instances");
    Ok(Outcome::Failed)
}

/// The changes of MIG instances that waiting jobs need: in this pool, or in those with the setting
/// `mig_auto`.
///
/// # Errors
/// If the server is stopping, or a commit failed.
pub async fn mig_steps(
    handle: &CoreHandle,
    pool: Option<PoolName>,
) -> Result<Vec<MigStep>, Refusal> {
    let is_any = pool.is_some();
    let is_needed = move |view: &View<'_>| match is_any {
        true => !mig_plan::waiting(view.world).is_empty(),
        false => MigController::needs(view.world) != Needs::Nothing,
    };
    if !handle.query(is_needed).await? {
        return Ok(Vec::new());
    }
    let look = move |view: &View<'_>| {
        let is_auto = |of: &PoolName| match &pool {
            Some(pool) => of == pool,
            None => view.world.makes_instances(of),
        };
        controller::mig_steps(view.world, &view.explainer(), &is_auto, &BTreeSet::new())
    };
    handle.look(handle.info().uid, Age::New, look).await
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
