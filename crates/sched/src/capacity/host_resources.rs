//! Host resources: CPU cores, memory and task slots.

use gpool_model::plan::Fit;
use gpool_model::{Allocation, JobSpec, ResourceKind, Resources};
use gpool_world::{Free, NodeRow};

use super::task_spread::most_times;

/// Amounts of CPU cores, memory and task slots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostResources {
    cpus: i64,
    memory: i64,
    tasks: i64,
    /// Of these, tasks without GPUs.
    plain: i64,
    /// Of the node itself, in parts of [`Resources::WHOLE_NODE`].
    node: i64,
}

const WHOLE_NODE: i64 = Resources::WHOLE_NODE.cast_signed();

impl HostResources {
    /// Free resources of a node now; negative if more is booked than the node has.
    pub fn of(row: &NodeRow) -> Self {
        let amount = |free: Free| free.now.min(free.later);
        Self {
            cpus: amount(row.cpu),
            memory: amount(row.memory),
            tasks: amount(row.tasks),
            plain: amount(row.plain),
            node: amount(row.whole),
        }
    }

    /// The whole capacity of a node.
    pub fn of_capacity(row: &NodeRow) -> Self {
        let plain = i64::try_from(row.node.plain_tasks()).unwrap_or(i64::MAX);
        Self { node: WHOLE_NODE, plain, ..Self::beside_node(&row.node.capacity) }
    }

    /// Returns the need of one unit of a fit on a node: all its tasks there.
    pub fn needed(fit: &Fit) -> Self {
        let n_tasks = i64::from(fit.gang.tasks_per_node);
        let amount = |of: u64| i64::try_from(of).unwrap_or(i64::MAX).saturating_mul(n_tasks);
        let tasks = i64::from(fit.n_new_tasks());
        let node = if fit.is_exclusive() { WHOLE_NODE } else { n_tasks };
        let plain = if fit.gpus.is_none() { tasks } else { 0 };
        Self { cpus: amount(fit.cpus.get()), memory: amount(fit.memory.get()), tasks, plain, node }
    }

    /// The product. One whole node is enough for any number of units of one job.
    pub fn times(self, times: u32) -> Self {
        let amount = |of: i64| of.saturating_mul(i64::from(times));
        Self {
            cpus: amount(self.cpus),
            memory: amount(self.memory),
            tasks: amount(self.tasks),
            plain: amount(self.plain),
            node: amount(self.node).min(WHOLE_NODE),
        }
    }

    /// Returns how many times this fits into `available`, at most `most`.
    pub fn times_in(self, available: Self, most: u32) -> u32 {
        most_times(most, |times| self.times(times).first_short(available).is_none())
    }

    /// Returns the resources that an allocation books.
    pub fn booked(allocation: &Allocation) -> Self {
        let node = allocation.of_node().cast_signed();
        let plain = i64::try_from(allocation.plain_tasks()).unwrap_or(i64::MAX);
        Self { node, plain, ..Self::beside_node(&allocation.resources) }
    }

    /// Returns the resources that a task of a paused job books.
    pub fn booked_paused(spec: &JobSpec) -> Self {
        let booked = Self::beside_node(&spec.resources_paused());
        let plain = if spec.gpus.is_none() { booked.tasks } else { 0 };
        Self { plain, ..booked }
    }

    /// CPU cores, memory and tasks.
    fn beside_node(resources: &Resources) -> Self {
        let amount = |kind| i64::try_from(resources.get(&kind)).unwrap_or(i64::MAX);
        Self {
            cpus: amount(ResourceKind::Cpu),
            memory: amount(ResourceKind::Memory),
            tasks: amount(ResourceKind::Tasks),
            plain: 0,
            node: 0,
        }
    }

    /// The first kind that `available` has less of than this. A demand that needs nothing of a
    /// kind fits even where that kind is overbooked.
    pub fn first_short(self, available: Self) -> Option<ResourceKind> {
        self.first_short_with(Self::default(), available)
    }

    /// The same beside an amount that is held for others.
    pub fn first_short_with(self, held: Self, available: Self) -> Option<ResourceKind> {
        let kinds = [
            ResourceKind::Node,
            ResourceKind::Cpu,
            ResourceKind::Memory,
            ResourceKind::Tasks,
            ResourceKind::PlainTasks,
        ];
        kinds.into_iter().find(|kind| {
            let (needed, held) = (self.amount(kind), held.amount(kind));
            needed > 0 && available.amount(kind) < needed.saturating_add(held)
        })
    }

    /// Thousandths of cores; 0 if negative.
    pub fn cpus(self) -> u64 {
        u64::try_from(self.cpus).unwrap_or(0)
    }

    /// The amount of one kind; 0 if negative.
    pub fn get(self, kind: &ResourceKind) -> u64 {
        u64::try_from(self.amount(kind)).unwrap_or(0)
    }

    fn amount(self, kind: &ResourceKind) -> i64 {
        match kind {
            ResourceKind::Cpu => self.cpus,
            ResourceKind::Memory => self.memory,
            ResourceKind::Tasks => self.tasks,
            ResourceKind::PlainTasks => self.plain,
            ResourceKind::Node => self.node,
            ResourceKind::UserTasks
            | ResourceKind::Gpu
            | ResourceKind::GpuModel(_)
            | ResourceKind::GpuPool(_)
            | ResourceKind::GpuMemory
            | ResourceKind::MigProfile(_)
            | ResourceKind::PauseMemory => 0,
        }
    }

    pub fn more(self, other: Self) -> Self {
        Self {
            cpus: self.cpus.saturating_add(other.cpus),
            memory: self.memory.saturating_add(other.memory),
            tasks: self.tasks.saturating_add(other.tasks),
            plain: self.plain.saturating_add(other.plain),
            node: self.node.saturating_add(other.node),
        }
    }

    pub fn less(self, other: Self) -> Self {
        Self {
            cpus: self.cpus.saturating_sub(other.cpus),
            memory: self.memory.saturating_sub(other.memory),
            tasks: self.tasks.saturating_sub(other.tasks),
            plain: self.plain.saturating_sub(other.plain),
            node: self.node.saturating_sub(other.node),
        }
    }
}
