//! Changes of MIG instances by demand: which instances the server creates, and which free ones it
//! destroys for them, so that waiting jobs can start. The MIG mode of a device is never changed.
//!
//! A round gives each waiting job, in queue order, the instances that exist and are free. For the
//! other jobs it plans new instances, with as few destroyed ones as possible. It destroys no
//! instance that is in use, or that it gave to another job.

use std::collections::BTreeSet;

use gpool_model::device::{Device, DeviceHealth, Instance};
use gpool_model::mig_layout::{MigChange, MigPlacement, MigSize};
use gpool_model::plan::Fit;
use gpool_model::{DeviceUuid, JobId, Node, NodeName, PoolName, Reason, ResourceKind};
use gpool_world::order::Rank;
use gpool_world::{JobRow, NodeRow, ShapeQueue, World};

/// Waiting jobs that one round looks at.
const JOBS_MAX: usize = 64;
/// Changes after which a round ends.
const STEPS_MAX: usize = 32;

/// A planned change of the instances of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigStep {
    pub node: NodeName,
    pub pool: PoolName,
    /// The divided device.
    pub device: DeviceUuid,
    /// Its index.
    pub gpu: u32,
    pub profile: String,
    /// The index of the instance that is destroyed.
    pub instance: Option<u32>,
    pub change: MigChange,
    /// The waiting job that needs it.
    pub job: JobId,
}

/// Whether this reason shows that a job waits only for MIG instances.
#[must_use]
pub fn lacks_instances(reason: &Reason) -> bool {
    match reason {
        Reason::OfPart { reason, .. } => lacks_instances(reason),
        Reason::GpusNotFree { of_instances, .. }
        | Reason::GpusNotFreeTogether { of_instances, .. } => *of_instances,
        Reason::GpuModelMissing { asked, .. } => asked.is_of_instances(),
        Reason::NodesNotFree { .. } | Reason::TasksNotFree { .. } => true,
        _ => false,
    }
}

/// Returns the first waiting job of each shape that requests MIG instances, in queue order.
#[must_use]
pub fn waiting(world: &World) -> Vec<JobId> {
    let asks = |queue: &&ShapeQueue| queue.shape.fits().any(|fit| fit.gpus.is_of_instances());
    let of_instances = world.shapes().map(|(_, queue)| queue).filter(asks);
    let ranked = of_instances.filter_map(|queue| {
        let (is_escalated, (at, job)) = match (queue.escalated.first(), queue.fresh.first()) {
            (Some(first), _) => (true, first),
            (None, first) => (false, first?),
        };
        let policy = world.policy_of(world.job(*job)?);
        Some(Rank::of(policy, &queue.shape, is_escalated, *at, *job))
    });
    let ranked: BTreeSet<Rank> = ranked.collect();
    ranked.iter().take(JOBS_MAX).map(Rank::job).collect()
}

/// Plans the changes of one round for these waiting jobs, in their order. `is_auto` selects the
/// pools. Devices of `except` stay as they are.
#[must_use]
pub fn plan(
    world: &World,
    waiting: &[JobId],
    is_auto: &dyn Fn(&PoolName) -> bool,
    except: &BTreeSet<DeviceUuid>,
) -> Vec<MigStep> {
    let rows = world.nodes_by_name().map(|(_, row)| row);
    let rows = rows.filter(|row| row.node.takes_work() && is_auto(&row.node.pool));
    let mut machines: Vec<DividedNode<'_>> = rows
        .map(|row| DividedNode::of(world, row, except))
        .filter(|it| !it.gpus.is_empty())
        .collect();
    let rows = waiting.iter().take(JOBS_MAX).filter_map(|job| world.job(*job));
    let fits = |row: &JobRow| {
        let job = row.job.id;
        gpool_world::fits_of(row).into_iter().map(move |fit| (job, fit))
    };
    let wants: Vec<(JobId, Fit)> = rows.flat_map(fits).filter(|(_, fit)| is_for_new(fit)).collect();
    let unmet = wants.iter().filter(|(_, fit)| give(&mut machines, fit, false).is_none());
    let unmet: Vec<&(JobId, Fit)> = unmet.collect();
    let mut steps = Vec::new();
    for (job, fit) in unmet {
        if steps.len() >= STEPS_MAX {
            break;
        }
        let changes = give(&mut machines, fit, true).unwrap_or_default();
        steps.extend(changes.into_iter().map(|change| change.step(*job)));
    }
    steps
}

/// Whether a job needs new instances: a paused one resumes on its own.
fn is_for_new(fit: &Fit) -> bool {
    fit.gpus.is_of_instances() && fit.at.is_empty()
}

/// A node with its divided devices.
#[derive(Clone)]
struct DividedNode<'a> {
    node: &'a Node,
    gpus: Vec<Gpu<'a>>,
    /// Free cores in thousandths, bytes of host memory, and tasks.
    free: [u64; 3],
}

