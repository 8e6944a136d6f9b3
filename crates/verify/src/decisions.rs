//! Whether what a plan starts may start, where it says.

use std::collections::BTreeSet;

use gpool_model::{
    Bytes, Decision, Device, DeviceUuid, GpuRequest, JobSpec, MilliGpu, NodeName, Phase, Placement,
    Plan, Policy, ResourceKind, Share, SlotPart, TaskId,
};
use gpool_world::Snapshot;

use crate::arrays::{Running, attempt_of, row_of};
use crate::tally::{Holding, NodeTally, Tally, add, unusable};
use crate::users::Users;
use crate::violation::Violation;

/// How many tasks a job has; gangs come with several.
pub(crate) const N_TASKS: usize = 1;

/// Checks every decision in turn and books it, so that the next one meets what this one took.
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
    Running::of(world, plan).check(world, found);
    let mut started = BTreeSet::new();
    for (position, decision) in plan.decisions.iter().enumerate() {
        let Decision::Start { job, attempt, placements, after } = decision;
        let (job, attempt) = (*job, *attempt);
        for after in after {
            if usize::try_from(*after).is_ok_and(|after| after >= position) {
                found.push(Violation::AfterLater { decision: position, after: *after });
            }
        }
        if !started.insert(job) {
            found.push(Violation::StartedTwice { job });
        }
        let Some(row) = row_of(world, job) else {
            found.push(Violation::NoSuchJob { job });
            continue;
        };
        if !matches!(row.job.phase, Phase::Pending { .. }) {
            found.push(Violation::NotPending { job, state: row.job.phase.state() });
        }
        let next = match &row.job.array {
            None => row.job.attempt,
            // It is its elements that start, not the array.
            Some(_) if job.element.is_none() => {
                found.push(Violation::WrongArray { job, what: "it is started as a whole" });
                continue;
            }
            Some(array) => attempt_of(row, array, job),
        };
        if attempt != next {
            found.push(Violation::WrongAttempt { job, plan: attempt, next });
        }
        if placements.len() != N_TASKS {
            let (places, tasks) = (placements.len(), N_TASKS);
            found.push(Violation::WrongNumberOfTasks { job, places, tasks });
        }
        for (rank, placement) in placements.iter().enumerate() {
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            let task = TaskId { job, attempt, rank };
            check_placement(&row.spec, task, placement, tally, found);
        }
    }
}

/// No user is given more than he may have.
pub(crate) fn check_quotas(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    mut users: Users,
    found: &mut Vec<Violation>,
) {
    if policy.user_caps.is_none() {
        return;
    }
    for decision in &plan.decisions {
        let Decision::Start { job, .. } = decision;
        let Some(row) = row_of(snapshot.world, *job) else { continue };
        if users.is_capped(policy, row) {
            found.push(Violation::OverQuota { job: *job, uid: row.spec.owner.uid });
        }
        users.add(row.spec.owner.uid, row.spec.gpus.size().get());
    }
}

fn check_placement(
    spec: &JobSpec,
    task: TaskId,
    placement: &Placement,
    tally: &mut Tally<'_>,
    found: &mut Vec<Violation>,
) {
    let job = task.job;
    let Some(node) = tally.nodes.get_mut(&placement.node) else {
        found.push(Violation::NoSuchNode { job, node: placement.node.clone() });
        return;
    };
    if !node.node.connected {
        found.push(Violation::NotConnected { job, node: placement.node.clone() });
    }
    if node.node.drain.is_some() {
        found.push(Violation::NodeDrained { job, node: placement.node.clone() });
    }
    check_devices(spec, task, placement, node, found);
    let resources = spec.resources(&placement.slots);
    add(&mut node.booked, &resources);
    add(&mut node.kept, &resources);
    for kind in [ResourceKind::Cpu, ResourceKind::Memory, ResourceKind::Tasks] {
        let (capacity, booked) = (node.node.capacity.get(&kind), node.booked.get(&kind));
        // Who asks for none of a kind is not kept out by others who overbooked it.
        if booked > capacity && resources.get(&kind) > 0 {
            let node = placement.node.clone();
            found.push(Violation::Overbooked { node, kind, capacity, booked });
        }
    }
}

fn check_devices(
    spec: &JobSpec,
    task: TaskId,
    placement: &Placement,
    node: &mut NodeTally<'_>,
    found: &mut Vec<Violation>,
) {
    let job = task.job;
    let asked = spec.gpus.n_devices();
    if usize::try_from(asked).is_ok_and(|asked| asked != placement.slots.len()) {
        let given = placement.slots.len();
        found.push(Violation::WrongNumberOfDevices { job, asked, given });
    }
    if !placement.slots.is_sorted_by(|one, next| one.index < next.index) {
        found.push(Violation::SlotsOutOfOrder { job, node: placement.node.clone() });
    }
    let mut ranks = BTreeSet::new();
    for slot in &placement.slots {
        let uuid = slot.device.clone();
        let Some(device) = node.node.devices.iter().find(|device| device.uuid == uuid) else {
            let node = placement.node.clone();
            found.push(Violation::NoSuchDevice { job, node, device: uuid });
            continue;
        };
        if slot.index != device.index {
            let (given, index) = (slot.index, device.index);
            found.push(Violation::WrongIndex { job, device: uuid.clone(), given, index });
        }
        match spec.gpus.rank_of(device) {
            Some(rank) => drop(ranks.insert(rank)),
            None => found.push(Violation::WrongKind { job, device: uuid.clone() }),
        }
        if let Some(why) = unusable(node.node, device) {
            found.push(Violation::DeviceUnusable { job, device: uuid.clone(), why });
        }
        if slot.part != part_of(&spec.gpus, device) {
            found.push(Violation::WrongPart { job, device: uuid.clone() });
        }
        let (memory, part) = (device.memory, slot.part);
        let holders = node.holders.entry(uuid.clone()).or_default();
        let is_alone = |holding: &&Holding| [part, holding.part].contains(&SlotPart::Whole);
        let first = holders.iter().find(is_alone).map(|holding| holding.task);
        holders.push(Holding { task, part, is_releasing: false, is_claim: false });
        match first {
            Some(first) => {
                let (node, second) = (placement.node.clone(), task);
                found.push(Violation::DeviceGivenTwice { node, device: uuid, first, second });
            }
            None => check_shared(&placement.node, &uuid, memory, holders, found),
        }
    }
    if ranks.len() > 1 {
        found.push(Violation::MixedKinds { job });
    }
}

/// What a request asks of one device, counted by itself.
fn part_of(gpus: &GpuRequest, device: &Device) -> SlotPart {
    let whole = u128::from(MilliGpu::DEVICE.get());
    let has = u128::from(device.memory.get());
    let amount = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
    match gpus.share() {
        None => SlotPart::Whole,
        Some(Share::Part(charge)) => {
            let memory = Bytes::new(amount(u128::from(charge.get()) * has / whole));
            SlotPart::Share { charge, memory }
        }
        Some(Share::Memory(memory)) => {
            let asked = u128::from(memory.get()) * whole;
            let below = asked.checked_div(has).unwrap_or(0);
            let charge = below + u128::from(below * has < asked && has > 0);
            SlotPart::Share { charge: MilliGpu::new(amount(charge)), memory }
        }
    }
}

/// Who has all of a device has it alone, and shares of one are no more than it has.
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
    let whole = by_task.iter().position(|holding| holding.part == SlotPart::Whole);
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
