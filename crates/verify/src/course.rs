//! The known allocations over time: running jobs, jobs that a plan starts and planned starts,
//! recomputed from the records. Every question is tested at each moment at which an allocation
//! begins.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::pause::pause_memory;
use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Decision, Device, Exit, JobId, JobSpec, Millis, Node, NodeName,
    Phase, Placement, Plan, ProjectName, ResourceKind, Resources, Shape, Slot, SlotPart, Timestamp,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::arrays::row_of;
use crate::job::{has_value, of_task, ran, taken_by, values, with_plain};
use crate::projects::upwards;
use crate::tally::{
    HOST_KINDS, add, add_memory, booked, capacity, devices_on_node, has_all, has_at, is_at, is_of,
    may_share, on_node, pause_memory_of, take_memory, unusable,
};

/// A stretch of time; without an end it lasts for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

impl Stretch {
    pub fn holds(self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// What a job holds on one node for a time.
#[derive(Debug, Clone)]
struct Occupation {
    job: JobId,
    slots: Vec<Slot>,
    resources: Resources,
    /// `None` unless the job runs; then whether it wants the node alone.
    alone: Option<bool>,
    when: Stretch,
}

/// The allocations of each node over time.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllocationTimeline<'a> {
    held: BTreeMap<&'a NodeName, Vec<Occupation>>,
}

/// Returns when a job that started at this time is expected to end.
pub(crate) fn end_of(
    snapshot: &Snapshot<'_>,
    spec: &JobSpec,
    started_at: Timestamp,
) -> Option<Timestamp> {
    let now = snapshot.now;
    if let Some(limit) = spec.time_limit {
        let end = started_at.get().saturating_add(limit.get()).saturating_add(spec.grace.get());
        return Some(or_soon(Timestamp::new(end), now));
    }
    let length = snapshot.world.prediction(spec)?.p50.get();
    let end = started_at.get().saturating_add(length);
    let elapsed = now.get().saturating_sub(started_at.get()).max(1000);
    Some(Timestamp::new(if end > now.get() { end } else { now.get().saturating_add(elapsed) }))
}

/// A job that should have ended is expected to end soon.
fn or_soon(end: Timestamp, now: Timestamp) -> Timestamp {
    if end > now { end } else { Timestamp::new(now.get().saturating_add(10_000)) }
}

/// Returns when a job's allocations are expected to be free.
fn expected_end(snapshot: &Snapshot<'_>, row: &JobRow) -> Option<Timestamp> {
    match &row.job.phase {
        Phase::Starting { since, .. } => end_of(snapshot, &row.spec, *since),
        Phase::Running { started_at, .. } => {
            let paused = row.job.course.paused.get();
            let started_at = Timestamp::new(started_at.get().saturating_add(paused));
            end_of(snapshot, &row.spec, started_at)
        }
        Phase::Stopping { allocations, since, .. } => {
            let deadline = |state: &AllocationState| match state {
                AllocationState::Releasing { deadline } => *deadline,
                _ => since.after(row.spec.grace),
            };
            let last = allocations.iter().map(|allocation| deadline(&allocation.state)).max();
            let last = last.unwrap_or(*since);
            Some(or_soon(last, snapshot.now))
        }
        Phase::Paused { allocations, since, .. } => {
            let mut held = allocations.iter();
            let pauses = held.any(|it| it.state == AllocationState::Pausing);
            pauses.then(|| or_soon(since.after(row.spec.grace), snapshot.now))
        }
        _ => None,
    }
}

impl<'a> AllocationTimeline<'a> {
    /// Collects the allocations of these jobs, on these nodes or on all.
    pub fn of(
        snapshot: &Snapshot<'a>,
        jobs: impl Iterator<Item = &'a JobRow>,
        nodes: Option<&BTreeSet<&NodeName>>,
    ) -> Self {
        let mut course = Self::default();
        for row in jobs {
            let until = expected_end(snapshot, row);
            let when = Stretch { from: Timestamp::ZERO, until };
            for allocation in row.job.phase.allocations() {
                if nodes.is_none_or(|nodes| nodes.contains(&allocation.node)) {
                    let (slots, resources) =
                        (allocation.held_slots().to_vec(), &booked(allocation));
                    let is_paused = matches!(allocation.state, AllocationState::Paused { .. });
                    let alone = (!is_paused).then(|| resources.get(&ResourceKind::Node) > 0);
                    let (job, resources) = (row.job.id, resources.clone());
                    let held = Occupation { job, slots, resources, alone, when };
                    course.held.entry(&allocation.node).or_default().push(held);
                }
            }
            if let (Phase::Paused { .. }, Some(at)) = (&row.job.phase, until) {
                course.keep_memory(snapshot.world, row, at);
            }
        }
        course
    }