/// A device with MIG mode on.
#[derive(Clone)]
struct Gpu<'a> {
    device: &'a Device,
    parts: Vec<PlannedInstance<'a>>,
    /// Whether its instances may be changed.
    is_open: bool,
    /// Whether the plan changes it: then the driver's count of free places no longer holds.
    is_changed: bool,
}

/// An instance that exists, or that the plan creates.
#[derive(Clone)]
struct PlannedInstance<'a> {
    size: &'a MigSize,
    place: MigPlacement,
    /// The instance while it is free; `None` if it is in use, or if a waiting job gets it.
    free: Option<&'a Device>,
}

/// A change of a device for one job.
struct InstanceChange<'a> {
    node: &'a Node,
    device: &'a Device,
    size: &'a MigSize,
    /// The instance to destroy; `None` creates one.
    destroyed: Option<&'a Device>,
}

/// How a job gets one more instance on a node, the best first: few destroyed instances, none
/// created, a small instance, a low index.
struct Choice {
    destroyed: Vec<usize>,
    creates: bool,
    slices: u32,
    gpu_ix: usize,
    start: u32,
    /// The free instance, or the size of the new one.
    ix: usize,
}

impl<'a> DividedNode<'a> {
    fn of(world: &World, row: &'a NodeRow, except: &BTreeSet<DeviceUuid>) -> Self {
        let node = &row.node;
        let reserved = |device: &Device| {
            let mut all = world.reservations().values();
            all.any(|it| it.what.has_device(&node.name, &device.uuid))
        };
        let is_unused = |device: &Device| {
            device.health == DeviceHealth::Healthy
                && device.unmanaged.is_empty()
                && device.strays.is_empty()
                && node.gives(&device.uuid)
                && !reserved(device)
        };
        let part = |size: &'a MigSize, instance: &gpool_model::mig_layout::MigInstance| {
            let uuid = instance.device.as_ref().map(|(uuid, _)| uuid);
            let known = node.devices.iter().enumerate().find(|(_, it)| Some(&it.uuid) == uuid);
            let free = known.filter(|(ix, device)| row.is_whole(*ix) && is_unused(device));
            PlannedInstance {
                size,
                place: instance.placement,
                free: free.map(|(_, device)| device),
            }
        };
        let gpu = |device: &'a Device| {
            let sizes = device.mig.iter().flat_map(|mig| &mig.sizes);
            let parts = sizes.flat_map(|size| size.instances.iter().map(move |it| (size, it)));
            let parts = parts.map(|(size, instance)| part(size, instance)).collect();
            let is_reserved = node.instances_of(&device.uuid).any(reserved);
            let is_open = is_unused(device) && !is_reserved && !except.contains(&device.uuid);
            Gpu { device, parts, is_open, is_changed: false }
        };
        let free = row.free_now();
        let n_tasks = match node.tasks() {
            0 => u64::MAX,
            _ => free.get(&ResourceKind::Tasks),
        };
        let free = [free.get(&ResourceKind::Cpu), free.get(&ResourceKind::Memory), n_tasks];
        Self {
            node,
            gpus: node.devices.iter().filter(|it| it.is_divided()).map(gpu).collect(),
            free,
        }
    }

    /// Gives the tasks of a job on one node their instances, all of one alternative of its
    /// request; `None` if that can't be.
    fn gives(&self, fit: &Fit, may_change: bool) -> Option<(Self, Vec<InstanceChange<'a>>)> {
        let n_tasks = u64::from(fit.gang.tasks_per_node);
        let beside = [fit.cpus.get(), fit.memory.get(), 1];
        let beside = beside.map(|each| each.saturating_mul(n_tasks));
        if !fit.may_be_on(self.node) || self.free.iter().zip(beside).any(|(free, n)| *free < n) {
            return None;
        }
        let of_rank = |rank: usize| {
            let (mut after, mut changes) = (self.clone(), Vec::new());
            for _ in 0..fit.n_devices_on_node() {
                let best = after.best(fit, rank, may_change)?;
                after.take(&best, &mut changes);
            }
            for (free, n) in after.free.iter_mut().zip(beside) {
                *free -= n;
            }
            Some((cost(&changes), rank, after, changes))
        };
        let ranks = (0..fit.gpus.models.len().max(1)).filter_map(of_rank);
        ranks
            .min_by_key(|(cost, rank, ..)| (*cost, *rank))
            .map(|(.., after, changes)| (after, changes))
    }

    fn best(&self, fit: &Fit, rank: usize, may_change: bool) -> Option<Choice> {
        let is_right = |device: &Device| fit.gpus.rank_of(device) == Some(rank);
        let mut choices = Vec::new();
        for (gpu_ix, gpu) in self.gpus.iter().enumerate() {
            for (ix, part) in gpu.parts.iter().enumerate() {
                if part.free.is_some_and(is_right) {
                    let (slices, start) = (part.size.compute_slices, part.place.start);
                    let destroyed = Vec::new();
                    choices.push(Choice { destroyed, creates: false, slices, gpu_ix, start, ix });
                }
            }
            let sizes = gpu.device.sizes_of_instances().enumerate();
            for (ix, size) in sizes.filter(|_| may_change && gpu.is_open) {
                let uuid = gpu.device.uuid.clone();
                if !is_right(&gpu.device.possible_instance(size, uuid)) {
                    continue;
                }
                choices.extend(size.placements.iter().filter_map(|place| {
                    let destroyed = gpu.in_the_way(size, *place)?;
                    let (slices, start) = (size.compute_slices, place.start);
                    Some(Choice { destroyed, creates: true, slices, gpu_ix, start, ix })
                }));
            }
        }
        choices.into_iter().min_by_key(|it| {
            (it.destroyed.len(), it.creates, it.slices, it.gpu_ix, it.start, it.ix)
        })
    }

    /// Makes a choice, and notes its changes.
    fn take(&mut self, choice: &Choice, changes: &mut Vec<InstanceChange<'a>>) {
        let Some(gpu) = self.gpus.get_mut(choice.gpu_ix) else { return };
        if !choice.creates {
            gpu.parts[choice.ix].free = None;
            return;
        }
        let change = |size, destroyed| InstanceChange {
            node: self.node,
            device: gpu.device,
            size,
            destroyed,
        };
        for ix in choice.destroyed.iter().rev() {
            let part = gpu.parts.remove(*ix);
            changes.push(change(part.size, part.free));
        }
        let Some(size) = gpu.device.sizes_of_instances().nth(choice.ix) else { return };
        let place = size.placements.iter().find(|place| place.start == choice.start);
        let Some(place) = place.copied() else { return };
        changes.push(change(size, None));
        gpu.parts.push(PlannedInstance { size, place, free: None });
        gpu.is_changed = true;
    }
}

