//! Jobs that can be evicted: how they leave, and the values that decide which of them leave first.

use std::collections::BTreeMap;

use gpool_model::pause::pause_memory;
use gpool_model::{
    AllocationState, Bytes, Exit, GpuTime, MilliGpu, Millis, NodeName, Phase, Timestamp,
};

use crate::row::JobRow;
use crate::world::World;

/// The values that decide the precedence of an evictable job. A cycle compares all of these jobs,
/// so the values are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvictableRank {
    pub priority: i32,
    /// Whether it makes another job larger.
    pub joins: bool,
    /// The GPU time that it attained before it started.
    before: GpuTime,
    forgiven: GpuTime,
    /// What changes of its size add.
    resized: i64,
    /// Its devices, and since when it has them, if it runs.
    runs: Option<(MilliGpu, Timestamp)>,
}

impl EvictableRank {
    pub(crate) fn of(row: &JobRow) -> Self {
        let course = &row.job.course;
        let started_at = row.job.started_at().map(|at| at.after(course.paused));
        Self {
            priority: row.job.priority,
            joins: row.spec.joins.is_some(),
            before: course.attained,
            resized: course.resized,
            forgiven: course.forgiven,
            runs: started_at.map(|at| (row.job.allocated_gpus(), at)),
        }
    }

    /// The GPU-time that counts in the queue order: the same as [`gpool_model::Job::net_gpu_time`].
    #[must_use]
    pub fn net_gpu_time(&self, now: Timestamp) -> GpuTime {
        let since =
            self.runs.map(|(gpus, at)| GpuTime::of(gpus, now.since(at)).corrected(self.resized));
        self.before.saturating_add(since.unwrap_or_default()).saturating_sub(self.forgiven)
    }
}

impl JobRow {
    /// Whether the job holds something that can be evicted; a claim alone is not held.
    #[must_use]
    pub fn is_evictable(&self) -> bool {
        let held = |state: &AllocationState| {
            matches!(state, AllocationState::Placed | AllocationState::Running)
        };
        let allocations = self.job.phase.allocations();
        self.spec.life.preemptible == Some(true)
            && !allocations.is_empty()
            && allocations.iter().all(|it| held(&it.state))
    }

    /// The time that the job gets to save its work when it is evicted.
    #[must_use]
    pub fn time_to_save(&self) -> Millis {
        let grace = self.spec.life.checkpoint.and_then(|checkpoint| checkpoint.grace);
        grace.unwrap_or(self.spec.grace)
    }
}

impl World {
    /// Returns the best way to evict a job; `None` if there is none. All its tasks leave in that
    /// way, so all its nodes must support it.
    #[must_use]
    pub fn best_exit(&self, row: &JobRow, may_pause: bool) -> Option<Exit> {
        let can_pause = || {
            let nodes = row.job.phase.allocations().iter().map(|it| self.node(&it.node));
            matches!(row.job.phase, Phase::Running { .. })
                && row.spec.is_of_one_size()
                && row.job.course.not_pausable.is_none()
                && (row.spec.yields().is_some()
                    || nodes.into_iter().all(|it| it.is_some_and(|it| it.node.can_pause())))
                && self.has_memory_to_pause(row)
        };
        let is_open = |exit: &Exit| *exit != Exit::Pause || (may_pause && can_pause());
        Exit::ALL.into_iter().find(|exit| row.spec.life.allows(*exit) && is_open(exit))
    }

    /// Whether each node of a running job has free host memory for the job's GPU memory.
    fn has_memory_to_pause(&self, row: &JobRow) -> bool {
        let mut needed = BTreeMap::<&NodeName, Bytes>::new();
        for allocation in row.job.phase.allocations() {
            let Some(node) = self.node(&allocation.node) else { return false };
            let sum = needed.entry(&allocation.node).or_default();
            *sum = sum.saturating_add(pause_memory(&node.node, &row.spec, allocation));
        }
        needed.into_iter().all(|(node, bytes)| {
            let free = self.node(node).map_or(0, |row| row.memory.now.min(row.memory.later));
            bytes.is_zero() || u64::try_from(free).is_ok_and(|free| bytes.get() <= free)
        })
    }

    /// Returns the time from which on a job may move to another place so that a larger job fits on
    /// its node; `None` if it may not. It has run for a while by then, and saves its work.
    #[must_use]
    pub fn movable_from(&self, row: &JobRow) -> Option<Timestamp> {
        let Phase::Running { started_at, .. } = &row.job.phase else { return None };
        let started_at = started_at.after(row.job.course.paused);
        let policy = self.policy_of(row);
        let n_devices = row.spec.gpus.n_devices().saturating_mul(row.spec.gang.tasks_per_node);
        let may_move = policy.consolidate
            && row.is_evictable()
            && row.spec.gang.nodes_most == 1
            && !row.spec.has_parts()
            && row.spec.joins.is_none()
            && n_devices > 0
            && (row.spec.gpus.share().is_none() || n_devices == 1)
            && self.best_exit(row, false) == Some(Exit::Checkpoint);
        may_move.then(|| started_at.after(policy.min_run))
    }
}
