//! Checks whether a state contradicts itself: allocations, ledgers, indexes and records.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::job::JobState;
use gpool_model::{
    Allocation, AllocationState, Attempt, Bytes, Dependency, DependencyKind, DeviceUuid,
    Generation, GpuAmount, JobId, JobSpec, Node, NodeName, Phase, ResourceKind, Resources, Shape,
    SlotPart, Timestamp,
};
use gpool_world::{DeviceLedger, JobRow, NodeRow, PendingQueue, QueueHead, Snapshot, World};

use crate::arrays::{check_row, weight};
use crate::decisions::check_shared;
use crate::job::{is_escalated, is_spread, n_tasks, of_task};
use crate::ledger::{check_capacity, check_ledger};
use crate::projects::check_holdings;
use crate::shape::shape_of;
use crate::tally::{NodeTally, Tally};
use crate::violation::Violation;

pub(crate) fn check(snapshot: &Snapshot<'_>) -> Vec<Violation> {
    let world = snapshot.world;
    let mut found = Vec::new();
    for (id, row) in world.jobs() {
        check_job(snapshot, *id, row, &mut found);
    }
    let tally = Tally::of(world);
    for row in world.nodes() {
        if let Some(counted) = tally.nodes.get(&row.node.name) {
            check_sharing(counted, &mut found);
            check_ledger(row, counted, &mut found);
        }
    }
    check_capacity(world, &mut found);
    check_counts(world, &mut found);
    check_leaving(world, &mut found);
    crate::claims::check(world, &mut found);
    check_queue(snapshot, &mut found);
    check_dependents(world, &mut found);
    crate::users::check_index(world, &mut found);
    check_holdings(world, &mut found);
    check_timer(snapshot, &mut found);
    check_load(snapshot, &mut found);
    found
}

/// The index of leaving jobs has exactly the jobs that leave.
fn check_leaving(world: &World, found: &mut Vec<Violation>) {
    let leaves = |row: &&JobRow| match &row.job.phase {
        Phase::Stopping { .. } => true,
        phase => phase.allocations().iter().any(|it| it.state == AllocationState::Pausing),
    };
    let noted: BTreeSet<JobId> = world.leaving().map(|row| row.job.id).collect();
    let is: BTreeSet<JobId> = world.job_rows().filter(leaves).map(|row| row.job.id).collect();
    let wrong = noted.symmetric_difference(&is);
    found.extend(wrong.map(|job| Violation::WrongLeaving { job: *job }));
}

fn check_job(snapshot: &Snapshot<'_>, id: JobId, row: &JobRow, found: &mut Vec<Violation>) {
    let world = snapshot.world;
    let job = &row.job;
    if job.id != id || row.spec.id != (JobId { element: None, ..id }) {
        found.push(Violation::MixedRecords { job: id });
    }
    if id.number > world.cluster().last_job {
        found.push(Violation::UnassignedNumber { job: id });
    }
    check_row(world, row, found);
    match &job.phase {
        Phase::Ended(_) => found.push(Violation::EndedInMemory { job: id }),
        Phase::Waiting { .. } => {
            if !waits_for_others(snapshot, row) && !waits_for_a_moment(snapshot, row) {
                found.push(Violation::WaitsForNothing { job: id });
            }
        }
        // A moment that has passed stays passed, even if the clock of a later server is behind it.
        Phase::Pending { .. } if waits_for_others(snapshot, row) => {
            found.push(Violation::WaitsAndPending { job: id });
        }
        Phase::Held { .. } | Phase::Pending { .. } | Phase::Underway { .. } => {}
        Phase::Starting { allocations, .. }
        | Phase::Running { allocations, .. }
        | Phase::Paused { allocations, .. }
        | Phase::Stopping { allocations, .. } => {
            if job.generation < Generation(1) {
                found.push(Violation::NotCounted { job: id });
            }
            let (places, tasks) = (allocations.len(), n_tasks(&row.spec));
            if places != tasks {
                found.push(Violation::WrongNumberOfTasks { job: id, places, tasks });
            } else if !is_spread(&row.spec, allocations.iter().map(|it| &it.node)) {
                found.push(Violation::WrongSpread { job: id });
            }
            for (rank, allocation) in allocations.iter().enumerate() {
                check_allocation(world, &of_task(row, rank), rank, allocation, found);
            }
        }
    }
    if job.attempt < Attempt::FIRST {
        found.push(Violation::NotCounted { job: id });
    }
    check_task_courses(row, found);
}

