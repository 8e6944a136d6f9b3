//! The allocations on nodes, summed up from the jobs and never from the ledger's counters. For a
//! few nodes, the ledger's index selects the jobs; the check of the whole state compares that index
//! with all jobs.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Bytes, Decision, Device, DeviceHealth, DeviceUuid, Drain,
    GpuRequest, JobId, MilliCpu, Node, NodeFilter, NodeName, Plan, PoolName, ResourceKind,
    Resources, ShareWith, Sharer, SlotPart, TaskId,
};
use gpool_world::{JobRow, NodeRow, World};

use crate::arrays::row_of;
use crate::job::with_plain;
use crate::unusable::Unusable;

/// What tasks hold on the selected nodes.
#[derive(Debug, Clone)]
pub(crate) struct Tally<'a> {
    pub nodes: BTreeMap<&'a NodeName, NodeTally<'a>>,
}

/// What tasks hold on one node.
#[derive(Debug, Clone)]
pub(crate) struct NodeTally<'a> {
    pub node: &'a Node,
    world: &'a World,
    /// The tasks that hold or claim each device.
    pub holders: BTreeMap<DeviceUuid, Vec<Holding>>,
    /// Everything that is booked and not free at once.
    pub booked: Resources,
    /// The part of `booked` that is not being released.
    pub booked_later: Resources,
    /// The host memory that tasks have now: those that leave too, and no claims.
    pub memory_now: Bytes,
    /// Tasks that hold or claim anything here.
    pub tasks: BTreeSet<TaskId>,
    /// The tasks that are not paused.
    pub running: BTreeMap<TaskId, Tenancy>,
}

/// The way that a task occupies a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenancy {
    /// Whether no other job may run on the node.
    pub is_alone: bool,
    pub is_releasing: bool,
}

/// One task on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holding {
    pub task: TaskId,
    pub part: SlotPart,
    pub is_releasing: bool,
    pub is_claim: bool,
}

impl<'a> Tally<'a> {
    /// Counts all nodes from all jobs.
    pub fn of(world: &'a World) -> Self {
        Self::count(world, world.nodes().iter(), world.job_rows())
    }

    /// Sums up some nodes from the jobs that the index lists there, at no cost for jobs that wait
    /// or run elsewhere.
    pub fn of_nodes(world: &'a World, names: &BTreeSet<&'a NodeName>) -> Self {
        let rows: Vec<&NodeRow> = names.iter().filter_map(|name| world.node(name)).collect();
        let tasks = rows.iter().flat_map(|row| &row.here);
        let jobs: BTreeSet<JobId> = tasks.map(|task| task.job).collect();
        let jobs = jobs.into_iter().filter_map(|job| world.job(job));
        Self::count(world, rows.iter().copied(), jobs)
    }

    fn count(
        world: &'a World,
        rows: impl Iterator<Item = &'a NodeRow>,
        jobs: impl Iterator<Item = &'a JobRow>,
    ) -> Self {
        let nodes = rows.map(|row| {
            let tally = NodeTally {
                node: &row.node,
                world,
                holders: BTreeMap::new(),
                booked: Resources::none(),
                booked_later: Resources::none(),
                memory_now: Bytes::ZERO,
                tasks: BTreeSet::new(),
                running: BTreeMap::new(),
            };
            (&row.node.name, tally)
        });
        let mut tally = Self { nodes: nodes.collect() };
        for allocation in jobs.flat_map(|row| row.job.phase.allocations()) {
            if let Some(node) = tally.nodes.get_mut(&allocation.node) {
                node.book(allocation);
            }
        }
        tally
    }

    /// The most that is free at any time of a plan: what resumed jobs no longer need is free too.
    pub fn most_free(mut self, plan: &Plan) -> Self {
        for decision in &plan.decisions {
            let Decision::Resume { job, after, .. } = decision else { continue };
            for node in self.nodes.values_mut().filter(|_| after.is_empty()) {
                let row = node.world.job(*job);
                let all = row.into_iter().flat_map(|row| row.job.phase.allocations());
                all.filter(|it| it.node == node.node.name).for_each(|it| node.resume(it));
            }
        }
        self
    }
}

