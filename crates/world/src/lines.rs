//! The pending queues: one for each project, or for each user of a project where the scheduler
//! distinguishes users. A queue has the first job of each of its shapes in queue order, and the sum
//! of what its jobs ask for. Both are updated as jobs come and go, so that the cost of a cycle
//! depends on the jobs that it looks at and not on all pending jobs.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use gpool_model::plan::Fit;
use gpool_model::{
    GpuAmount, JobId, MilliGpu, Millis, Policy, PoolName, ResourceKind, Shape, Timestamp,
};

use crate::order::Rank;
use crate::row::{FitIx, ProjectIx, ShapeIx};

/// The owner of a pending queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingQueueKey {
    pub project_ix: ProjectIx,
    /// The user, where the scheduler distinguishes users.
    pub uid: Option<u32>,
}

/// The first job of its shape, among the escalated jobs or among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueHead {
    /// Its place in the queue order.
    pub rank: Rank,
    pub shape_ix: ShapeIx,
    /// What its shape asks of nodes.
    pub fit_ix: FitIx,
    pub is_escalated: bool,
    pub priority: i32,
    /// Whether it makes another job larger.
    pub joins: bool,
    pub preemptible: bool,
    /// How much of devices it asks for, all its tasks together.
    pub gpus: MilliGpu,
    /// The most whole GPUs that it needs on one node; zero for shares and instances.
    pub n_whole: usize,
    /// How long it holds its devices at most; `None` means without limit.
    pub takes: Option<Millis>,
}