impl Gpu<'_> {
    /// Returns the free instances that have to go before an instance of this size can be at a
    /// place; `None` if it can't be there.
    fn in_the_way(&self, size: &MigSize, place: MigPlacement) -> Option<Vec<usize>> {
        let overlaps = |part: &PlannedInstance<'_>| {
            part.place.start < place.start.saturating_add(place.size)
                && place.start < part.place.start.saturating_add(part.place.size)
        };
        let all = || self.parts.iter().enumerate();
        let in_the_way = all().filter(|(_, part)| overlaps(part));
        let destroyed: Option<Vec<usize>> =
            in_the_way.map(|(ix, part)| part.free.map(|_| ix)).collect();
        let destroyed = destroyed?;
        let left = || all().filter(|(ix, _)| !destroyed.contains(ix)).map(|(_, part)| part);
        let slices = left().fold(size.compute_slices, |sum, it| sum + it.size.compute_slices);
        let n_alike = left().filter(|part| part.size.profile == size.profile).count();
        let fits = slices <= Instance::SLICES
            && u32::try_from(n_alike).is_ok_and(|n| n < size.n_max)
            && (size.n_free > 0 || self.is_changed || !destroyed.is_empty());
        fits.then_some(destroyed)
    }
}

impl InstanceChange<'_> {
    fn step(&self, job: JobId) -> MigStep {
        let profile = self.size.profile.clone();
        let change = match self.destroyed {
            Some(instance) => MigChange::Destroy { instance: instance.uuid.clone() },
            None => {
                MigChange::Create { device: self.device.uuid.clone(), profile: profile.clone() }
            }
        };
        MigStep {
            node: self.node.name.clone(),
            pool: self.node.pool.clone(),
            device: self.device.uuid.clone(),
            gpu: self.device.index,
            profile,
            instance: self.destroyed.map(|it| it.index),
            change,
            job,
        }
    }
}

/// The number of destroyed and of created instances.
fn cost(changes: &[InstanceChange<'_>]) -> (usize, usize) {
    let n_destroyed = changes.iter().filter(|it| it.destroyed.is_some()).count();
    (n_destroyed, changes.len() - n_destroyed)
}

/// Gives a job its instances on as many nodes as it has; returns the changes, or `None` if it does
/// not fit.
fn give<'a>(
    machines: &mut [DividedNode<'a>],
    fit: &Fit,
    may_change: bool,
) -> Option<Vec<InstanceChange<'a>>> {
    let offers = machines.iter().enumerate();
    let offers = offers.filter_map(|(ix, it)| Some((ix, it.gives(fit, may_change)?)));
    let mut offers: Vec<_> = offers.collect();
    offers.sort_by_key(|(ix, (_, changes))| (cost(changes), *ix));
    let n_nodes = usize::try_from(fit.gang.nodes.max(1)).unwrap_or(usize::MAX);
    if offers.len() < n_nodes {
        return None;
    }
    let mut all = Vec::new();
    for (ix, (after, changes)) in offers.into_iter().take(n_nodes) {
        machines[ix] = after;
        all.extend(changes);
    }
    Some(all)
}