impl NodeTally<'_> {
    /// The GPU memory of a paused task leaves host memory.
    pub fn resume(&mut self, paused: &Allocation) {
        let bytes = pause_memory_of(paused);
        take_memory(&mut self.booked, bytes);
        take_memory(&mut self.booked_later, bytes);
        self.memory_now = self.memory_now.saturating_sub(bytes);
    }

    fn book(&mut self, allocation: &Allocation) {
        let is_pausing = allocation.state == AllocationState::Pausing;
        let is_releasing =
            is_pausing || matches!(allocation.state, AllocationState::Releasing { .. });
        let is_claim = matches!(allocation.state, AllocationState::Claimed { .. });
        self.tasks.insert(allocation.task);
        if !matches!(allocation.state, AllocationState::Paused { .. }) {
            let is_alone = allocation.resources.get(&ResourceKind::Node) > 0;
            self.running.insert(allocation.task, Tenancy { is_alone, is_releasing });
        }
        let resources = booked(allocation);
        add(&mut self.booked, &resources);
        if !is_claim {
            self.add_memory_now(&resources);
        }
        if !is_releasing {
            add(&mut self.booked_later, &resources);
        }
        for kind in STAYS {
            if is_pausing {
                let kept = self.booked_later.get(&kind).saturating_add(resources.get(&kind));
                self.booked_later.set(kind, kept);
            }
        }
        for slot in allocation.held_slots() {
            let (task, part) = (allocation.task, slot.part);
            let holding = Holding { task, part, is_releasing, is_claim };
            self.holders.entry(slot.device.clone()).or_default().push(holding);
        }
    }

    /// A task has these resources from now on.
    pub fn add_memory_now(&mut self, resources: &Resources) {
        let memory = Bytes::new(resources.get(&ResourceKind::Memory));
        self.memory_now = self.memory_now.saturating_add(memory);
    }

    /// Releases a task's allocation: the task leaves, or pauses, keeps its memory, and needs this
    /// much more of it.
    pub fn release(&mut self, allocation: &Allocation, paused: Option<Bytes>) {
        let stays = |kind: &ResourceKind| paused.is_some() && STAYS.contains(kind);
        add_memory(&mut self.booked_later, paused.unwrap_or_default());
        add_memory(&mut self.booked, paused.unwrap_or_default());
        self.memory_now = self.memory_now.saturating_add(paused.unwrap_or_default());
        let resources = booked(allocation);
        let leaves = resources.iter().filter(|(kind, _)| !stays(kind));
        for (kind, amount) in leaves {
            self.booked_later.set(kind.clone(), self.booked_later.get(kind).saturating_sub(amount));
        }
        if let Some(presence) = self.running.get_mut(&allocation.task) {
            presence.is_releasing = true;
        }
        let own = |holding: &&mut Holding| holding.task == allocation.task;
        let all = self.holders.values_mut().flatten();
        all.filter(own).for_each(|holding| holding.is_releasing = true);
    }

    /// Whether a job can't run here beside the present ones, because it or one of them wants the
    /// node alone. A job with a claim waits for the jobs that leave.
    pub fn is_occupied(&self, job: Option<JobId>, is_alone: bool, is_claim: bool) -> bool {
        self.running.iter().any(|(task, it)| {
            Some(task.job) != job && (is_alone || it.is_alone) && !(is_claim && it.is_releasing)
        })
    }

    /// How much of a kind is free at once.
    pub fn free(&self, kind: &ResourceKind) -> u64 {
        capacity(self.node, kind).saturating_sub(self.booked.get(kind))
    }

    /// Whether the whole device is free now.
    pub fn is_free(&self, device: &Device) -> bool {
        self.holders.get(&device.uuid).is_none_or(Vec::is_empty)
            && unusable(self.node, device).is_none()
    }

    /// How much of a device's memory is free for a share now; none beside a task that has all of
    /// it.
    pub fn room(&self, device: &Device) -> Bytes {
        if unusable(self.node, device).is_some() {
            return Bytes::ZERO;
        }
        let holders = self.holders.get(&device.uuid).map_or(&[][..], Vec::as_slice);
        let taken = holders.iter().map(|holding| holding.part.memory_of(device.memory));
        device.memory.saturating_sub(taken.fold(Bytes::ZERO, Bytes::saturating_add))
    }

    /// Whether a device has the free capacity that a fit asks of one device, now.
    pub fn has(&self, device: &Device, fit: &Fit) -> bool {
        self.has_room(device, &fit.gpus) && self.stranger(device, fit.sharer.as_deref()).is_none()
    }

    /// The same, whichever jobs share it.
    pub fn has_room(&self, device: &Device, gpus: &GpuRequest) -> bool {
        match gpus.share() {
            None => self.is_free(device),
            Some(share) => share.memory_of(device.memory) <= self.room(device),
        }
    }

    /// A job on a device that does not accept a job with a share, or that it does not accept.
    pub fn stranger(&self, device: &Device, sharer: Option<&Sharer>) -> Option<JobId> {
        let holders = self.holders.get(&device.uuid).map_or(&[][..], Vec::as_slice);
        let mut jobs = holders.iter().map(|holding| holding.task.job);
        jobs.find(|job| !self.may_share(sharer, *job))
    }

    /// Whether a job and another one accept each other on a device of this node.
    pub fn may_share(&self, sharer: Option<&Sharer>, other: JobId) -> bool {
        may_share(self.world, self.node, sharer, other)
    }

    /// Returns the largest number of devices that match one model of the request and pass `test`.
    pub fn most_of_a_kind(&self, gpus: &GpuRequest, test: impl Fn(&Device) -> bool) -> u32 {
        let mut by_rank = BTreeMap::<usize, u32>::new();
        for device in self.node.devices.iter().filter(|device| test(device)) {
            if let Some(rank) = gpus.rank_of(device) {
                *by_rank.entry(rank).or_default() += 1;
            }
        }
        by_rank.into_values().max().unwrap_or(0)
    }

    /// Counts all free devices that match the request.
    pub fn n_free(&self, fit: &Fit) -> u32 {
        let devices = self.node.devices.iter();
        let free =
            devices.filter(|device| fit.gpus.rank_of(device).is_some() && self.has(device, fit));
        u32::try_from(free.count()).unwrap_or(u32::MAX)
    }

    /// Whether a node has the free capacity for all tasks that a fit puts on one node.
    pub fn has_place(&self, fit: &Fit) -> bool {
        let need = devices_on_node(fit);
        let most = self.most_of_a_kind(&fit.gpus, |device| {
            has_at(self.node, device, fit) && self.has(device, fit)
        });
        is_at(self.node, fit)
            && self.node.is_reachable()
            && self.node.drain.is_none()
            && !self.is_occupied(None, fit.is_exclusive(), false)
            && is_of(self.node, fit.pool.as_ref(), fit.nodes.as_deref())
            && on_node(fit).iter().all(|(kind, amount)| amount <= self.free(kind))
            && need <= u64::from(most)
    }
}

