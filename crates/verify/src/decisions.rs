//! Checks that the jobs in a plan may start, on the nodes and devices that it names.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::pause::pause_memory;
use gpool_model::{
    Attempt, Bytes, Decision, Device, DeviceUuid, Exit, GpuRequest, JobId, JobSpec, MilliGpu,
    NodeName, Phase, Placement, Plan, Policy, ResourceKind, Share, SlotPart, TaskId,
};
use gpool_world::{JobRow, Snapshot};

use crate::arrays::{Running, attempt_of, row_of};
use crate::job::{is_parked, is_spread, is_together, n_tasks, of_task, places_of, taken_by};
use crate::tally::{
    HOST_KINDS, Holding, NodeTally, Tally, Tenancy, add, capacity, has_all, is_of, milli_of,
    unusable,
};
use crate::users::{self, Users};
use crate::violation::Violation;

/// Checks every decision in turn and books it, so that the next check sees it.
pub(crate) fn check(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    tally: &mut Tally<'_>,
    found: &mut Vec<Violation>,
) {
    let world = snapshot.world;
    if plan.basis != world.revision() {
        found.push(Violation::WrongBasis { plan: plan.basis, world: world.revision() });
    }
    Running::started(world, plan).check(world, found);
    let mut started = BTreeSet::new();
    for (position, decision) in plan.decisions.iter().enumerate() {
        let resumes = matches!(decision, Decision::Resume { .. });
        let (job, attempt, placements, after) = match decision {
            Decision::Start { job, attempt, placements, after }
            | Decision::Resume { job, attempt, placements, after } => {
                (*job, *attempt, placements, after)
            }
            Decision::Evict { job, attempt, beneficiary, exit, .. } => {
                let gone = Eviction { position, job: *job, attempt: *attempt, exit: *exit };
                check_eviction(snapshot, plan, gone, *beneficiary, tally, found);
                continue;
            }
        };
        for after in after {
            if usize::try_from(*after).is_ok_and(|after| after >= position) {
                found.push(Violation::AfterLater { decision: position, after: *after });
            }
        }
        let is_claim = !after.is_empty();
        if !started.insert(job) {
            found.push(Violation::StartedTwice { job });
        }
        let Some(row) = row_of(world, job) else {
            found.push(Violation::NoSuchJob { job });
            continue;
        };
        let next = check_turn(row, (job, resumes), placements, found);
        let Some(next) = next else { continue };
        if attempt != next {
            found.push(Violation::WrongAttempt { job, plan: attempt, next });
        }
        let (places, tasks) = (placements.len(), n_tasks(&row.spec));
        if places != tasks {
            found.push(Violation::WrongNumberOfTasks { job, places, tasks });
        } else if !is_spread(&row.spec, placements.iter().map(|it| &it.node)) {
            found.push(Violation::WrongSpread { job });
        } else if !resumes && !is_together(world, &row.spec, placements.iter().map(|it| &it.node)) {
            found.push(Violation::NotTogether { job });
        }
        let mut ranks_by_part = BTreeMap::<Option<usize>, BTreeSet<_>>::new();
        for (at, placement) in placements.iter().enumerate() {
            let rank = u32::try_from(at).unwrap_or(u32::MAX);
            let part = row.spec.part_of(rank).map(|(part, _)| part);
            let task = TaskId { job, attempt, rank };
            let row = &*of_task(row, at);
            check_placement(row, (task, is_claim), placement, tally, found);
            ranks_by_part.entry(part).or_default().extend(ranks_of(row, placement, tally));
        }
        if ranks_by_part.values().any(|ranks| ranks.len() > 1) {
            found.push(Violation::MixedKinds { job });
        }
    }
}

/// Checks that a job waits to start, or to resume on its devices, and returns the attempt that it
/// would start as; `None` for an array as a whole.
fn check_turn(
    row: &JobRow,
    (job, resumes): (JobId, bool),
    placements: &[Placement],
    found: &mut Vec<Violation>,
) -> Option<Attempt> {
    let waits = match &row.job.phase {
        Phase::Pending { .. } => !resumes,
        Phase::Paused { held: None, .. } => resumes && is_parked(row),
        _ => false,
    };
    if !waits {
        found.push(Violation::NotPending { job, state: row.job.phase.state() });
    }
    if resumes && *placements != places_of(row) {
        found.push(Violation::GoesOnElsewhere { job });
    }
    match &row.job.array {
        None => Some(row.job.attempt),
        // Only elements start, never the array.
        Some(_) if job.element.is_none() => {
            found.push(Violation::WrongArray {
                job,
                what: "the whole array is started instead of its elements",
            });
            None
        }
        Some(array) => Some(attempt_of(row, array, job)),
    }
}

