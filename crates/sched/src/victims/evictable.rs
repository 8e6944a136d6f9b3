//! A job that may be evicted: its allocations, its exit, and its lost work.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::attained::Level;
use gpool_model::{
    AllocationState, Bytes, Exit, JobId, Millis, Phase, Project, ProjectName, ResourceKind,
    Resources, Timestamp,
};
use gpool_world::{JobRow, World};

use crate::capacity::{HostResources, View};
use crate::dominant_share::DominantShare;
use crate::fairshare::Row;
use crate::quota_state::{Amounts, Projects};

/// A job that may be evicted, with all its tasks, wherever they are.
#[derive(Debug, Clone)]
pub(crate) struct Evictable {
    pub job: JobId,
    /// The project or user that is charged for it.
    pub leaf: Row,
    pub project: Row,
    /// The part of its charge that it gives up, by kind.
    pub amounts: Amounts,
    /// Devices and host resources that it gives up, by position of the node in the capacity.
    pub held: BTreeMap<usize, HeldOn>,
    pub exit: Exit,
    /// Whether it moves to another place at once.
    pub moves: bool,
    pub order: EvictionOrder,
}

/// The eviction order of jobs: jobs of the project that is furthest over its share first, then
/// lower priorities, jobs that make other jobs larger or have had the most GPU-time, jobs that lose
/// the least work, and the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictionOrder {
    pub saturation: Reverse<DominantShare>,
    pub priority: i32,
    /// False if the job makes another one larger.
    pub stays: bool,
    /// The level of its GPU-time, where the policy's order asks for that.
    pub level: Reverse<Level>,
    /// Its submission, where the policy's order asks for GPU-time.
    pub came_at: Option<Reverse<Timestamp>>,
    /// Lost work: thousandths of a device times milliseconds that have to run again.
    pub lost: u64,
    pub started_at: Reverse<Timestamp>,
    pub job: Reverse<JobId>,
}

/// The devices and host resources of a job on one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldOn {
    /// Devices, by position, with bytes of their memory.
    pub devices: Vec<(usize, Bytes)>,
    pub host: HostResources,
}

/// Evictable jobs by position of their nodes; on each node in eviction order.
pub(crate) type ByNode = BTreeMap<usize, Vec<Evictable>>;

/// Adds a job on each of its nodes; mostly there is one, and nothing is copied.
pub(crate) fn put(by_node: &mut ByNode, job: Evictable) {
    let mut nodes = job.held.keys();
    let Some(first) = nodes.next().copied() else { return };
    for node_pos in nodes {
        by_node.entry(*node_pos).or_default().push(job.clone());
    }
    by_node.entry(first).or_default().push(job);
}

/// Whether any of these jobs would be paused.
pub(crate) fn pauses_any(by_node: &ByNode) -> bool {
    by_node.values().flatten().any(|it| it.exit == Exit::Pause)
}

/// Returns the charge of a job, by kind.
pub(crate) fn amounts_of(world: &World, projects: &Projects, row: &JobRow) -> Amounts {
    let mut sum = vec![0; projects.n_kinds()];
    for allocation in row.job.phase.allocations() {
        for (sum, amount) in sum.iter_mut().zip(projects.amounts_held(world, allocation)) {
            *sum += amount;
        }
    }
    sum
}