    /// Ends the allocations of jobs that leave for a job that starts.
    pub fn take_back_for(&mut self, snapshot: &Snapshot<'_>, plan: &Plan, beneficiary: JobId) {
        let resumes = |it: &Decision| {
            matches!(it, Decision::Resume { job, after, .. }
                if *job == beneficiary && after.is_empty())
        };
        if plan.decisions.iter().any(resumes) {
            snapshot.world.job(beneficiary).into_iter().for_each(|row| self.resume(row));
        }
        for decision in &plan.decisions {
            let Decision::Evict { job, beneficiary: whose, exit, .. } = decision else { continue };
            let Some(row) = snapshot.world.job(*job).filter(|_| *whose == beneficiary) else {
                continue;
            };
            let last = snapshot.now.after(time_to_leave(snapshot.world, row, *exit));
            let until = Some(or_soon(last, snapshot.now));
            let held = self.held.values_mut().flatten().filter(|it| it.job == *job);
            held.for_each(|it| it.when.until = until);
            if let (Exit::Pause, Some(at)) = (exit, until) {
                self.keep_memory(snapshot.world, row, at);
            }
        }
    }

    /// A paused job keeps its memory, and its GPU memory is in host memory.
    fn keep_memory(&mut self, world: &World, row: &JobRow, from: Timestamp) {
        let when = Stretch { from, until: None };
        for (node, all) in &mut self.held {
            let here = row.job.phase.allocations().iter().filter(|it| it.node == **node);
            let paused = |allocation: &Allocation| {
                let node = world.node(&allocation.node);
                let bytes = node.map(|it| pause_memory(&it.node, &row.spec, allocation));
                let mut resources = row.spec.resources_paused();
                add_memory(&mut resources, bytes.unwrap_or_default());
                with_plain(resources, row.spec.gpus.is_none())
            };
            all.extend(here.map(|allocation| Occupation {
                job: row.job.id,
                slots: Vec::new(),
                resources: paused(allocation),
                alone: None,
                when,
            }));
        }
    }

    /// The GPU memory of a job that resumes leaves host memory.
    fn resume(&mut self, row: &JobRow) {
        for (node, all) in &mut self.held {
            let own = all.iter_mut().filter(|it| it.job == row.job.id && it.alone.is_none());
            let here = row.job.phase.allocations().iter().filter(|it| it.node == **node);
            for (held, allocation) in own.zip(here) {
                take_memory(&mut held.resources, pause_memory_of(allocation));
            }
        }
    }

    /// The memory that a job kept while it was paused is free once it has ended.
    pub fn free_paused_memory(&mut self, job: JobId, until: Option<Timestamp>) {
        let own = self.held.values_mut().flatten();
        own.filter(|it| it.job == job && it.alone.is_none()).for_each(|it| it.when.until = until);
    }

    /// Adds the placements of all tasks of a job, by rank.
    pub fn add_all(&mut self, placements: &'a [Placement], row: &JobRow, when: Stretch) {
        for (rank, placement) in placements.iter().enumerate() {
            self.add(placement, &of_task(row, rank), when);
        }
    }

    /// Adds the placement of a task. `row` is as the task asks.
    pub fn add(&mut self, placement: &'a Placement, row: &JobRow, when: Stretch) {
        let resources = taken_by(row, &placement.slots);
        let (slots, alone) = (placement.slots.clone(), Some(row.spec.is_exclusive()));
        let held = Occupation { job: row.job.id, slots, resources, alone, when };
        self.held.entry(&placement.node).or_default().push(held);
    }

    /// The moments at which anything becomes free.
    pub fn ends(&self) -> BTreeSet<Timestamp> {
        self.held.values().flatten().filter_map(|held| held.when.until).collect()
    }

    /// The moments of a stretch with the most held: its begin, and each begin of an allocation.
    fn moments(&self, node: &NodeName, when: Stretch) -> BTreeSet<Timestamp> {
        let begins = self.held.get(node).into_iter().flatten().map(|held| held.when.from);
        begins.filter(|at| when.holds(*at)).chain([when.from]).collect()
    }

    fn at(&self, node: &NodeName, at: Timestamp) -> impl Iterator<Item = &Occupation> {
        let here = self.held.get(node).into_iter().flatten();
        here.filter(move |held| held.when.holds(at))
    }