/// Returns which models of the request the devices of a placement match; for a job of several
/// nodes, also the names of the models.
fn ranks_of<'t>(
    row: &JobRow,
    placement: &Placement,
    tally: &Tally<'t>,
) -> BTreeSet<(usize, Option<&'t str>)> {
    let by_name = row.spec.gang.nodes > 1;
    let node = tally.nodes.get(&placement.node).map(|tally| tally.node);
    let device = |uuid: &DeviceUuid| node?.devices.iter().find(|device| device.uuid == *uuid);
    let devices = placement.slots.iter().filter_map(|slot| device(&slot.device));
    let name = |device: &'t Device| by_name.then_some(device.model.as_str());
    let rank = |device: &'t Device| Some((row.spec.gpus.rank_of(device)?, name(device)));
    devices.filter_map(rank).collect()
}

/// A job that a plan evicts.
#[derive(Clone, Copy)]
struct Eviction {
    position: usize,
    job: JobId,
    attempt: Attempt,
    exit: Exit,
}

/// A plan evicts only jobs that hold something and may be evicted, each once, and for a job that
/// starts with the freed capacity (scheduling.md E7).
fn check_eviction(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    eviction: Eviction,
    beneficiary: JobId,
    tally: &mut Tally<'_>,
    found: &mut Vec<Violation>,
) {
    let Eviction { position, job, attempt, exit } = eviction;
    let mut wrong = |what| found.push(Violation::WrongEviction { job, what });
    let Some(row) = snapshot.world.job(job) else { return wrong("it does not exist") };
    if !matches!(row.job.phase, Phase::Starting { .. } | Phase::Running { .. }) {
        wrong("it has no devices that it could release");
    }
    let can_pause = |node: &NodeName| {
        let node = snapshot.world.node(node);
        node.is_some_and(|row| row.node.capacity.get(&ResourceKind::PauseMemory) > 0)
    };
    if exit == Exit::Pause
        && (!matches!(row.job.phase, Phase::Running { .. })
            || row.spec.joins.is_some()
            || row.spec.gang.nodes_most != row.spec.gang.nodes
            || !row.spec.parts.is_empty()
            || row.spec.yields().is_none()
                && !row.job.phase.allocations().iter().all(|it| can_pause(&it.node)))
    {
        wrong("it can't be paused");
    }
    if row.job.attempt != attempt {
        wrong("it is in another attempt");
    }
    if row.spec.life.preemptible != Some(true) {
        wrong("it is not preemptible");
    } else if !row.spec.life.allowed_exits().contains(&exit) {
        wrong("it does not allow this exit");
    }
    let claims = |decision: &Decision| match decision {
        Decision::Start { job, after, .. } | Decision::Resume { job, after, .. } => {
            *job == beneficiary && after.iter().any(|it| usize::try_from(*it) == Ok(position))
        }
        Decision::Evict { .. } => false,
    };
    if !plan.decisions.iter().any(claims) {
        wrong("its beneficiary does not start");
    }
    let is_it = |other: &Decision| matches!(other, Decision::Evict { job: it, .. } if *it == job);
    if plan.decisions[..position].iter().any(is_it) {
        wrong("it is evicted twice");
    }
    for allocation in row.job.phase.allocations() {
        if let Some(node) = tally.nodes.get_mut(&allocation.node) {
            let paused =
                (exit == Exit::Pause).then(|| pause_memory(node.node, &row.spec, allocation));
            node.release(allocation, paused);
            let is_kept = paused.is_some_and(|bytes| !bytes.is_zero());
            let memory = node.node.capacity.get(&ResourceKind::Memory);
            // The other victims may still have theirs.
            let taken = node.booked_later.get(&ResourceKind::Memory).max(node.memory_now.get());
            if is_kept && taken > memory {
                found.push(Violation::WrongEviction {
                    job,
                    what: "its node has no memory to pause it",
                });
            }
        }
    }
}

