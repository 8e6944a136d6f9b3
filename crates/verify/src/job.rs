//! A job's demand, attained GPU-time and state of waiting, from its records alone.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Bytes, Decision, Gang, JobId, JobPart, JobSpec, Millis, Node,
    NodeFilter, NodeName, OrderKey, PartFit, Phase, Placement, Plan, Policy, PoolName,
    ResourceKind, Resources, Sharer, Slot, Timestamp,
};
use gpool_world::{JobRow, Snapshot, World};

/// What a job asks of nodes.
pub(crate) fn fit_of(row: &JobRow) -> Fit {
    // A paused job has its memory, and resumes where it is.
    let is_parked = is_parked(row);
    Fit {
        gpus: row.spec.gpus.clone(),
        sharer: row.spec.gpus.share().map(|_| {
            let (uid, project) = (row.spec.owner.uid, row.spec.project.clone());
            Box::new(Sharer { with: row.spec.share_with, uid, project, priority: 0 })
        }),
        cpus: row.spec.cpus.unwrap_or_default(),
        memory: if is_parked { Bytes::ZERO } else { row.spec.memory.unwrap_or_default() },
        pool: if is_parked { None } else { row.spec.pool.clone() },
        nodes: match is_parked {
            true => NodeFilter::while_paused(row.spec.nodes.as_ref()),
            false => row.spec.nodes.clone(),
        },
        gang: row.spec.gang,
        in_container: row.spec.container.is_some(),
        lacking_nodes: match is_parked {
            true => Vec::new(),
            false => row.job.course.lacking_nodes.clone(),
        },
        at: if is_parked { places_of(row) } else { Vec::new() },
    }
}

/// A row as its task with this rank asks: with the request of the part that it belongs to.
pub(crate) fn of_task(row: &JobRow, rank: usize) -> Cow<'_, JobRow> {
    let mut first = 0;
    for (at, part) in row.spec.parts.iter().enumerate() {
        first += usize::try_from(part.gang.n_tasks()).unwrap_or(usize::MAX);
        if rank < first {
            return Cow::Owned(of_part(row, at));
        }
    }
    Cow::Borrowed(row)
}

/// A row with the request of one of its parts.
fn of_part(row: &JobRow, at: usize) -> JobRow {
    let spec = JobSpec { request: row.spec.request.of_part(at), ..(*row.spec).clone() };
    JobRow { spec: Arc::new(spec), ..row.clone() }
}

/// What each part of a job asks of nodes; empty for a job without parts.
pub(crate) fn parts_of(row: &JobRow) -> Vec<PartFit> {
    let parts = row.spec.parts.iter().enumerate();
    let fit = |(at, part): (usize, &JobPart)| PartFit {
        name: Arc::clone(&part.name),
        fit: fit_of(&of_part(row, at)),
    };
    parts.map(fit).collect()
}

/// Returns the placements of a job's tasks, by rank.
pub(crate) fn places_of(row: &JobRow) -> Vec<Placement> {
    let place = |it: &Allocation| Placement { node: it.node.clone(), slots: it.slots.clone() };
    row.job.phase.allocations().iter().map(place).collect()
}

/// Whether all tasks of a job are paused.
pub(crate) fn is_parked(row: &JobRow) -> bool {
    let Phase::Paused { allocations, .. } = &row.job.phase else { return false };
    allocations.iter().all(|it| matches!(it.state, AllocationState::Paused { .. }))
}

/// Adds the slots for tasks without GPUs to amounts that are not booked yet.
pub(crate) fn with_plain(mut resources: Resources, is_plain: bool) -> Resources {
    let tasks = resources.get(&ResourceKind::Tasks);
    resources.set(ResourceKind::PlainTasks, if is_plain { tasks } else { 0 });
    resources
}

/// Returns since when a job could start or resume; `None` if it could not.
pub(crate) fn waits_since(row: &JobRow) -> Option<Timestamp> {
    match &row.job.phase {
        Phase::Pending { since } => Some(*since),
        Phase::Paused { since, held: None, .. } if is_parked(row) => Some(*since),
        _ => None,
    }
}

/// Returns what a task that starts or resumes takes and does not have yet. `row` is as the task
/// asks.
pub(crate) fn taken_by(row: &JobRow, slots: &[Slot]) -> Resources {
    let mut taken = row.spec.resources(0, slots);
    if is_parked(row) {
        taken.set(ResourceKind::Memory, 0);
        taken.set(ResourceKind::Tasks, 0);
    }
    with_plain(taken, slots.is_empty())
}

/// Whether a job is escalated at `now`; `None` for jobs that are not pending.
pub(crate) fn is_escalated(row: &JobRow, policy: &Policy, now: Timestamp) -> Option<bool> {
    let policy = policy.of_pool(row.spec.pool.as_ref());
    let since = waits_since(row)?;
    let waits_since = Timestamp::new(since.get().saturating_sub(row.job.waited.get()));
    // Where the order uses attained GPU-time, a job that has run waits longer for its escalation.
    let ran = match policy.order.contains(&OrderKey::Attained) {
        true => had(row).div_ceil(row.spec.gpus_together().get().max(1)),
        false => 0,
    };
    let more = Millis::new(ran.saturating_mul(2));
    Some(waits_since.after(more).after(policy.escalate_after) <= now)
}

