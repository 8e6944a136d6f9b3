//! Checks that planned starts can be kept, are the earliest possible, and go to the right jobs.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    Decision, JobId, Node, NodeName, OrderKey, Placement, Plan, PlannedStarts, Policy, Reason,
    Shape, ShareBetween, Timestamp,
};
use gpool_world::{JobRow, Snapshot};

use crate::arrays::{Running, row_of, waiting_rows};
use crate::course::{AllocationTimeline, reservation_turns, reserved, started, stretch};
use crate::job::{
    domain, fit_of, is_escalated, is_spread, is_together, n_tasks, of_task, pending, taken_by,
};
use crate::order::compare;
use crate::projects::{are_bounded, are_shared};
use crate::shape::shape_of;
use crate::tally::unusable;
use crate::users::Users;
use crate::violation::Violation;

/// The largest number of planned starts under [`PlannedStarts::All`].
const ALL_MAX: usize = 100;
/// After this many shapes without a known start the scheduler plans no more starts.
const UNKNOWN_MAX: usize = 8;

/// Every planned start can be kept: its placement becomes free in time and stays free, whatever the
/// plan starts. Looks only at the nodes of planned starts.
pub(crate) fn check_feasible(snapshot: &Snapshot<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if plan.planned.is_empty() {
        return;
    }
    let world = snapshot.world;
    let nodes: BTreeSet<&NodeName> =
        plan.planned.iter().flat_map(|it| &it.placements).map(|it| &it.node).collect();
    let rows = nodes.iter().filter_map(|node| world.node(node));
    let tasks = rows.flat_map(|row| &row.here);
    let jobs: BTreeSet<JobId> = tasks.map(|task| task.job).collect();
    let jobs = jobs.into_iter().filter_map(|job| world.job(job));
    let mut course = AllocationTimeline::of(snapshot, jobs, Some(&nodes));
    for decision in &plan.decisions {
        let Some((job, placements)) = decision.started() else { continue };
        add_started(snapshot, plan, &mut course, (job, placements));
    }
    let mut seen = BTreeSet::new();
    for planned in &plan.planned {
        let job = planned.job;
        let waits = |row: &&JobRow| is_escalated(row, world.policy(), snapshot.now).is_some();
        let row = row_of(world, job).filter(waits);
        let starts =
            |decision: &Decision| decision.started().is_some_and(|(started, _)| started == job);
        let once = seen.insert(job) && !plan.decisions.iter().any(starts);
        let Some(row) = row.filter(|_| once && planned.at > snapshot.now) else {
            found.push(Violation::PlannedForNobody { job });
            continue;
        };
        let shape = shape_of(world, row);
        let (places, tasks) = (planned.placements.len(), n_tasks(&row.spec));
        if places != tasks {
            found.push(Violation::WrongNumberOfTasks { job, places, tasks });
        } else if !is_spread(&row.spec, planned.placements.iter().map(|it| &it.node)) {
            found.push(Violation::WrongSpread { job });
        }
        let is_paused = !shape.fit.at.is_empty();
        let nodes = planned.placements.iter().map(|it| &it.node);
        if !is_paused && !is_together(world, &row.spec, nodes) {
            found.push(Violation::NotTogether { job });
        }
        for (rank, placement) in planned.placements.iter().enumerate() {
            let node = world.node(&placement.node).map(|row| &row.node);
            let place = (planned.at, placement);
            let row = &*of_task(row, rank);
            let shape = Shape { fit: fit_of(row), ..shape.clone() };
            if !node.is_some_and(|node| is_free(snapshot, &course, node, place, row, &shape)) {
                let (at, node) = (planned.at, placement.node.clone());
                found.push(Violation::PlannedNotFree { job, at, node });
            }
            course.add(placement, row, stretch(&shape, planned.at));
        }
    }
}

fn add_started<'a>(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    course: &mut AllocationTimeline<'a>,
    (job, placements): (JobId, &'a [Placement]),
) {
    course.take_back_for(snapshot, plan, job);
    let Some(row) = row_of(snapshot.world, job) else { return };
    if let Some(when) = started(snapshot, job) {
        course.free_paused_memory(job, when.until);
        course.add_all(placements, row, when);
    }
}