/// No user gets more than the caps allow.
pub(crate) fn check_quotas(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    mut users: Users,
    found: &mut Vec<Violation>,
) {
    if users::is_open(snapshot.world, policy) {
        return;
    }
    for decision in &plan.decisions {
        let Some((job, _)) = decision.started() else { continue };
        let Some(row) = row_of(snapshot.world, job) else { continue };
        if users.is_capped(snapshot.world, policy, row) {
            found.push(Violation::OverQuota { job, uid: row.spec.owner.uid });
        }
        users.add(snapshot.world, row);
    }
}

fn check_placement(
    row: &JobRow,
    (task, is_claim): (TaskId, bool),
    placement: &Placement,
    tally: &mut Tally<'_>,
    found: &mut Vec<Violation>,
) {
    let (job, spec) = (task.job, &row.spec);
    let Some(node) = tally.nodes.get_mut(&placement.node) else {
        found.push(Violation::NoSuchNode { job, node: placement.node.clone() });
        return;
    };
    if !node.node.is_reachable() {
        found.push(Violation::NotConnected { job, node: placement.node.clone() });
    }
    if node.node.drain.is_some() {
        found.push(Violation::NodeDrained { job, node: placement.node.clone() });
    }
    // A paused job may stay where it is.
    if !is_parked(row) {
        let node_name = || placement.node.clone();
        if !is_of(node.node, spec.pool.as_ref(), None) {
            found.push(Violation::WrongPool { job, node: node_name() });
        }
        let lacking = &row.job.course.lacking_nodes;
        if !is_of(node.node, None, spec.nodes.as_deref())
            || lacking.iter().any(|it| it.node == placement.node)
            || (spec.container.is_some() && node.node.facts.engine.is_none())
        {
            found.push(Violation::WrongNode { job, node: node_name() });
        }
    }
    check_devices(spec, (task, is_claim), placement, node, found);
    if node.is_occupied(Some(job), spec.is_exclusive(), is_claim) {
        found.push(Violation::NotAlone { job, node: placement.node.clone() });
    }
    let presence = Tenancy { is_alone: spec.is_exclusive(), is_releasing: false };
    node.running.insert(task, presence);
    let resources = taken_by(row, &placement.slots);
    add(&mut node.booked, &resources);
    add(&mut node.booked_later, &resources);
    if !is_claim {
        node.add_memory_now(&resources);
    }
    let is_own = |it: &&gpool_model::Allocation| it.task.rank == task.rank;
    let paused = row.job.phase.allocations().iter().find(is_own);
    if let Some(paused) = paused.filter(|_| is_parked(row) && !is_claim) {
        node.resume(paused);
    }
    for kind in HOST_KINDS {
        // A claim waits for all jobs that leave.
        let sum = if is_claim { &node.booked_later } else { &node.booked };
        let (capacity, booked) = (capacity(node.node, &kind), sum.get(&kind));
        // A kind that others overbook does not exclude a job that asks for none of it.
        if booked > capacity && resources.get(&kind) > 0 {
            let node = placement.node.clone();
            found.push(Violation::Overbooked { node, kind, capacity, booked });
        }
    }
}