/// Whether a job and another one accept each other on a device of a node: by their own rules, or
/// else by the rule of the node's pool.
pub(crate) fn may_share(world: &World, node: &Node, sharer: Option<&Sharer>, other: JobId) -> bool {
    let policy = world.policy();
    let of_pool = policy.pools.get(&node.pool).unwrap_or(policy).share_with;
    let (Some(one), Some(row)) = (sharer, row_of(world, other)) else { return true };
    let rules = [one.with, row.spec.share_with].map(|rule| rule.unwrap_or(of_pool));
    rules.iter().all(|rule| match rule {
        ShareWith::User => one.uid == row.spec.owner.uid,
        ShareWith::Project => one.project == row.spec.project,
        ShareWith::Anyone => true,
    })
}

/// The kinds that a paused task keeps on its node.
pub(crate) const STAYS: [ResourceKind; 3] =
    [ResourceKind::Memory, ResourceKind::Tasks, ResourceKind::PlainTasks];

/// The kinds of a node besides its devices.
pub(crate) const HOST_KINDS: [ResourceKind; 4] =
    [ResourceKind::Cpu, ResourceKind::Memory, ResourceKind::Tasks, ResourceKind::PlainTasks];

/// How much a node has of a kind; a node without its own limit for a kind of task has all its
/// slots.
pub(crate) fn capacity(node: &Node, kind: &ResourceKind) -> u64 {
    let tasks = node.capacity.get(&ResourceKind::Tasks);
    match (kind, node.capacity.get(kind)) {
        (ResourceKind::PlainTasks | ResourceKind::UserTasks, 0) => tasks,
        (ResourceKind::PlainTasks | ResourceKind::UserTasks, part) => part.min(tasks),
        (_, amount) => amount,
    }
}