impl Evictable {
    /// Returns a job with its charge, by kind; `None` if it can't be evicted now.
    pub fn of(
        view: &View<'_, '_>,
        projects: &Projects,
        row: &JobRow,
        leaf: Row,
        amounts: &[u64],
        may_pause: bool,
    ) -> Option<Self> {
        let (world, now) = (view.snapshot.world, view.snapshot.now);
        let started_at = match &row.job.phase {
            Phase::Starting { since, .. } => *since,
            Phase::Running { started_at, .. } => started_at.after(row.job.course.paused),
            _ => return None,
        };
        let exit = best_exit(world, row, may_pause)?;
        let (kept, kept_host) = match exit {
            Exit::Pause => (row.spec.resources_paused(), HostResources::booked_paused(&row.spec)),
            Exit::Checkpoint | Exit::Requeue | Exit::Kill => {
                (Resources::none(), HostResources::default())
            }
        };
        let n_tasks = row.job.phase.allocations().len() as u64;
        let less =
            |(amount, kept): (&u64, u64)| amount.saturating_sub(kept.saturating_mul(n_tasks));
        let amounts = amounts.iter().zip(projects.amounts(&kept)).map(less).collect();
        let mut held = BTreeMap::<usize, HeldOn>::new();
        let mut gpus = 0;
        for allocation in row.job.phase.allocations() {
            if matches!(allocation.state, AllocationState::Claimed { .. }) {
                return None;
            }
            let node_pos = view.capacity.position(world, &allocation.node)?;
            let all = &view.capacity.nodes[node_pos].row.node.devices;
            let devices = allocation.slots.iter().filter_map(|slot| {
                let ix = all.iter().position(|device| device.uuid == slot.device)?;
                Some((ix, slot.part.memory_of(all[ix].memory)))
            });
            let here = held.entry(node_pos).or_default();
            here.devices.extend(devices);
            here.host = here.host.more(HostResources::booked(allocation)).less(kept_host);
            gpus += allocation.resources.get(&ResourceKind::Gpu);
        }
        let order = EvictionOrder {
            saturation: Reverse(DominantShare::EQUAL),
            priority: row.job.priority,
            stays: row.spec.joins.is_none(),
            level: Reverse(0),
            came_at: None,
            lost: lost(row, exit, now.since(started_at)).get().saturating_mul(gpus.max(1)),
            started_at: Reverse(started_at),
            job: Reverse(row.job.id),
        };
        let project = projects.project(leaf);
        Some(Self { job: row.job.id, leaf, project, amounts, held, exit, moves: false, order })
    }

    /// Whether it would still hold something of a planned start at the time of that start, although
    /// it was expected to leave before.
    pub fn delays_planned_start(&self, view: &View<'_, '_>) -> bool {
        let (world, now) = (view.snapshot.world, view.snapshot.now);
        let starts = self.held.keys().flat_map(|node_pos| view.holds.starts(*node_pos));
        let Some(first) = starts.min() else { return false };
        match self.exit {
            // A paused job keeps its memory.
            Exit::Pause => true,
            exit => world
                .job(self.job)
                .is_none_or(|row| world.expected_end_if_taken_back(row, exit, now).at > first),
        }
    }

    /// Number of devices that it holds on a node.
    pub fn n_devices_on(&self, node_pos: usize) -> usize {
        self.held.get(&node_pos).map_or(0, |held| held.devices.len())
    }
}

/// Returns the best way to evict a job; `None` if there is none. All its tasks leave in that way,
/// so all its nodes must support it.
pub(crate) fn best_exit(world: &World, row: &JobRow, may_pause: bool) -> Option<Exit> {
    let can_pause = || {
        let nodes = row.job.phase.allocations().iter().map(|it| world.node(&it.node));
        matches!(row.job.phase, Phase::Running { .. })
            && row.spec.is_of_one_size()
            && nodes.into_iter().all(|it| it.is_some_and(|it| it.node.can_pause()))
    };
    let allowed = row.spec.life.allowed_exits();
    allowed.into_iter().find(|exit| *exit != Exit::Pause || (may_pause && can_pause()))
}

/// The run time that a job loses with that exit: all of it, unless it saves its work; then at most
/// the time that it gets for that.
fn lost(row: &JobRow, exit: Exit, ran: Millis) -> Millis {
    match exit {
        Exit::Pause => Millis::ZERO,
        Exit::Checkpoint => {
            let grace = row.spec.life.checkpoint.and_then(|checkpoint| checkpoint.grace);
            ran.min(grace.unwrap_or(row.spec.grace))
        }
        Exit::Requeue | Exit::Kill => ran,
    }
}

/// Returns the minimum run time of the jobs of a project: its own setting, or that of the first
/// project above it that has one.
pub(crate) fn min_runtime(
    world: &World,
    name: &ProjectName,
    setting: impl Fn(&Project) -> Option<Millis>,
) -> Millis {
    let projects = world.projects();
    let above = |it: &&Project| projects.get(it.parent.as_ref()?);
    let mut upwards = std::iter::successors(projects.get(name), above).take(projects.len());
    upwards.find_map(setting).unwrap_or(Millis::ZERO)
}