/// In a gang that runs, every task has started; in a gang that holds anything, some task has not
/// ended. Other jobs have no records of tasks.
fn check_task_courses(row: &JobRow, found: &mut Vec<Violation>) {
    let tasks = &row.job.course.tasks;
    let (all, held) = (n_tasks(&row.spec), row.job.phase.allocations());
    let is_counted = tasks.is_empty() || (all > 1 && tasks.len() == all && !held.is_empty());
    let has_begun =
        |ix: usize| tasks.get(ix).is_some_and(|it| it.started_at.is_some() || it.end.is_some());
    let fits = match &row.job.phase {
        Phase::Running { .. } if all > 1 => (0..all).all(has_begun),
        Phase::Starting { .. } => !(0..all).all(has_begun),
        _ => true,
    };
    let is_over = !tasks.is_empty() && tasks.iter().all(|it| it.end.is_some());
    if !is_counted || !fits || is_over {
        found.push(Violation::WrongTaskCourses { job: row.job.id });
    }
}

/// Whether a future moment keeps a job from being considered.
fn waits_for_a_moment(snapshot: &Snapshot<'_>, row: &JobRow) -> bool {
    let course = &row.job.course;
    let moments = [row.spec.life.begin, course.begin, course.backoff_until];
    moments.into_iter().flatten().any(|at| snapshot.now < at)
}

/// Whether other jobs keep a job from being considered, from the records alone.
fn waits_for_others(snapshot: &Snapshot<'_>, row: &JobRow) -> bool {
    let element = row.job.id.element;
    let is_live = |id: JobId| snapshot.world.is_live(id);
    let lives = |dependency: &Dependency| match (dependency.kind, element) {
        (DependencyKind::Each, None) => false,
        (DependencyKind::Each, _) => is_live(JobId { element, ..dependency.job }),
        (DependencyKind::Start, _) => {
            let row = snapshot.world.job(dependency.job);
            is_live(dependency.job) && !row.is_some_and(has_run)
        }
        _ => is_live(dependency.job),
    };
    if row.job.array.as_ref().is_some_and(|array| array.unstarted.is_empty()) {
        return true;
    }
    let (life, course) = (&row.spec.life, &row.job.course);
    course.unmet.is_some()
        || row.spec.after.iter().any(lives)
        || (!course.one_met && !life.after_one.is_empty())
}

/// Whether a job that is neither an array nor an element has run, now or before.
fn has_run(row: &JobRow) -> bool {
    let job = &row.job;
    if job.array.is_some() || job.id.element.is_some() {
        return false;
    }
    match job.phase {
        Phase::Running { .. } | Phase::Paused { .. } | Phase::Stopping { .. } => true,
        _ => job.attempt.0 > Attempt::FIRST.0,
    }
}

fn check_allocation(
    world: &World,
    row: &JobRow,
    rank: usize,
    allocation: &Allocation,
    found: &mut Vec<Violation>,
) {
    let id = row.job.id;
    let task = allocation.task;
    if task.job != id
        || task.attempt != row.job.attempt
        || usize::try_from(task.rank).is_ok_and(|of_task| of_task != rank)
    {
        found.push(Violation::WrongTask { job: id, task });
    }
    let parked = taken_by_paused(&row.spec);
    let may_be_less = match &row.job.phase {
        Phase::Paused { .. } => allocation.is_paused(),
        Phase::Stopping { .. } => true,
        _ => false,
    };
    let mut resources = allocation.resources.clone();
    if matches!(row.job.phase, Phase::Paused { .. } | Phase::Stopping { .. }) {
        resources.set(ResourceKind::PauseMemory, 0);
    }
    let is_less = may_be_less && resources == parked;
    let is_whole = resources == row.spec.resources(0, &allocation.slots);
    if !is_less && (allocation.is_paused() || !is_whole) {
        found.push(Violation::WrongResources { job: id });
    }
    let n_requested = row.spec.gpus.n_devices();
    if usize::try_from(n_requested).is_ok_and(|asked| asked != allocation.slots.len()) {
        let n_assigned = allocation.slots.len();
        found.push(Violation::WrongNumberOfDevices { job: id, n_requested, n_assigned });
    }
    let distinct: BTreeSet<_> = allocation.slots.iter().map(|slot| &slot.device).collect();
    if distinct.len() != allocation.slots.len() {
        let node = allocation.node.clone();
        found.push(Violation::SlotsOutOfOrder { job: id, node });
    }
    let begun = row.job.course.tasks.get(rank).is_some_and(|it| it.started_at.is_some());
    let is_first = begun
        && matches!(row.job.phase, Phase::Starting { .. })
        && allocation.state == AllocationState::Running;
    if !is_first && !is_held_as(&row.job.phase, &allocation.state) {
        let state = row.job.phase.state();
        found.push(Violation::WrongAllocationState { job: id, state });
    }
    let Some(node) = world.node(&allocation.node) else {
        found.push(Violation::NoSuchNode { job: id, node: allocation.node.clone() });
        return;
    };
    check_kinds(&node.node, row, allocation, found);
    if let AllocationState::Paused { home, .. } = &allocation.state
        && !may_resume_for(&node.node, home, allocation)
    {
        found.push(Violation::GoesOnElsewhere { job: id });
    }
}