/// Returns the attained GPU-time of a job that does not run, in thousandths of a device times
/// milliseconds.
pub(crate) fn had(row: &JobRow) -> u64 {
    let slots = row.job.phase.allocations().iter().flat_map(|it| &it.slots);
    let gpus: u64 = slots.map(|slot| slot.part.charge().get()).sum();
    let paused = match is_parked(row) {
        true => gpus.saturating_mul(ran(row).get()).saturating_add_signed(row.job.course.resized),
        false => 0,
    };
    let all = row.job.course.attained.get().saturating_add(paused);
    all.saturating_sub(row.job.course.forgiven.get())
}

/// Returns how many of the policy's levels of GPU-time a job has passed.
pub(crate) fn level(policy: &Policy, row: &JobRow, now: Timestamp) -> usize {
    let policy = policy.of_pool(row.spec.pool.as_ref());
    let running = match &row.job.phase {
        Phase::Running { allocations, started_at } => {
            let gpus: u64 = allocations.iter().map(|it| it.resources.get(&ResourceKind::Gpu)).sum();
            let begun = started_at.get().saturating_add(row.job.course.paused.get());
            let now_given = gpus.saturating_mul(now.get().saturating_sub(begun));
            now_given.saturating_add_signed(row.job.course.resized)
        }
        Phase::Paused { allocations, .. } if is_parked(row) => {
            let slots = allocations.iter().flat_map(|it| &it.slots);
            let gpus: u64 = slots.map(|slot| slot.part.charge().get()).sum();
            let given = gpus.saturating_mul(ran(row).get());
            given.saturating_add_signed(row.job.course.resized)
        }
        _ => 0,
    };
    let all = row.job.course.attained.get().saturating_add(running);
    let counts = all.saturating_sub(row.job.course.forgiven.get());
    policy.attained_levels.iter().take_while(|bound| bound.get() <= counts).count()
}

/// The pool with a policy of its own that decides about a job; `None` sorts after all pools.
pub(crate) fn domain<'a>(policy: &Policy, row: &'a JobRow) -> (bool, Option<&'a PoolName>) {
    let own = row.spec.pool.as_ref().filter(|pool| policy.pools.contains_key(*pool));
    (own.is_none(), own)
}

pub(crate) fn started(plan: &Plan) -> BTreeSet<JobId> {
    plan.decisions.iter().filter_map(Decision::started).map(|(job, _)| job).collect()
}

/// The jobs that could start, in the order of their IDs.
pub(crate) fn pending<'a>(snapshot: &Snapshot<'a>) -> impl Iterator<Item = &'a JobRow> {
    let rows = snapshot.world.job_rows();
    rows.filter(|row| waits_since(row).is_some())
}

/// Returns how long a job had run when it was paused.
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
    let of = |gang: Gang| u64::from(gang.nodes) * u64::from(gang.tasks_per_node);
    let n_tasks = match &spec.parts[..] {
        [] => of(spec.gang),
        parts => parts.iter().map(|part| of(part.gang)).sum(),
    };
    usize::try_from(n_tasks).unwrap_or(usize::MAX)
}

/// Whether the nodes of a gang have one value of the label that it needs.
pub(crate) fn is_together<'a>(
    world: &World,
    spec: &JobSpec,
    nodes: impl Iterator<Item = &'a NodeName>,
) -> bool {
    let filter = spec.nodes.as_ref();
    let topology = filter.and_then(|it| it.topology.as_ref()).filter(|it| it.is_required);
    let Some(topology) = topology.filter(|_| spec.gang.nodes > 1) else { return true };
    let value = |name: &NodeName| world.node(name)?.node.topology_value(topology);
    let values: BTreeSet<Option<&str>> = nodes.map(value).collect();
    values.len() == 1 && !values.contains(&None)
}

/// The values of the label that the nodes of a job must have in common; none if they need not.
pub(crate) fn values<'w>(world: &'w World, fit: &Fit) -> Option<BTreeSet<&'w str>> {
    let topology = fit.topology().filter(|it| it.is_required)?;
    let nodes = world.nodes_by_name().map(|(_, row)| &row.node);
    Some(nodes.filter_map(|node| node.topology_value(topology)).collect())
}

/// Whether a node may take tasks of a job that needs this value on all its nodes.
pub(crate) fn has_value(node: &Node, fit: &Fit, value: Option<&str>) -> bool {
    let own = |topology| node.topology_value(topology);
    value.is_none_or(|value| fit.topology().and_then(own) == Some(value))
}

/// Whether the tasks of each part are on the right number of nodes with the same number on each,
/// unless they may run anywhere. Tasks of one part on one node are listed together.
pub(crate) fn is_spread<'a>(spec: &JobSpec, nodes: impl Iterator<Item = &'a NodeName>) -> bool {
    let nodes: Vec<&NodeName> = nodes.collect();
    let mut rest = &nodes[..];
    if spec.parts.is_empty() {
        return is_spread_alone(spec.gang, rest);
    }
    spec.parts.iter().all(|part| {
        let n_tasks = usize::try_from(part.gang.n_tasks()).unwrap_or(usize::MAX);
        let (own, others) = rest.split_at(n_tasks.min(rest.len()));
        rest = others;
        is_spread_alone(part.gang, own)
    })
}

fn is_spread_alone(gang: Gang, nodes: &[&NodeName]) -> bool {
    let groups: Vec<&[&NodeName]> = nodes.chunk_by(|one, next| one == next).collect();
    let distinct: BTreeSet<&NodeName> = nodes.iter().copied().collect();
    let is_full = |group: &&[&NodeName]| u32::try_from(group.len()) == Ok(gang.tasks_per_node);
    let is_even = || u32::try_from(distinct.len()) == Ok(gang.nodes) && groups.iter().all(is_full);
    groups.len() == distinct.len() && (gang.anywhere || is_even())
}
