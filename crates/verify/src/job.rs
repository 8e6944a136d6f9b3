//! What a job asks of nodes and has had, and whether it waits, from its records alone.

use std::collections::BTreeSet;

use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Bytes, Decision, Gang, JobId, JobSpec, Millis, NodeFilter,
    NodeName, OrderKey, Phase, Placement, Plan, Policy, PoolName, ResourceKind, Resources, Slot,
    Timestamp,
};
use gpool_world::{JobRow, Snapshot};

use crate::tally::with_plain;

/// What a job asks of nodes.
pub(crate) fn fit_of(row: &JobRow) -> Fit {
    // Who is paused has its memory, and goes on where it is.
    let is_parked = is_parked(row);
    Fit {
        gpus: row.spec.gpus.clone(),
        cpus: row.spec.cpus.unwrap_or_default(),
        memory: if is_parked { Bytes::ZERO } else { row.spec.memory.unwrap_or_default() },
        pool: if is_parked { None } else { row.spec.pool.clone() },
        nodes: match is_parked {
            true => NodeFilter::while_paused(row.spec.nodes.as_ref()),
            false => row.spec.nodes.clone(),
        },
        gang: row.spec.gang,
        at: if is_parked { places_of(row) } else { Vec::new() },
    }
}

/// Where the tasks of a job are, by rank.
pub(crate) fn places_of(row: &JobRow) -> Vec<Placement> {
    let place = |it: &Allocation| Placement { node: it.node.clone(), slots: it.slots.clone() };
    row.job.phase.allocations().iter().map(place).collect()
}

/// Whether all tasks of a job are stopped where they are.
pub(crate) fn is_parked(row: &JobRow) -> bool {
    let Phase::Paused { allocations, .. } = &row.job.phase else { return false };
    allocations.iter().all(|it| matches!(it.state, AllocationState::Paused { .. }))
}

/// Since when a job could start, or go on; `None` if it could not.
pub(crate) fn waits_since(row: &JobRow) -> Option<Timestamp> {
    match &row.job.phase {
        Phase::Pending { since } => Some(*since),
        Phase::Paused { since, held: None, .. } if is_parked(row) => Some(*since),
        _ => None,
    }
}

/// What a job that is started, or goes on, takes that it does not have.
pub(crate) fn taken_by(row: &JobRow, slots: &[Slot]) -> Resources {
    let mut taken = row.spec.resources(slots);
    if is_parked(row) {
        taken.set(ResourceKind::Memory, 0);
        taken.set(ResourceKind::Tasks, 0);
    }
    with_plain(taken, slots.is_empty())
}

/// Whether a job has been waiting for so long at `now`; `None` for jobs that are not pending.
pub(crate) fn is_escalated(row: &JobRow, policy: &Policy, now: Timestamp) -> Option<bool> {
    let policy = policy.of_pool(row.spec.pool.as_ref());
    let since = waits_since(row)?;
    let waits_since = Timestamp::new(since.get().saturating_sub(row.job.waited.get()));
    // Who ran before waits longer for it where the order asks how much jobs have had.
    let ran = match policy.order.contains(&OrderKey::Attained) {
        true => had(row).div_ceil(row.spec.gpus_together().get().max(1)),
        false => 0,
    };
    let more = Millis::new(ran.saturating_mul(2));
    Some(waits_since.after(more).after(policy.escalate_after) <= now)
}

/// What a job that does not run has had of GPU-time and counts, in thousandths of a device times
/// milliseconds.
pub(crate) fn had(row: &JobRow) -> u64 {
    let slots = row.job.phase.allocations().iter().flat_map(|it| &it.slots);
    let gpus: u64 = slots.map(|slot| slot.part.charge().get()).sum();
    let paused = if is_parked(row) { gpus.saturating_mul(ran(row).get()) } else { 0 };
    let all = row.job.course.attained.get().saturating_add(paused);
    all.saturating_sub(row.job.course.forgiven.get())
}

/// How many of the policy's bounds of GPU-time a job has reached.
pub(crate) fn level(policy: &Policy, row: &JobRow, now: Timestamp) -> usize {
    let policy = policy.of_pool(row.spec.pool.as_ref());
    let running = match &row.job.phase {
        Phase::Running { allocations, started_at } => {
            let gpus: u64 = allocations.iter().map(|it| it.resources.get(&ResourceKind::Gpu)).sum();
            let begun = started_at.get().saturating_add(row.job.course.paused.get());
            gpus.saturating_mul(now.get().saturating_sub(begun))
        }
        Phase::Paused { allocations, .. } if is_parked(row) => {
            let slots = allocations.iter().flat_map(|it| &it.slots);
            let gpus: u64 = slots.map(|slot| slot.part.charge().get()).sum();
            gpus.saturating_mul(ran(row).get())
        }
        _ => 0,
    };
    let all = row.job.course.attained.get().saturating_add(running);
    let counts = all.saturating_sub(row.job.course.forgiven.get());
    policy.attained_levels.iter().take_while(|bound| bound.get() <= counts).count()
}

/// The pool whose own policy decides about a job; `None` stands after all pools.
pub(crate) fn domain<'a>(policy: &Policy, row: &'a JobRow) -> (bool, Option<&'a PoolName>) {
    let own = row.spec.pool.as_ref().filter(|pool| policy.pools.contains_key(*pool));
    (own.is_none(), own)
}

/// The jobs that a plan starts.
pub(crate) fn started(plan: &Plan) -> BTreeSet<JobId> {
    plan.decisions.iter().filter_map(Decision::started).map(|(job, _)| job).collect()
}

/// The jobs that could start, by id.
pub(crate) fn pending<'a>(snapshot: &Snapshot<'a>) -> impl Iterator<Item = &'a JobRow> {
    let rows = snapshot.world.job_rows();
    rows.filter(|row| waits_since(row).is_some())
}

/// For how long a job had run when it was paused.
pub(crate) fn ran(row: &JobRow) -> Millis {
    match &row.job.phase {
        Phase::Paused { started_at, since, .. } if is_parked(row) => {
            let paused = started_at.get().saturating_add(row.job.course.paused.get());
            Millis::new(since.get().saturating_sub(paused))
        }
        _ => Millis::ZERO,
    }
}

/// How many tasks a job has.
pub(crate) fn n_tasks(spec: &JobSpec) -> usize {
    let Gang { nodes, tasks_per_node, .. } = spec.gang;
    usize::try_from(u64::from(nodes) * u64::from(tasks_per_node)).unwrap_or(usize::MAX)
}

/// Whether tasks are on as many different nodes as they should be, as many on each, unless they may
/// be anywhere; those of one node one after the other.
pub(crate) fn is_spread<'a>(gang: Gang, nodes: impl Iterator<Item = &'a NodeName>) -> bool {
    let nodes: Vec<&NodeName> = nodes.collect();
    let groups: Vec<&[&NodeName]> = nodes.chunk_by(|one, next| one == next).collect();
    let distinct: BTreeSet<&NodeName> = nodes.iter().copied().collect();
    let is_full = |group: &&[&NodeName]| u32::try_from(group.len()) == Ok(gang.tasks_per_node);
    let is_even = || u32::try_from(distinct.len()) == Ok(gang.nodes) && groups.iter().all(is_full);
    groups.len() == distinct.len() && (gang.anywhere || is_even())
}