/// Whether the booked devices of a paused task are of the models of its own: the driver restores on
/// no others.
fn may_resume_for(node: &Node, home: &[DeviceUuid], allocation: &Allocation) -> bool {
    let kind = |uuid: &DeviceUuid| {
        let device = node.devices.iter().find(|device| device.uuid == *uuid);
        device.map(|device| (&device.model, device.memory))
    };
    // Skips devices that were removed from the machine.
    let is_alike = |own: &DeviceUuid, booked: &DeviceUuid| {
        kind(own).zip(kind(booked)).is_none_or(|(own, booked)| own == booked)
    };
    let is_instance = |part: SlotPart| matches!(part, SlotPart::Instance { .. });
    let mut pairs = home.iter().zip(&allocation.slots);
    let n_devices = allocation.slots.len();
    home.is_empty()
        || home.len() == n_devices
            && pairs.all(|(own, it)| !is_instance(it.part) && is_alike(own, &it.device))
}

/// Skips devices that were removed from the machine.
fn check_kinds(node: &Node, row: &JobRow, allocation: &Allocation, found: &mut Vec<Violation>) {
    let job = row.job.id;
    let mut ranks = BTreeSet::new();
    for slot in &allocation.slots {
        let Some(device) = node.devices.iter().find(|device| device.uuid == slot.device) else {
            continue;
        };
        match row.spec.gpus.rank_of_kind(device) {
            Some(rank) => drop(ranks.insert(rank)),
            None => found.push(Violation::WrongKind { job, device: slot.device.clone() }),
        }
        let is_asked = match row.spec.gpus.amount {
            GpuAmount::Whole(_) => slot.part == SlotPart::Whole,
            GpuAmount::Shared { .. } => matches!(slot.part, SlotPart::Share { .. }),
            GpuAmount::Instances { .. } => matches!(slot.part, SlotPart::Instance { .. }),
        };
        if !is_asked {
            found.push(Violation::WrongPart { job, device: slot.device.clone() });
        }
    }
    if ranks.len() > 1 {
        found.push(Violation::MixedKinds { job });
    }
}

fn is_held_as(phase: &Phase, state: &AllocationState) -> bool {
    use AllocationState::{Claimed, Paused, Pausing, Placed, Releasing, Running};
    match phase {
        Phase::Starting { .. } => matches!(state, Claimed { .. } | Placed),
        Phase::Running { .. } => matches!(state, Running),
        Phase::Paused { .. } => matches!(state, Pausing | Paused { .. } | Claimed { .. }),
        Phase::Stopping { .. } => matches!(state, Releasing { .. }),
        Phase::Held { .. }
        | Phase::Waiting { .. }
        | Phase::Pending { .. }
        | Phase::Underway { .. }
        | Phase::Ended(_) => false,
    }
}

/// What a task holds while it is paused.
fn taken_by_paused(spec: &JobSpec) -> Resources {
    Resources::none().with_memory(spec.memory.unwrap_or_default()).with_tasks(1)
}

