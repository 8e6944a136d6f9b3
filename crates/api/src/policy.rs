//! The policy of the scheduler: shows it, changes it, and previews what a change does to pending
//! jobs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use gpool_control::forecast::{self, ForecastInput, Moved};
use gpool_model::budget::{Budgets, Payer};
use gpool_model::enforcement::Mechanism;
use gpool_model::kind::OnIdle;
use gpool_model::node::Node;
use gpool_model::{Command, Policy, Refusal, Reply};
use gpool_wire::{Document, PolicyInfo, PolicyPatch, StartChange, Time, device_words};
use gpool_world::{Snapshot, World};

use super::asker::Asks;
use super::audit::entered;
use super::extract::{ApiError, JsonBody};
use crate::api::Api;
use gpool_server::fault::internal;

/// Number of pending jobs that a preview simulates.
const LOOKED_AT_MAX: usize = 500;
/// Number of jobs that a preview names.
const NAMED_MAX: usize = 100;

/// Returns the policy of the scheduler.
#[utoipa::path(
    get, path = "/policies", operation_id = "policies_get",
    responses((status = 200, description = "The policy", body = Document<PolicyInfo>))
)]
pub(crate) async fn get(State(api): State<Api>) -> Result<Json<Document<PolicyInfo>>, ApiError> {
    let shown = api.handle.query(|view| policy_info(view.world, view.world.policy())).await?;
    Ok(Json(Document::new(shown)))
}

/// Changes the policy; the next decision uses it.
#[utoipa::path(
    patch, path = "/policies", operation_id = "policies_edit", request_body = PolicyPatch,
    responses(
        (status = 200, description = "The policy after the change", body = Document<PolicyInfo>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn change(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(patch): JsonBody<PolicyPatch>,
) -> Result<Response, ApiError> {
    let mut set: Vec<(String, String)> = patch.set.into_iter().collect();
    if let Some(strategy) = patch.device_strategy {
        let word = device_words::device_strategy_word(strategy).to_owned();
        set.push(("device_strategy".to_owned(), word));
    }
    check_users(&api, &set).await?;
    let dry_run = patch.dry_run;
    let command = Command::SetPolicy { preset: patch.preset, set, dry_run };
    let Reply::Policy(policy) = api.handle.command(asker.caller.clone(), command).await? else {
        return Ok(get(State(api)).await?.into_response());
    };
    let new = policy.clone();
    let mut info = api.handle.query(move |view| policy_info(view.world, &new)).await?;
    if dry_run {
        info.starts = starts(&api, *policy).await?;
    }
    Ok(entered(Json(Document::new(info)), dry_run))
}

/// Refuses a new budget of a user that does not exist: it would limit nothing. Users of the network
/// may not have signed in yet.
async fn check_users(api: &Api, set: &[(String, String)]) -> Result<(), ApiError> {
    let budgets = set.iter().filter(|(key, _)| key == "budgets");
    let budgets = budgets.filter_map(|(_, text)| text.parse::<Budgets>().ok());
    let known = api.handle.query(|view| view.world.policy().budgets.of.clone()).await?;
    let payers: Vec<Payer> = budgets.flat_map(|it| it.of.into_keys()).collect();
    for payer in payers.iter().filter(|payer| !known.contains_key(payer)) {
        if let Payer::User(name) = payer
            && !name.contains('@')
            && (api.handle.info().find_user)(name).is_none()
        {
            let why = format!(
                "there is no user {name:?}, so its budget would limit nothing; a network user has \
                 an @: ana@lab.org"
            );
            return Err(Refusal::Invalid { field: "budgets".to_owned(), why }.into());
        }
    }
    Ok(())
}

/// A policy with notes about the settings that do not work in this cluster.
fn policy_info(world: &World, policy: &Policy) -> PolicyInfo {
    let releases = |node: &&Node| policy.of_pool(Some(&node.pool)).idle == OnIdle::Release;
    let mut without: BTreeMap<_, Vec<&Node>> = BTreeMap::new();
    for node in world.nodes().iter().map(|row| &row.node).filter(releases) {
        if let Some(why) = why_not_released(node) {
            without.entry((&node.pool, why)).or_default().push(node);
        }
    }
    let note = |((pool, why), nodes): ((_, &str), Vec<&Node>)| {
        let first = &nodes[0].name;
        let others = match nodes.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more of pool {pool}"),
        };
        format!(
            "node {first}{others} can't release the GPUs of idle jobs: {why}; only jobs with \
             --yields release theirs"
        )
    };
    let notes = without.into_iter().map(note).collect();
    PolicyInfo { notes, ..PolicyInfo::from(policy) }
}

/// Why a node can't release the GPUs of idle jobs that do not free them themselves; `None` if it
/// can, or has no GPUs.
fn why_not_released(node: &Node) -> Option<&str> {
    if !node.devices.is_empty() && !node.can_pause() {
        return Some("its GPU driver can't pause jobs");
    }
    let gates = node.devices.iter().flat_map(|device| &device.enforced.probes);
    let gates: Vec<_> = gates.filter(|it| it.mechanism == Mechanism::Shim).collect();
    match gates.iter().any(|probe| probe.why_not.is_none()) {
        true => None,
        false => gates.first()?.why_not.as_deref(),
    }
}

/// Returns the jobs with another start under the new policy, from simulations with both.
async fn starts(api: &Api, policy: Policy) -> Result<Vec<StartChange>, Refusal> {
    let before = api.handle.query(|view| {
        let snapshot = Snapshot { world: view.world, now: view.now };
        ForecastInput::of(&snapshot, LOOKED_AT_MAX, None)
    });
    let before = before.await?;
    let work = move || {
        let mut after = before.clone();
        after.excerpt.policy = policy;
        let moved = forecast::moved(&before, &after, LOOKED_AT_MAX);
        let told = moved.iter().take(NAMED_MAX).filter_map(|moved| start_change(&before, moved));
        told.collect()
    };
    tokio::task::spawn_blocking(work).await.map_err(internal)
}

fn start_change(part: &ForecastInput, moved: &Moved) -> Option<StartChange> {
    let row = part.excerpt.jobs.get(&moved.job)?;
    Some(StartChange {
        job: moved.job.to_string(),
        user: row.spec.owner.user.to_string(),
        before: moved.before.map(Time),
        after: moved.after.map(Time),
    })
}