/// Returns what a task books; a task without GPUs also books one of the slots for such tasks, and
/// the GPU memory of a paused one is host memory.
pub(crate) fn booked(allocation: &Allocation) -> Resources {
    let mut booked = with_plain(allocation.resources.clone(), allocation.slots.is_empty());
    let paused = booked.get(&ResourceKind::PauseMemory);
    booked.set(ResourceKind::PauseMemory, 0);
    add_memory(&mut booked, Bytes::new(paused));
    booked
}

pub(crate) fn add_memory(sum: &mut Resources, bytes: Bytes) {
    let memory = sum.get(&ResourceKind::Memory).saturating_add(bytes.get());
    sum.set(ResourceKind::Memory, memory);
}

pub(crate) fn take_memory(sum: &mut Resources, bytes: Bytes) {
    let memory = sum.get(&ResourceKind::Memory).saturating_sub(bytes.get());
    sum.set(ResourceKind::Memory, memory);
}

/// The host memory that the GPU memory of a paused task takes.
pub(crate) fn pause_memory_of(allocation: &Allocation) -> Bytes {
    Bytes::new(allocation.resources.get(&ResourceKind::PauseMemory))
}

/// Whether a node is in the requested pool and passes the node filter, where these are given.
pub(crate) fn is_of(node: &Node, pool: Option<&PoolName>, nodes: Option<&NodeFilter>) -> bool {
    let is_chosen = |nodes: &NodeFilter| {
        let is_named = nodes.include.is_empty() || nodes.include.contains(&node.name);
        let is_kept_out = nodes.exclude.iter().any(|name| *name == node.name);
        is_named && !is_kept_out && !nodes.rules.iter().any(|rule| !rule.allows(node))
    };
    pool.is_none_or(|pool| node.pool == *pool) && nodes.is_none_or(is_chosen)
}

/// Whether work of a fit may be on a node: a paused job only where it is, another one only where
/// nothing that it needs is missing.
pub(crate) fn is_at(node: &Node, fit: &Fit) -> bool {
    (!fit.in_container || node.facts.engine.is_some())
        && fit.lacking_nodes.iter().all(|it| it.node != node.name)
        && (fit.at.is_empty() || fit.at.iter().any(|place| place.node == node.name))
}

/// Whether work of a fit may have a device; a paused job may only have its own.
pub(crate) fn has_at(node: &Node, device: &Device, fit: &Fit) -> bool {
    let mut slots = fit.at.iter().filter(|it| it.node == node.name).flat_map(|it| &it.slots);
    fit.at.is_empty() || slots.any(|slot| slot.device == device.uuid)
}