/// I1: no part of a device belongs to two tasks, unless one of them waits for the other to leave.
fn check_sharing(counted: &NodeTally<'_>, found: &mut Vec<Violation>) {
    let node = &counted.node.name;
    for (uuid, holders) in &counted.holders {
        let device = counted.node.devices.iter().find(|device| device.uuid == *uuid);
        // A removed device has no known size; it may still be shared, or not.
        let memory = device.map_or(Bytes::MAX, |device| device.memory);
        // Two groups share the device: tasks that stay with tasks that have claims, and all present
        // tasks.
        let stays = holders.iter().filter(|holding| !holding.is_releasing).copied();
        let is_there = holders.iter().filter(|holding| !holding.is_claim).copied();
        for together in [stays.collect::<Vec<_>>(), is_there.collect()] {
            check_shared(node, uuid, memory, &together, found);
        }
    }
    let stays = counted.running.iter().filter(|(_, it)| !it.is_releasing);
    for (task, presence) in stays {
        let job = task.job;
        if presence.is_alone && counted.is_occupied(Some(job), true, true) {
            found.push(Violation::NotAlone { job, node: node.clone() });
        }
    }
    for kind in [ResourceKind::Cpu, ResourceKind::Memory, ResourceKind::Tasks] {
        let (capacity, booked) =
            (counted.node.capacity.get(&kind), counted.booked_later.get(&kind));
        if booked > capacity {
            found.push(Violation::Overbooked { node: node.clone(), kind, capacity, booked });
        }
    }
}

fn check_counts(world: &World, found: &mut Vec<Violation>) {
    let mut counts = BTreeMap::<JobState, u64>::new();
    for row in world.job_rows() {
        let state = row.job.phase.state();
        match &row.job.array {
            None => *counts.entry(state).or_default() += 1,
            Some(array) => {
                let part = u64::from(array.waiting.len());
                let is_pending = state == JobState::Pending;
                let apart = if is_pending { JobState::Waiting } else { state };
                *counts.entry(state).or_default() += weight(row);
                *counts.entry(apart).or_default() += part;
            }
        }
    }
    counts.retain(|_, n| *n > 0);
    let holds = |row: &&JobRow| !row.job.phase.allocations().is_empty();
    let holding: Vec<JobId> = world.job_rows().filter(holds).map(|row| row.job.id).collect();
    let indexed: Vec<JobId> = world.holding().map(|row| row.job.id).collect();
    if holding != indexed {
        let about = format!("{indexed:?}, counted {holding:?}");
        found.push(Violation::WrongIndexEntry { index: "jobs with allocations", about });
    }
    if counts != *world.n_by_state() {
        let about = format!("{:?}, counted {counts:?}", world.n_by_state());
        found.push(Violation::WrongIndexEntry { index: "states", about });
    }
}

/// Pending jobs by shape, each with whether it is escalated.
type ByShape = BTreeMap<Shape, BTreeSet<(bool, Timestamp, JobId)>>;

fn check_queue(snapshot: &Snapshot<'_>, found: &mut Vec<Violation>) {
    let world = snapshot.world;
    let mut expected = ByShape::new();
    let mut n_pending = 0;
    for (id, row) in world.jobs() {
        if let Some(is_escalated) = is_escalated(row, world.policy(), snapshot.now) {
            n_pending += weight(row);
            let entry = (is_escalated, row.spec.submitted_at, *id);
            expected.entry(shape_of(world, row)).or_default().insert(entry);
        }
    }
    let mut wrong = |about: String| {
        found.push(Violation::WrongIndexEntry { index: "pending jobs", about });
    };
    if world.n_pending() != n_pending {
        wrong(format!("their number {}, counted {n_pending}", world.n_pending()));
    }
    for (ix, queue) in world.shapes() {
        let of = |set: &BTreeSet<(Timestamp, JobId)>, is_escalated| -> Vec<_> {
            set.iter().map(|(at, job)| (is_escalated, *at, *job)).collect()
        };
        let mut indexed: BTreeSet<_> = of(&queue.fresh, false).into_iter().collect();
        indexed.extend(of(&queue.escalated, true));
        let counted = expected.remove(&queue.shape).unwrap_or_default();
        if indexed != counted {
            wrong(format!("{:?}: {indexed:?}, counted {counted:?}", queue.shape));
        }
        let n_jobs = indexed.iter().filter_map(|(_, _, job)| world.job(*job)).map(weight).sum();
        if queue.n_jobs() != n_jobs {
            wrong(format!("{:?}: {} jobs, counted {n_jobs}", queue.shape, queue.n_jobs()));
        }
        for (is_escalated, _, job) in indexed {
            if world.place_of(job) != Some((ix, is_escalated)) {
                wrong(format!("the place of job {job}"));
            }
        }
    }
    for shape in expected.keys() {
        wrong(format!("a set of {shape:?}, which is another shape"));
    }
}