    /// Whether a device has the free capacity that a fit asks of one, all the time, beside jobs
    /// that may share it.
    pub fn has_device(
        &self,
        (world, node): (&World, &Node),
        device: &Device,
        fit: &Fit,
        when: Stretch,
    ) -> bool {
        let is_stranger = |held: &Occupation| {
            held.slots.iter().any(|slot| slot.device == device.uuid)
                && !may_share(world, node, fit.sharer.as_deref(), held.job)
        };
        let gpus = &fit.gpus;
        self.moments(&node.name, when).into_iter().all(|at| {
            if self.at(&node.name, at).any(is_stranger) {
                return false;
            }
            let slots = self.at(&node.name, at).flat_map(|held| &held.slots);
            let parts: Vec<SlotPart> =
                slots.filter(|slot| slot.device == device.uuid).map(|slot| slot.part).collect();
            match gpus.share() {
                None => parts.is_empty(),
                Some(share) => {
                    let taken =
                        parts.iter().map(|part| u128::from(part.memory_of(device.memory).get()));
                    let wanted = u128::from(share.memory_of(device.memory).get());
                    !parts.iter().any(|part| has_all(*part))
                        && taken.sum::<u128>() + wanted <= u128::from(device.memory.get())
                }
            }
        })
    }

    /// Returns the first kind that a node lacks at some moment of the stretch.
    pub fn short_of(&self, node: &Node, wanted: &Resources, when: Stretch) -> Option<ResourceKind> {
        let is_short = |kind: &ResourceKind, at: Timestamp| {
            let mut sum = wanted.clone();
            self.at(&node.name, at).for_each(|held| add(&mut sum, &held.resources));
            sum.get(kind) > capacity(node, kind)
        };
        let moments = self.moments(&node.name, when);
        HOST_KINDS
            .into_iter()
            .find(|kind| wanted.get(kind) > 0 && moments.iter().any(|at| is_short(kind, *at)))
    }

    /// Whether a job can't run on a node at some moment beside the others there, because it or one
    /// of them wants the node alone.
    pub fn is_occupied(
        &self,
        node: &NodeName,
        job: Option<JobId>,
        is_alone: bool,
        when: Stretch,
    ) -> bool {
        let is_other = |held: &Occupation| {
            Some(held.job) != job && held.alone.is_some_and(|other| is_alone || other)
        };
        self.moments(node, when).into_iter().any(|at| self.at(node, at).any(is_other))
    }

    /// Returns the first of the nodes that together fit the work of a shape for a stretch, with
    /// devices of one model of its request.
    pub fn has_places<'n>(
        &self,
        snapshot: &Snapshot<'n>,
        shape: &Shape,
        when: Stretch,
    ) -> Option<&'n NodeName> {
        match values(snapshot.world, &shape.fit) {
            None => self.has_places_within(snapshot, shape, when, None),
            Some(values) => values
                .into_iter()
                .find_map(|value| self.has_places_within(snapshot, shape, when, Some(value))),
        }
    }

    /// The same on nodes with this value of the topology's label.
    fn has_places_within<'n>(
        &self,
        snapshot: &Snapshot<'n>,
        shape: &Shape,
        when: Stretch,
        value: Option<&str>,
    ) -> Option<&'n NodeName> {
        let needed = u64::from(shape.fit.gang.nodes);
        kinds(snapshot.world, &shape.fit).into_iter().find_map(|kind| {
            let nodes = snapshot.world.nodes_by_name().map(|(_, row)| &row.node);
            let nodes = nodes.filter(|node| has_value(node, &shape.fit, value));
            let (mut first, mut n_places) = (None, 0);
            for node in nodes {
                if n_places >= needed {
                    break;
                }
                let n_here = self.n_places(snapshot, node, shape, kind, when);
                if n_here > 0 {
                    first = first.or(Some(&node.name));
                    n_places += n_here;
                }
            }
            first.filter(|_| n_places >= needed)
        })
    }

    /// How many times a node fits, for a stretch, the tasks that a shape puts on one node, with
    /// devices of one model of the request; at most as often as they may be there.
    fn n_places(
        &self,
        snapshot: &Snapshot<'_>,
        node: &Node,
        shape: &Shape,
        (rank, model): (usize, Option<&str>),
        when: Stretch,
    ) -> u64 {
        let wanted = on_node(&shape.fit);
        let most = most_on(node, &shape.fit);
        if !node.is_reachable()
            || node.drain.is_some()
            || !is_of(node, shape.fit.pool.as_ref(), shape.fit.nodes.as_deref())
            || !is_at(node, &shape.fit)
            || reserved(snapshot, node, None, shape, when)
            || self.is_occupied(&node.name, None, shape.fit.is_exclusive(), when)
        {
            return 0;
        }
        let gpus = &shape.fit.gpus;
        let has_room = |device: &&Device| {
            gpus.rank_of(device) == Some(rank)
                && model.is_none_or(|model| device.model == model)
                && has_at(node, device, &shape.fit)
                && unusable(node, device).is_none()
                && !reserved(snapshot, node, Some(device), shape, when)
                && self.has_device((snapshot.world, node), device, &shape.fit, when)
        };
        let n_devices = node.devices.iter().filter(has_room).count() as u64;
        let by_devices = n_devices.checked_div(devices_on_node(&shape.fit)).unwrap_or(most);
        let has_rest =
            |times: &u64| self.short_of(node, &repeated(&wanted, *times), when).is_none();
        (1..=most.min(by_devices)).take_while(has_rest).count() as u64
    }
}