impl QueueHead {
    #[must_use]
    pub fn job(&self) -> JobId {
        self.rank.job()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingQueue {
    heads: BTreeSet<QueueHead>,
    /// How many heads need each number of whole devices on one node.
    n_by_whole: BTreeMap<usize, u64>,
    least_whole: usize,
    n_preemptible: u64,
    first: Option<(i32, bool)>,
    demand: LineDemand,
}

impl PendingQueue {
    pub fn heads(&self) -> btree_set::Iter<'_, QueueHead> {
        self.heads.iter()
    }

    /// The least number of whole devices on one node that any of the heads needs.
    #[must_use]
    pub fn least_whole(&self) -> usize {
        self.least_whole
    }

    /// Whether any of the heads is preemptible.
    #[must_use]
    pub fn any_preemptible(&self) -> bool {
        self.n_preemptible > 0
    }

    /// The priority of the first head, and whether it makes another job larger.
    #[must_use]
    pub fn first(&self) -> Option<(i32, bool)> {
        self.first
    }

    fn insert(&mut self, head: QueueHead) {
        *self.n_by_whole.entry(head.n_whole).or_default() += 1;
        self.n_preemptible += u64::from(head.preemptible);
        self.heads.insert(head);
        self.note();
    }

    /// Caches the values that every cycle reads.
    fn note(&mut self) {
        self.least_whole = self.n_by_whole.keys().next().copied().unwrap_or(0);
        self.first = self.heads.first().map(|head| (head.priority, head.joins));
    }

    fn remove(&mut self, head: &QueueHead) {
        assert!(self.heads.remove(head), "a job leaves a line once");
        self.n_preemptible -= u64::from(head.preemptible);
        let n_heads = self.n_by_whole.entry(head.n_whole).or_default();
        *n_heads -= 1;
        if *n_heads == 0 {
            self.n_by_whole.remove(&head.n_whole);
        }
        self.note();
    }

    fn clear(&mut self) {
        self.heads.clear();
        self.n_by_whole.clear();
        self.n_preemptible = 0;
        self.note();
    }

    /// What all jobs of the queue ask for.
    #[must_use]
    pub fn demand(&self) -> &LineDemand {
        &self.demand
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineDemand {
    n_jobs: u64,
    // Wide enough that no sum is cut off, so that each amount can be subtracted again.
    gpus: u128,
    cpus: u128,
    memory: u128,
    tasks: u128,
    /// How many ask for less than a device, by their part of it.
    shares: BTreeMap<MilliGpu, u64>,
}

impl LineDemand {
    /// Returns the amount of a kind; `None` for a part of the GPUs, because the placement decides
    /// it.
    #[must_use]
    pub fn of(&self, kind: &ResourceKind) -> Option<u64> {
        let sum = match kind {
            ResourceKind::Gpu => self.gpus,
            ResourceKind::Cpu => self.cpus,
            ResourceKind::Memory => self.memory,
            ResourceKind::Tasks => self.tasks,
            ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => return None,
            ResourceKind::GpuMemory
            | ResourceKind::PlainTasks
            | ResourceKind::UserTasks
            | ResourceKind::MigProfile(_)
            | ResourceKind::PauseMemory
            | ResourceKind::Node => 0,
        };
        Some(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// The smallest part of a device that any of the jobs asks for.
    #[must_use]
    pub fn smallest_share(&self) -> Option<MilliGpu> {
        self.shares.keys().next().copied()
    }

    fn change(&mut self, shape: &Shape, before: u64, after: u64) {
        let sum = |amount: &dyn Fn(&Fit) -> u64| {
            let of_all = |fit| u128::from(amount(fit)) * u128::from(fit.gang.n_tasks());
            shape.fits().map(of_all).sum::<u128>()
        };
        let gpus = shape.gpus_together();
        let parts = [
            (&mut self.gpus, u128::from(gpus.get())),
            (&mut self.cpus, sum(&|fit| fit.cpus.get())),
            (&mut self.memory, sum(&|fit| fit.memory.get())),
            (&mut self.tasks, sum(&|fit| u64::from(fit.at.is_empty()))),
        ];
        for (sum, each) in parts {
            *sum = *sum + each * u128::from(after) - each * u128::from(before);
        }
        self.n_jobs = self.n_jobs + after - before;
        if !gpus.is_zero() && gpus < MilliGpu::DEVICE {
            let n_jobs = self.shares.entry(gpus).or_default();
            *n_jobs = *n_jobs + after - before;
            if *n_jobs == 0 {
                self.shares.remove(&gpus);
            }
        }
    }
}

/// All pending queues that have jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PendingQueues {
    /// By the pool that has a policy of its own for the jobs, as each policy has its own order;
    /// `None` for all others.
    by_domain: BTreeMap<Option<PoolName>, BTreeMap<PendingQueueKey, PendingQueue>>,
}

/// The domain and key of one queue.
pub(crate) type DomainLine<'a> = (Option<&'a PoolName>, PendingQueueKey);

impl PendingQueues {
    pub fn all(&self) -> impl Iterator<Item = (Option<&PoolName>, PendingQueueKey, &PendingQueue)> {
        let domains = self.by_domain.iter();
        domains.flat_map(|(domain, lines)| {
            lines.iter().map(move |(key, line)| (domain.as_ref(), *key, line))
        })
    }

    pub fn of(
        &self,
        domain: Option<&PoolName>,
    ) -> impl Iterator<Item = (PendingQueueKey, &PendingQueue)> {
        let lines = self.by_domain.get(&domain.cloned());
        lines.into_iter().flatten().map(|(key, line)| (*key, line))
    }

    pub fn insert(&mut self, key: DomainLine<'_>, head: QueueHead) {
        self.line(key).insert(head);
    }

    pub fn remove(&mut self, key: DomainLine<'_>, head: &QueueHead) {
        self.line(key).remove(head);
        self.close(key);
    }

    /// Replaces a count of `before` waiting jobs of a shape by `after`.
    pub fn ask(&mut self, key: DomainLine<'_>, shape: &Shape, before: u64, after: u64) {
        self.line(key).demand.change(shape, before, after);
        self.close(key);
    }

    /// Forgets the order of all queues, before it is recomputed.
    pub fn clear_heads(&mut self) {
        self.by_domain.values_mut().flat_map(BTreeMap::values_mut).for_each(PendingQueue::clear);
    }

    fn line(&mut self, (domain, key): DomainLine<'_>) -> &mut PendingQueue {
        self.by_domain.entry(domain.cloned()).or_default().entry(key).or_default()
    }

    fn close(&mut self, (domain, key): DomainLine<'_>) {
        let domain = domain.cloned();
        let Some(lines) = self.by_domain.get_mut(&domain) else { return };
        if lines.get(&key).is_some_and(|line| *line == PendingQueue::default()) {
            lines.remove(&key);
        }
        if lines.is_empty() {
            self.by_domain.remove(&domain);
        }
    }
}

/// Returns a job as the head of its shape, under a policy.
pub(crate) fn head(
    policy: &Policy,
    shape: &Shape,
    (shape_ix, fit_ix): (ShapeIx, FitIx),
    is_escalated: bool,
    (submitted_at, job): (Timestamp, JobId),
) -> QueueHead {
    QueueHead {
        rank: Rank::of(policy, shape, is_escalated, submitted_at, job),
        shape_ix,
        fit_ix,
        is_escalated,
        priority: shape.priority,
        joins: shape.joins,
        preemptible: shape.preemptible,
        gpus: shape.gpus_together(),
        n_whole: shape.fits().map(n_whole).max().unwrap_or(0),
        takes: shape.takes,
    }
}

/// How many whole GPUs a fit needs on one node; zero for shares and instances.
fn n_whole(fit: &Fit) -> usize {
    match fit.gpus.amount {
        GpuAmount::Whole(_) => usize::try_from(fit.n_devices_on_node()).unwrap_or(usize::MAX),
        GpuAmount::Shared { .. } | GpuAmount::Instances { .. } => 0,
    }
}