fn is_free(
    snapshot: &Snapshot<'_>,
    course: &AllocationTimeline<'_>,
    node: &Node,
    (at, placement): (Timestamp, &Placement),
    row: &JobRow,
    shape: &Shape,
) -> bool {
    let when = stretch(shape, at);
    let device =
        |uuid: &gpool_model::DeviceUuid| node.devices.iter().find(|device| device.uuid == *uuid);
    let devices: Option<Vec<_>> = placement.slots.iter().map(|slot| device(&slot.device)).collect();
    let Some(devices) = devices else { return false };
    let gpus = &row.spec.gpus;
    let ranks: BTreeSet<_> = devices.iter().map(|device| gpus.rank_of(device)).collect();
    node.is_reachable()
        && node.drain.is_none()
        && u32::try_from(devices.len()) == Ok(gpus.n_devices())
        && ranks.len() <= 1
        && !ranks.contains(&None)
        && !reserved(snapshot, node, None, shape, when)
        && (shape.fit.at.is_empty() || shape.fit.at.contains(placement))
        && !course.is_occupied(&node.name, Some(row.job.id), row.spec.is_exclusive(), when)
        && course.short_of(node, &taken_by(row, &placement.slots), when).is_none()
        && devices.iter().all(|device| {
            unusable(node, device).is_none()
                && !reserved(snapshot, node, Some(device), shape, when)
                && course.has_device((snapshot.world, node), device, &shape.fit, when)
        })
}

/// The planned starts are the ones that the policy asks for, each at the earliest time. Recomputed
/// by a test of every moment on every node.
pub(crate) fn check_all(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    users: &Users,
    found: &mut Vec<Violation>,
) {
    // This check recomputes neither the order between projects nor their quotas.
    if are_bounded(snapshot.world, policy) {
        return;
    }
    let expected = expected(snapshot, policy, plan, users.clone());
    let planned: Vec<(JobId, Timestamp)> = plan.planned.iter().map(|it| (it.job, it.at)).collect();
    for (at, one) in expected.iter().enumerate() {
        if planned.get(at) != Some(one) {
            let (job, earliest) = *one;
            found.push(Violation::PlannedOtherwise { job, earliest });
            return;
        }
    }
    if let Some((job, _)) = planned.get(expected.len()) {
        found.push(Violation::PlannedForNobody { job: *job });
    }
}

fn expected(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    mut users: Users,
) -> Vec<(JobId, Timestamp)> {
    let world = snapshot.world;
    let starts: BTreeMap<JobId, &[Placement]> =
        (plan.decisions.iter()).filter_map(Decision::started).collect();
    let reasons: BTreeMap<&Shape, &Reason> =
        plan.waits.iter().map(|wait| (&*wait.shape, &wait.reason)).collect();
    let mut rows: Vec<&JobRow> = pending(snapshot).collect();
    rows.sort_by(|one, other| compare(snapshot, policy, one, other));
    let started_jobs = crate::job::started(plan);
    let left: BTreeSet<JobId> =
        waiting_rows(snapshot, &started_jobs).into_iter().map(|(row, _)| row.job.id).collect();
    let running = Running::of(world, plan);
    let mut course = AllocationTimeline::of(snapshot, world.job_rows(), None);
    let mut expected = Vec::new();
    // Each domain has its own planned starts.
    let (mut tops, mut unknown, mut n_planned) = (BTreeSet::new(), BTreeSet::new(), 0);
    let mut current = None;
    for row in rows {
        let of = domain(policy, row);
        if current.replace(of).is_some_and(|before| before != of) {
            (tops, unknown, n_planned) = (BTreeSet::new(), BTreeSet::new(), 0);
        }
        let own_policy = policy.of_pool(row.spec.pool.as_ref());
        for id in started_of(snapshot, &starts, row) {
            if let Some(placements) = starts.get(&id) {
                add_started(snapshot, plan, &mut course, (id, placements));
                users.add(world, row);
            }
        }
        let is_open = left.contains(&row.job.id)
            && n_planned < most(own_policy)
            && unknown.len() < UNKNOWN_MAX
            && !running.is_full_beside(world, row.job.id.number, n_planned_of(&expected, row))
            && !users.is_capped(world, policy, row);
        let shape = shape_of(world, row);
        if !is_open || !reasons.get(&shape).is_some_and(|reason| waits_for_room(reason)) {
            continue;
        }
        let by_priority = own_policy.order.contains(&OrderKey::Priority);
        let is_top = tops.insert(if by_priority { row.job.priority } else { 0 });
        let is_escalated = is_escalated(row, policy, snapshot.now) == Some(true);
        let by_right = is_escalated || own_policy.planned_starts == PlannedStarts::All;
        if !(is_top || by_right) || unknown.contains(&shape) {
            continue;
        }
        let Some(at) = start_of(snapshot, plan, &course, (row, &shape)) else {
            unknown.insert(shape);
            continue;
        };
        // The plan chooses the devices; another check covers them.
        let id = row.job.id;
        let own = plan.planned.iter().find(|it| is_of(row, it.job) && it.at == at);
        let placements = own.map_or(&[][..], |it| &it.placements);
        course.add_all(placements, row, stretch(&shape, at));
        expected.push((own.map_or(id, |it| it.job), at));
        n_planned += 1;
        users.add(world, row);
        if own.is_none() {
            break;
        }
    }
    expected
}