fn check_devices(
    spec: &JobSpec,
    (task, is_claim): (TaskId, bool),
    placement: &Placement,
    node: &mut NodeTally<'_>,
    found: &mut Vec<Violation>,
) {
    let job = task.job;
    let sharer = spec.sharer(spec.owner.uid);
    let sharer = sharer.as_ref();
    let n_requested = spec.gpus.n_devices();
    if usize::try_from(n_requested).is_ok_and(|asked| asked != placement.slots.len()) {
        let n_assigned = placement.slots.len();
        found.push(Violation::WrongNumberOfDevices { job, n_requested, n_assigned });
    }
    if !placement.slots.is_sorted_by(|one, next| one.index < next.index) {
        found.push(Violation::SlotsOutOfOrder { job, node: placement.node.clone() });
    }
    for slot in &placement.slots {
        let uuid = slot.device.clone();
        let Some(device) = node.node.devices.iter().find(|device| device.uuid == uuid) else {
            let node = placement.node.clone();
            found.push(Violation::NoSuchDevice { job, node, device: uuid });
            continue;
        };
        if slot.index != device.index {
            let (slot_index, index) = (slot.index, device.index);
            found.push(Violation::WrongIndex { job, device: uuid.clone(), slot_index, index });
        }
        if spec.gpus.rank_of(device).is_none() {
            found.push(Violation::WrongKind { job, device: uuid.clone() });
        }
        if let Some(why) = unusable(node.node, device) {
            found.push(Violation::DeviceUnusable { job, device: uuid.clone(), why });
        }
        if slot.part != part_of(&spec.gpus, device) {
            found.push(Violation::WrongPart { job, device: uuid.clone() });
        }
        let (memory, part) = (device.memory, slot.part);
        let holders = node.holders.entry(uuid.clone()).or_default();
        let is_alone = |holding: &&Holding| has_all(part) || has_all(holding.part);
        let is_in_the_way = |holding: &&Holding| !(is_claim && holding.is_releasing);
        let first = holders.iter().filter(is_in_the_way).find(is_alone);
        let first = first.map(|holding| holding.task);
        holders.push(Holding { task, part, is_releasing: false, is_claim });
        match first {
            Some(first) => {
                let (node, second) = (placement.node.clone(), task);
                found.push(Violation::DeviceGivenTwice { node, device: uuid, first, second });
            }
            None => {
                let together: Vec<Holding> =
                    holders.iter().filter(is_in_the_way).copied().collect();
                check_shared(&placement.node, &uuid, memory, &together, found);
                let mut others = together.iter().map(|it| it.task.job);
                if let Some(first) = others.find(|it| !node.may_share(sharer, *it)) {
                    found.push(Violation::MayNotShare(uuid, first, job));
                }
            }
        }
    }
}

/// Returns what a request asks of one device, computed independently.
fn part_of(gpus: &GpuRequest, device: &Device) -> SlotPart {
    let whole = u128::from(MilliGpu::DEVICE.get());
    let has = u128::from(device.memory.get());
    let amount = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
    match gpus.share() {
        None if device.instance.is_some() => {
            SlotPart::Instance { charge: MilliGpu::new(milli_of(device)) }
        }
        None => SlotPart::Whole,
        Some(Share::Part { request, limit }) => {
            let of = |part: MilliGpu| Bytes::new(amount(u128::from(part.get()) * has / whole));
            SlotPart::Share { charge: request, memory: of(request), limit: of(limit) }
        }
        Some(Share::Memory { request: memory, limit }) => {
            let asked = u128::from(memory.get()) * whole;
            let below = asked.checked_div(has).unwrap_or(0);
            let charge = below + u128::from(below * has < asked && has > 0);
            let limit = Bytes::new(limit.get().min(device.memory.get()).max(memory.get()));
            SlotPart::Share { charge: MilliGpu::new(amount(charge)), memory, limit }
        }
    }
}

/// A task that has all of a device has it alone, and shares do not exceed the device's memory.
pub(crate) fn check_shared(
    node: &NodeName,
    device: &DeviceUuid,
    memory: Bytes,
    holders: &[Holding],
    found: &mut Vec<Violation>,
) {
    let mut push = |violation| {
        if !found.contains(&violation) {
            found.push(violation);
        }
    };
    let mut by_task = holders.to_vec();
    by_task.sort_unstable();
    let whole = by_task.iter().position(|holding| has_all(holding.part));
    if let (Some(whole), [first, second, ..]) = (whole, &by_task[..]) {
        let pair = if whole == 0 { (first, second) } else { (first, &by_task[whole]) };
        let (first, second) = (pair.0.task, pair.1.task);
        let (node, device) = (node.clone(), device.clone());
        push(Violation::DeviceGivenTwice { node, device, first, second });
        return;
    }
    let booked = holders.iter().map(|holding| holding.part.memory_of(memory));
    let booked = booked.fold(Bytes::ZERO, Bytes::saturating_add);
    if booked > memory {
        let (node, device) = (node.clone(), device.clone());
        push(Violation::SharesTooLarge { node, device, memory, booked });
    }
}
