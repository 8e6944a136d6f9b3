//! An independent check of plans and states against the invariants. It shares no code with the
//! scheduler: it sums up free capacity from the allocations of jobs, and tries a job on every node
//! in turn. It reports violations and repairs nothing.

#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod arrays;
mod claims;
mod conserve;
mod course;
mod decisions;
mod job;
mod ledger;
mod needless;
mod order;
mod plan_state;
mod planned;
mod projects;
mod reasons;
mod reserved;
mod shape;
mod state;
mod tally;
mod unusable;
mod users;
mod violation;

use std::collections::BTreeSet;

use gpool_model::{Decision, NodeName, Plan, Policy, Reason, Shape};
use gpool_world::Snapshot;

pub use unusable::Unusable;
pub use violation::Violation;

use plan_state::PlanState;
use projects::Projects;
use tally::Tally;
use users::Users;

/// Returns the violations of a plan among the jobs that it starts and the nodes that it touches:
/// cheap enough for every cycle. A plan with violations must not be applied.
#[must_use]
pub fn verify(snapshot: &Snapshot<'_>, policy: &Policy, plan: &Plan) -> Vec<Violation> {
    let touched: BTreeSet<&NodeName> = plan
        .decisions
        .iter()
        .filter_map(Decision::started)
        .flat_map(|(_, placements)| placements)
        .map(|placement| &placement.node)
        .collect();
    let mut tally = Tally::of_nodes(snapshot.world, &touched);
    let mut found = Vec::new();
    decisions::check(snapshot, plan, &mut tally, &mut found);
    order::check_decisions(snapshot, policy, plan, &mut found);
    planned::check_feasible(snapshot, plan, &mut found);
    reserved::check(snapshot, plan, &mut found);
    if plan.decisions.is_empty() {
        return found;
    }
    let users = Users::as_indexed(snapshot.world, policy);
    decisions::check_quotas(snapshot, policy, plan, users, &mut found);
    let projects = Projects::as_indexed(snapshot.world, policy, plan);
    needless::check(snapshot, policy, plan, &projects, &mut found);
    projects::check(snapshot, policy, plan, projects, &mut found);
    found
}

/// Returns all violations of a plan. Beyond [`verify`], no job is passed over, no job that fits
/// waits, and the waits are complete with true reasons. The cost grows with the number of waiting
/// jobs times the number of nodes.
#[must_use]
pub fn verify_fully(snapshot: &Snapshot<'_>, policy: &Policy, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    let before = Tally::of(snapshot.world);
    let mut after = before.clone();
    decisions::check(snapshot, plan, &mut after, &mut found);
    order::check_decisions(snapshot, policy, plan, &mut found);
    let users = Users::of(snapshot.world, policy);
    let users_after = users.after(snapshot, plan);
    decisions::check_quotas(snapshot, policy, plan, users.clone(), &mut found);
    let projects = Projects::of(snapshot.world, policy);
    let most = projects.most(snapshot, plan);
    let least = projects.least(snapshot, plan);
    needless::check(snapshot, policy, plan, &projects, &mut found);
    projects::check(snapshot, policy, plan, projects, &mut found);
    let quota_waits: BTreeSet<&Shape> = (plan.waits.iter())
        .filter(|wait| matches!(wait.reason, Reason::QuotaProject { .. }))
        .map(|wait| &*wait.shape)
        .collect();
    let before = PlanState {
        tally: before.most_free(plan),
        users,
        projects: least,
        quota_waits: quota_waits.clone(),
    };
    let after = PlanState { tally: after, users: users_after, projects: most, quota_waits };
    order::check_passed_over(snapshot, policy, plan, &after, &mut found);
    planned::check_feasible(snapshot, plan, &mut found);
    reserved::check(snapshot, plan, &mut found);
    planned::check_all(snapshot, policy, plan, &before.users, &mut found);
    conserve::check_nothing_fits(snapshot, policy, plan, &after, &mut found);
    conserve::check_waits(snapshot, plan, &mut found);
    reasons::check(snapshot, policy, plan, &before, &after, &mut found);
    found
}

/// Returns every contradiction in a state: devices given twice, allocations that jobs did not ask
/// for, and indexes that differ from the records.
#[must_use]
pub fn check(snapshot: &Snapshot<'_>) -> Vec<Violation> {
    state::check(snapshot)
}
