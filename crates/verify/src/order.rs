//! Whether a plan keeps the policy's order: among jobs that ask the same of a node, none starts
//! while one that comes first waits. Between jobs that ask different things nothing of the kind
//! holds, since a later one may fit where an earlier one does not.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Bytes, Decision, JobId, Millis, NodeFilter, OrderKey, Phase,
    Placement, Plan, Policy, PoolName, Project, ProjectName, ResourceKind, Resources, ShareBetween,
    Slot, Timestamp,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::State;
use crate::arrays::{Running, left, row_of};
use crate::conserve::{ran, shape_of};
use crate::tally::with_plain;
use crate::violation::Violation;

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
fn waits_since(row: &JobRow) -> Option<Timestamp> {
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
fn had(row: &JobRow) -> u64 {
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

/// GPU-time that a job is likely to take, as the order compares it: a power of two for the length
/// of runs, the time limit in steps where nothing like it has run.
fn gpu_time(snapshot: &Snapshot<'_>, row: &JobRow) -> u64 {
    let shape = shape_of(snapshot.world, row);
    let length = shape.predicted.or(shape.takes);
    let length = length.map_or(u64::MAX, gpool_model::Millis::get);
    length.saturating_mul(row.spec.gpus_together().get().max(1))
}

/// The pool whose own policy decides about a job; `None` stands after all pools.
pub(crate) fn domain<'a>(policy: &Policy, row: &'a JobRow) -> (bool, Option<&'a PoolName>) {
    let own = row.spec.pool.as_ref().filter(|pool| policy.pools.contains_key(*pool));
    (own.is_none(), own)
}

/// Which of two pending jobs the policy puts first: those about whom a pool's own decides, then
/// all others.
pub(crate) fn compare(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    one: &JobRow,
    other: &JobRow,
) -> Ordering {
    let by_domain = domain(policy, one).cmp(&domain(policy, other));
    if by_domain != Ordering::Equal {
        return by_domain;
    }
    let policy_of_both = policy.of_pool(one.spec.pool.as_ref());
    let escalated = |row| is_escalated(row, policy, snapshot.now).unwrap_or(false);
    let level_of_waiting = |row| match escalated(row) {
        true => 0,
        false => level(policy, row, snapshot.now),
    };
    let mut both_escalated = false;
    let by_joining = one.spec.joins.is_some().cmp(&other.spec.joins.is_some());
    let order = &policy_of_both.order;
    if by_joining != Ordering::Equal && order.first() != Some(&OrderKey::Priority) {
        return by_joining;
    }
    for key in order {
        let by_key = match key {
            OrderKey::Priority => other.job.priority.cmp(&one.job.priority).then(by_joining),
            OrderKey::Escalated => {
                both_escalated = escalated(one) && escalated(other);
                escalated(other).cmp(&escalated(one))
            }
            OrderKey::Gpus | OrderKey::Predicted | OrderKey::Attained if both_escalated => {
                Ordering::Equal
            }
            OrderKey::Attained => level_of_waiting(one).cmp(&level_of_waiting(other)),
            OrderKey::Predicted => gpu_time(snapshot, one).cmp(&gpu_time(snapshot, other)),
            OrderKey::Gpus => one.spec.gpus_together().cmp(&other.spec.gpus_together()),
            OrderKey::Age => one.spec.submitted_at.cmp(&other.spec.submitted_at),
        };
        if by_key != Ordering::Equal {
            return by_key;
        }
    }
    let by_age = one.spec.submitted_at.cmp(&other.spec.submitted_at);
    by_age.then(one.job.id.cmp(&other.job.id))
}

/// Among the jobs that a plan starts, equals stand in order.
pub(crate) fn check_decisions(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    found: &mut Vec<Violation>,
) {
    type Asked<'a> = (
        Fit,
        (bool, Option<&'a PoolName>),
        &'a ProjectName,
        Option<u32>,
        BTreeSet<(&'a PoolName, &'a str)>,
    );
    let mut last_by_fit = BTreeMap::<Asked<'_>, &JobRow>::new();
    let world = snapshot.world;
    let names_parts = |it: &Project| it.quotas.iter().any(|(kind, _)| kind.is_part_of_gpus());
    let by_class = world.projects().values().any(names_parts);
    let user =
        |row: &JobRow| (policy.share_between == ShareBetween::Users).then_some(row.spec.owner.uid);
    for decision in &plan.decisions {
        let Some((job, placements)) = decision.started() else { continue };
        let Some(row) = row_of(world, job) else { continue };
        // Where quotas name models or pools, others may be entitled to those that one may not have.
        let classes = match by_class {
            true => placements.iter().flat_map(|it| classes_of(world, it)).collect(),
            false => BTreeSet::new(),
        };
        let asked = (fit_of(row), domain(policy, row), &row.spec.project, user(row), classes);
        if let Some(before) = last_by_fit.insert(asked, row)
            && compare(snapshot, policy, before, row) == Ordering::Greater
        {
            found.push(Violation::OutOfOrder { started: before.job.id, passed: job });
        }
    }
}

/// The pools and models of the devices that a task gets.
fn classes_of<'a>(
    world: &'a World,
    placement: &'a Placement,
) -> impl Iterator<Item = (&'a PoolName, &'a str)> {
    let node = world.node(&placement.node).map(|row| &row.node);
    node.into_iter().flat_map(|node| {
        let all = node.devices.iter();
        let own = all.filter(|it| placement.slots.iter().any(|slot| slot.device == it.uuid));
        own.map(|it| (&node.pool, it.model.as_str()))
    })
}

/// No job that a plan starts comes after one that asks the same and is left waiting; but one whose
/// user has all that he may have may be passed by others, and where quotas name models or pools one
/// may have what another may not.
pub(crate) fn check_passed_over(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    after: &State<'_>,
    found: &mut Vec<Violation>,
) {
    if after.projects.count_parts() {
        return;
    }
    let started = started(plan);
    let world = snapshot.world;
    // Who asks the same and has access to the same, by how long it takes: who takes longer may
    // wait where who takes less goes before a planned start.
    let key = |row: &JobRow| {
        let shape = shape_of(world, row);
        let takes = shape.takes.map_or(u64::MAX, gpool_model::Millis::get);
        ((shape.fit, shape.domain, shape.project, shape.uid, shape.reserved_as), takes)
    };
    let mut first_waiting = BTreeMap::<_, BTreeMap<u64, &JobRow>>::new();
    let running = Running::of(world, plan);
    let is_full = |row: &JobRow| running.is_full(world, row.job.id.number);
    let left = left(snapshot, &started).into_iter().map(|(row, _)| row);
    // One whose user has all that he may have may be passed by others.
    let is_kept = |row: &JobRow| is_full(row) || after.keeps(snapshot, policy, row);
    for row in left.filter(|row| !is_kept(row)) {
        let (alike, takes) = key(row);
        let first = first_waiting.entry(alike).or_default().entry(takes).or_insert(row);
        if compare(snapshot, policy, row, first) == Ordering::Less {
            *first = row;
        }
    }
    for job in started {
        let Some(row) = row_of(world, job) else { continue };
        let (alike, takes) = key(row);
        let waiting = first_waiting.get(&alike).into_iter();
        let mut shorter = waiting.flat_map(|by_length| by_length.range(..=takes));
        let comes_first = |first: &JobRow| compare(snapshot, policy, first, row) == Ordering::Less;
        if let Some((_, first)) = shorter.find(|(_, first)| comes_first(first)) {
            found.push(Violation::OutOfOrder { started: job, passed: first.job.id });
        }
    }
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