/// Returns why new work may not use a device, whether or not a task holds it.
pub(crate) fn unusable(node: &Node, device: &Device) -> Option<Unusable> {
    match device.health {
        DeviceHealth::Healthy => {}
        DeviceHealth::Unhealthy { .. } | DeviceHealth::Lost | DeviceHealth::Unknown { .. } => {
            return Some(Unusable::Unhealthy);
        }
    }
    if !device.unmanaged.is_empty() {
        return Some(Unusable::Unmanaged);
    }
    if !is_allowed(node, device) {
        return Some(Unusable::NotAllowed);
    }
    if node.drain.is_some() || drain_of(node, device).is_some() {
        return Some(Unusable::Drained);
    }
    if device.mig.as_ref().is_some_and(|mig| mig.enabled) {
        return Some(Unusable::Divided);
    }
    device.guests.iter().any(|guest| guest.is_stuck).then_some(Unusable::Guest)
}

/// Whether an admin allows new jobs on a device, or on the device that it is cut from.
pub(crate) fn is_allowed(node: &Node, device: &Device) -> bool {
    let allowed = node.allowed.as_ref();
    allowed.is_none_or(|it| with_parent(node, device).any(|id| it.contains(id)))
}

/// A device, and the device that it is cut from.
fn with_parent<'n>(node: &'n Node, device: &'n Device) -> impl Iterator<Item = &'n DeviceUuid> {
    let others = node.devices.iter();
    let parent =
        others.filter(|it| device.instance.as_ref().is_some_and(|own| own.parent == it.index));
    std::iter::once(device).chain(parent).map(|it| &it.uuid)
}

/// The drain of a device, or of the device that it is cut from.
pub(crate) fn drain_of<'n>(node: &'n Node, device: &'n Device) -> Option<&'n Drain> {
    with_parent(node, device).find_map(|uuid| node.device_drains.get(uuid))
}

/// Whether a slot of this part leaves nothing of the device to other tasks.
pub(crate) fn has_all(part: SlotPart) -> bool {
    !matches!(part, SlotPart::Share { .. })
}

/// Returns the size of a device in thousandths of a GPU. An instance counts its portion of the
/// GPU's compute slices or of its memory, whichever is more.
pub(crate) fn milli_of(device: &Device) -> u64 {
    let Some(instance) = &device.instance else { return 1000 };
    let slices = 1000 * u128::from(instance.compute_slices) / 7;
    let all = u128::from(instance.parent_memory.get());
    let memory = (1000 * u128::from(device.memory.get())).checked_div(all).unwrap_or(1000);
    u64::try_from(slices.max(memory)).unwrap_or(u64::MAX).clamp(1, 1000)
}

/// Adds amounts; a sum that would overflow is larger than any capacity.
pub(crate) fn add(sum: &mut Resources, more: &Resources) {
    for (kind, amount) in more.iter() {
        let total = sum.get(kind).saturating_add(amount);
        sum.set(kind.clone(), total);
    }
}

/// Returns what all tasks of a fit on one node ask for besides devices.
pub(crate) fn on_node(fit: &Fit) -> Resources {
    let n_tasks = u64::from(fit.gang.tasks_per_node);
    let times = |amount: u64| amount.saturating_mul(n_tasks);
    let asked = Resources::none()
        .with_cpus(MilliCpu::new(times(fit.cpus.get())))
        .with_memory(Bytes::new(times(fit.memory.get())))
        .with_tasks(if fit.at.is_empty() { fit.gang.tasks_per_node } else { 0 });
    with_plain(asked, fit.gpus.is_none())
}

/// Returns how many devices all tasks of a fit on one node ask for.
pub(crate) fn devices_on_node(fit: &Fit) -> u64 {
    u64::from(fit.gpus.n_devices()) * u64::from(fit.gang.tasks_per_node)
}