/// How many times one node may have the tasks that a fit puts on one node.
pub(crate) fn most_on(node: &Node, fit: &Fit) -> u64 {
    match (fit.gang.anywhere, fit.at.is_empty()) {
        (false, _) => 1,
        (true, true) => u64::from(fit.gang.nodes),
        (true, false) => fit.at.iter().filter(|place| place.node == node.name).count() as u64,
    }
}

fn repeated(amounts: &Resources, times: u64) -> Resources {
    let mut sum = amounts.clone();
    for (kind, amount) in amounts.iter() {
        sum.set(kind.clone(), amount.saturating_mul(times));
    }
    sum
}

/// Whether a node, or a device of it, is reserved for other work at any time of a stretch.
pub(crate) fn reserved(
    snapshot: &Snapshot<'_>,
    node: &Node,
    device: Option<&Device>,
    shape: &Shape,
    when: Stretch,
) -> bool {
    let own = |device| is_reserved_for(snapshot, node, device, shape, when.from);
    if snapshot.world.policy().reserved_only && device.is_some_and(|device| !own(device)) {
        return true;
    }
    snapshot.world.reservations().values().any(|it| {
        let covers = match device {
            None => it.what.has_node(&node.name),
            Some(device) => it.what.has_device(&node.name, &device.uuid),
        };
        covers && !it.beneficiary.admits(shape) && {
            // The first of its windows that is not over when the stretch begins. A planned start
            // never counts on a reservation's capacity, whether or not the reservation will be
            // over.
            let is_planned = when.from > snapshot.now && !it.is_maintenance();
            let window = it.occurrence(if is_planned { snapshot.now } else { when.from });
            window.is_some_and(|window| when.until.is_none_or(|until| window.from < until))
        }
    })
}

/// Whether a device is reserved for work of a shape at a moment.
pub(crate) fn is_reserved_for(
    snapshot: &Snapshot<'_>,
    node: &Node,
    device: &Device,
    shape: &Shape,
    at: Timestamp,
) -> bool {
    snapshot.world.reservations().values().any(|it| {
        let is_on = it.what.has_device(&node.name, &device.uuid)
            || (it.what.has_node(&node.name) && !it.is_maintenance());
        is_on && it.beneficiary.admits(shape) && it.occurrence(at).is_some_and(|it| it.from <= at)
    })
}

/// The next moments at which reservations end and, where only reserved capacity is given out, at
/// which they begin.
pub(crate) fn reservation_turns(snapshot: &Snapshot<'_>, at: Timestamp) -> Vec<Timestamp> {
    let begins = snapshot.world.policy().reserved_only;
    let windows = snapshot.world.reservations().values().filter_map(|it| it.occurrence(at));
    let turns = windows.flat_map(|it| it.until.into_iter().chain(begins.then_some(it.from)));
    turns.filter(|it| *it > at).collect()
}

/// The stretch that work of a shape takes.
pub(crate) fn stretch(shape: &Shape, from: Timestamp) -> Stretch {
    Stretch { from, until: shape.takes.map(|takes| from.after(takes)) }
}

/// The stretch that a job takes if it starts now.
pub(crate) fn started(snapshot: &Snapshot<'_>, id: JobId) -> Option<Stretch> {
    let row = row_of(snapshot.world, id)?;
    let begun = Timestamp::new(snapshot.now.get().saturating_sub(ran(row).get()));
    Some(Stretch { from: snapshot.now, until: end_of(snapshot, &row.spec, begun) })
}

/// Returns which devices the tasks of a job may have together: the devices of one alternative of
/// its request, and of one model for a job of several nodes.
pub(crate) fn kinds<'w>(world: &'w World, fit: &Fit) -> BTreeSet<(usize, Option<&'w str>)> {
    let gpus = &fit.gpus;
    if fit.gang.nodes < 2 || gpus.is_none() || !fit.at.is_empty() {
        return (0..gpus.models.len().max(1)).map(|rank| (rank, None)).collect();
    }
    let devices = world.nodes().iter().flat_map(|row| &row.node.devices);
    let kind = |device: &'w Device| Some((gpus.rank_of(device)?, Some(device.model.as_str())));
    devices.filter_map(kind).collect()
}

/// How long an evicted job has to leave: no longer than its projects and the policy allow.
fn time_to_leave(world: &World, row: &JobRow, exit: Exit) -> Millis {
    let of = |name: &ProjectName| world.projects().get(name)?.jobs.save_time_max;
    let said = upwards(world, &row.spec.project).into_iter().filter_map(|name| of(&name));
    said.chain([world.policy().save_time_max, row.spec.grace_for(exit)]).min().unwrap_or_default()
}