fn check_dependents(world: &World, found: &mut Vec<Violation>) {
    let mut expected = BTreeMap::<JobId, BTreeSet<JobId>>::new();
    for (id, row) in world.jobs() {
        let is_waiting = matches!(
            row.job.phase,
            Phase::Waiting { .. } | Phase::Held { .. } | Phase::Pending { .. }
        );
        let in_part = row.job.array.as_ref().is_some_and(|array| !array.waiting.is_empty());
        let awaits = |kind| is_waiting || (in_part && kind == DependencyKind::Each);
        let one = row.spec.life.after_one.iter().filter(|_| is_waiting);
        for after in row.spec.after.iter().filter(|after| awaits(after.kind)).chain(one) {
            expected.entry(after.job).or_default().insert(*id);
        }
    }
    let asked: BTreeSet<JobId> = world.jobs().keys().chain(expected.keys()).copied().collect();
    for job in asked {
        let indexed: BTreeSet<JobId> = world.dependents(job).collect();
        if indexed != expected.remove(&job).unwrap_or_default() {
            let about = format!("the jobs that depend on job {job}");
            found.push(Violation::WrongIndexEntry { index: "dependent jobs", about });
        }
    }
}

/// The world's timers include every moment at which time alone changes a waiting job.
fn check_timer(snapshot: &Snapshot<'_>, found: &mut Vec<Violation>) {
    let next = snapshot.world.next_timer();
    for (id, row) in snapshot.world.jobs() {
        let (life, course) = (&row.spec.life, &row.job.course);
        let limit = row.spec.time_limit.map_or(0, |limit| limit.get());
        let late = life.deadline.map(|at| Timestamp::new(at.get().saturating_sub(limit) + 1));
        let moments = match &row.job.phase {
            Phase::Held { .. } => [course.release_at, late],
            Phase::Waiting { .. } => [life.begin.max(course.begin).max(course.backoff_until), late],
            Phase::Pending { .. } => [None, late],
            _ => [None; 2],
        };
        for at in moments.into_iter().flatten().filter(|at| *at > snapshot.now) {
            if next.is_none_or(|next| next > at) {
                found.push(Violation::WrongIndexEntry {
                    index: "moments of jobs",
                    about: format!("job {id} has one at {at:?}, the next is {next:?}"),
                });
            }
        }
    }
}

/// The records alone build the same state.
fn check_load(snapshot: &Snapshot<'_>, found: &mut Vec<Violation>) {
    let world = snapshot.world;
    let mut differs = |how: String| found.push(Violation::LoadsDifferently { how });
    let mut loaded = match World::load(world.revision(), world.records()) {
        Ok(loaded) => loaded,
        Err(error) => return differs(error.to_string()),
    };
    loaded.advance(snapshot.now);
    if loaded.records() != world.records() {
        differs("its records".to_owned());
    }
    for row in world.nodes() {
        let name: &NodeName = &row.node.name;
        let same = loaded.node(name).is_some_and(|other| {
            let of = |row: &NodeRow| (row.cpu, row.memory, row.tasks);
            let devices = |row: &NodeRow| -> Vec<_> {
                let device = |it: &DeviceLedger| (it.free, it.memory, it.holders.clone());
                row.devices.iter().map(device).collect()
            };
            of(row) == of(other) && devices(row) == devices(other)
        });
        if !same {
            differs(format!("the ledger of node {name}"));
        }
    }
    let queues = |world: &World| -> BTreeMap<Shape, (Vec<_>, Vec<_>)> {
        let sets = world.shapes().map(|(_, queue)| {
            let jobs = |set: &BTreeSet<_>| set.iter().copied().collect::<Vec<_>>();
            (Shape::clone(&queue.shape), (jobs(&queue.fresh), jobs(&queue.escalated)))
        });
        sets.collect()
    };
    let lines = |world: &World| -> BTreeMap<_, _> {
        let heads = |line: &PendingQueue| -> Vec<_> {
            let shape = |head: &QueueHead| Shape::clone(&world.shape(head.shape_ix).shape);
            line.heads().map(|head| (head.rank, head.is_escalated, shape(head))).collect()
        };
        let lines = world.lines().map(|(domain, key, line)| {
            let project = world.project_rows()[key.project_ix.0].name.clone();
            ((domain.cloned(), project, key.uid), (heads(line), line.demand().clone()))
        });
        lines.collect()
    };
    if lines(&loaded) != lines(world) {
        differs("the lines of waiting jobs".to_owned());
    }
    if queues(&loaded) != queues(world) {
        differs("its pending jobs".to_owned());
    }
    if loaded.n_by_state() != world.n_by_state() {
        differs("the number of jobs in each state".to_owned());
    }
}
