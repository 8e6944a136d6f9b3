//! A job that may be evicted: its allocations, its exit, and its lost work.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::attained::Level;
use gpool_model::{
    AllocationState, Exit, JobId, JobSpec, Millis, Phase, ResourceKind, Resources, Timestamp,
};
use gpool_world::{JobRow, PendingQueueKey, ProjectIx};

use crate::capacity::{NodeHoldings, View};
use crate::fairshare::{Ratio, TreeIx};
use crate::quota_state::{Amounts, Projects};

/// A condition on jobs that leave together.
pub(crate) type Test<'t> = dyn Fn(&[&Evictable]) -> bool + 't;

/// A job that may be evicted, with all its tasks, wherever they are.
#[derive(Debug, Clone)]
pub(crate) struct Evictable {
    pub job: JobId,
    /// The project or user that is charged for it.
    pub leaf: TreeIx,
    pub project: TreeIx,
    /// The part of its charge that it gives up, by kind.
    pub amounts: Amounts,
    /// Devices and host resources that it gives up, by position of the node in the capacity.
    pub held: BTreeMap<usize, NodeHoldings>,
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
    pub saturation: Reverse<Ratio>,
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

/// Evictable jobs by position of their nodes; on each node in eviction order.
pub(crate) type ByNode = BTreeMap<usize, Vec<Evictable>>;

/// Adds a job on each of its nodes; mostly there is one, and nothing is copied.
pub(crate) fn add_on_nodes(by_node: &mut ByNode, job: Evictable) {
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

impl Evictable {
    /// Returns a job of a project, with its charge by kind; `None` if it can't be evicted now.
    pub fn of(
        view: &View<'_, '_>,
        projects: &Projects,
        (row, project_ix): (&JobRow, ProjectIx),
        amounts: &[u64],
        may_pause: bool,
    ) -> Option<Self> {
        let (world, now) = (view.snapshot.world, view.snapshot.now);
        let started_at = match &row.job.phase {
            Phase::Starting { since, .. } => *since,
            Phase::Running { started_at, .. } => started_at.after(row.job.course.paused),
            _ => return None,
        };
        let exit = world.best_exit(row, may_pause)?;
        let paused = (exit == Exit::Pause).then_some(&*row.spec);
        let kept = paused.map_or_else(Resources::none, JobSpec::resources_paused);
        let n_tasks = row.job.phase.allocations().len() as u64;
        let less =
            |(amount, kept): (&u64, u64)| amount.saturating_sub(kept.saturating_mul(n_tasks));
        let amounts = amounts.iter().zip(projects.amounts(&kept)).map(less).collect();
        let mut held = BTreeMap::<usize, NodeHoldings>::new();
        let mut gpus = 0;
        for allocation in row.job.phase.allocations() {
            if matches!(allocation.state, AllocationState::Claimed { .. }) {
                return None;
            }
            let node_pos = view.capacity.position(world, &allocation.node)?;
            let node = &view.capacity.nodes[node_pos].row.node;
            held.entry(node_pos).or_default().add(allocation, node, paused);
            gpus += allocation.resources.get(&ResourceKind::Gpu);
        }
        let order = EvictionOrder {
            saturation: Reverse(Ratio::whole(0)),
            priority: row.job.priority,
            stays: row.spec.joins.is_none(),
            level: Reverse(0),
            came_at: None,
            lost: lost(row, exit, now.since(started_at)).get().saturating_mul(gpus.max(1)),
            started_at: Reverse(started_at),
            job: Reverse(row.job.id),
        };
        let leaf = projects.leaf(PendingQueueKey { project_ix, uid: Some(row.spec.owner.uid) });
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

    /// Whether it has run that long.
    pub fn has_run(&self, length: Millis, now: Timestamp) -> bool {
        self.order.started_at.0.after(length) <= now
    }

    /// Number of devices that it holds on a node.
    pub fn n_devices_on(&self, node_pos: usize) -> usize {
        self.held.get(&node_pos).map_or(0, |held| held.uses.len())
    }
}

/// The run time that a job loses with that exit: all of it, unless it saves its work; then at most
/// the time that it gets for that.
fn lost(row: &JobRow, exit: Exit, ran: Millis) -> Millis {
    match exit {
        Exit::Pause => Millis::ZERO,
        Exit::Checkpoint => ran.min(row.time_to_save()),
        Exit::Requeue | Exit::Kill => ran,
    }
}