/// The earliest start of a job. Whether all parts of a job fit at once depends on where each goes,
/// so theirs is that of the plan.
fn start_of(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    course: &AllocationTimeline<'_>,
    (row, shape): (&JobRow, &Shape),
) -> Option<Timestamp> {
    match shape.parts.is_empty() {
        true => earliest(snapshot, course, shape),
        false => plan.planned.iter().find(|it| is_of(row, it.job)).map(|it| it.at),
    }
}

/// How many planned starts elements of a job's array have.
fn n_planned_of(expected: &[(JobId, Timestamp)], row: &JobRow) -> u32 {
    let number = row.job.id.number;
    let own = expected.iter().filter(|(job, _)| job.number == number && job.element.is_some());
    u32::try_from(own.count()).unwrap_or(u32::MAX)
}

/// The largest number of planned starts under a policy.
fn most(policy: &Policy) -> usize {
    match policy.planned_starts {
        PlannedStarts::AtMost(most) => usize::try_from(most).unwrap_or(usize::MAX).min(ALL_MAX),
        PlannedStarts::All => ALL_MAX,
    }
}

/// The jobs that a plan starts from a row: the job itself, or new elements of an array.
fn started_of(
    snapshot: &Snapshot<'_>,
    starts: &BTreeMap<JobId, &[Placement]>,
    row: &JobRow,
) -> Vec<JobId> {
    match &row.job.array {
        None => vec![row.job.id],
        Some(_) => {
            let of = |element| JobId { element, ..row.job.id };
            let elements = starts.range(of(Some(0))..=of(Some(u32::MAX)));
            let elements = elements.map(|(id, _)| *id);
            elements.filter(|id| snapshot.world.job(*id).is_none()).collect()
        }
    }
}

/// Whether a job is the one of this row, or an element of its array.
fn is_of(row: &JobRow, job: JobId) -> bool {
    match row.job.array {
        None => job == row.job.id,
        Some(_) => job.number == row.job.id.number && job.element.is_some(),
    }
}

fn waits_for_room(reason: &Reason) -> bool {
    if let Reason::OfPart { reason, .. } = reason {
        return waits_for_room(reason);
    }
    if let Reason::NodesNotFree { need, able, .. } | Reason::TasksNotFree { need, able, .. } =
        reason
    {
        return able >= need;
    }
    !matches!(
        reason,
        Reason::GpuModelMissing { .. }
            | Reason::GpuMemoryTooSmall { .. }
            | Reason::AgentUnreachable { .. }
            | Reason::OnlyInPool { .. }
            | Reason::OnlyOnNodes { .. }
            | Reason::NodeDrained { .. }
    )
}

fn earliest(
    snapshot: &Snapshot<'_>,
    course: &AllocationTimeline<'_>,
    shape: &Shape,
) -> Option<Timestamp> {
    let mut moments = course.ends();
    moments.insert(snapshot.now);
    for _ in 0..2 {
        let more: Vec<_> = moments.iter().flat_map(|at| reservation_turns(snapshot, *at)).collect();
        moments.extend(more);
    }
    moments.into_iter().find(|at| {
        let when = stretch(shape, *at);
        course.has_places(snapshot, shape, when).is_some()
    })
}

/// Whether a job comes after another in queue order.
pub(crate) fn comes_after(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    row: &JobRow,
    other: JobId,
) -> bool {
    let other = row_of(snapshot.world, other);
    other.is_some_and(|other| {
        // The order between projects, and between their users, changes with what they hold.
        let is_apart = domain(policy, row) != domain(policy, other)
            || row.spec.project != other.spec.project
            || policy.share_between == ShareBetween::Users
                && row.spec.owner.uid != other.spec.owner.uid;
        are_shared(snapshot.world, policy) && (is_apart || !asks_no_more(row, other))
            || compare(snapshot, policy, row, other) == Ordering::Greater
    })
}

/// Whether one job may have everything that another may. A job that asks for more than its
/// project's own comes after one that does not, regardless of the order.
fn asks_no_more(row: &JobRow, other: &JobRow) -> bool {
    let (one, other) = (&row.spec, &other.spec);
    one.life.preemptible == other.life.preemptible
        && one.gpus_together() <= other.gpus_together()
        && one.cpus <= other.cpus
        && one.memory <= other.memory
        && n_tasks(one) <= n_tasks(other)
        && one.parts.is_empty()
}
