//! Host resources: CPU cores, memory and task slots.

use gpool_model::pause::pause_memory;
use gpool_model::plan::Fit;
use gpool_model::{Allocation, JobSpec, Node, ResourceKind, Resources};
use gpool_world::NodeRow;

use super::task_spread::most_times;

/// The kinds, in the order in which a shortage is reported. The node itself is counted in parts of
/// [`Resources::WHOLE_NODE`]; plain tasks are the tasks without GPUs.
static KINDS: [ResourceKind; 5] = [
    ResourceKind::Node,
    ResourceKind::Cpu,
    ResourceKind::Memory,
    ResourceKind::Tasks,
    ResourceKind::PlainTasks,
];

/// Amounts of CPU cores, memory and task slots, by position in [`KINDS`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostResources([i64; 5]);

impl HostResources {
    /// Free resources of a node now; negative if more is booked than the node has.
    pub fn of(row: &NodeRow) -> Self {
        let free = [row.whole, row.cpu, row.memory, row.tasks, row.plain];
        Self(free.map(|free| free.now.min(free.later)))
    }

    fn new(node: u64, resources: &Resources, plain: u64) -> Self {
        let [cpus, memory, tasks] = [ResourceKind::Cpu, ResourceKind::Memory, ResourceKind::Tasks]
            .map(|it| resources.get(&it));
        let signed = |amount| i64::try_from(amount).unwrap_or(i64::MAX);
        Self([node, cpus, memory, tasks, plain].map(signed))
    }

    /// The whole capacity of a node.
    pub fn of_capacity(row: &NodeRow) -> Self {
        Self::new(Resources::WHOLE_NODE, &row.node.capacity, row.node.plain_tasks())
    }

    /// Returns the need of one unit of a fit on a node: all its tasks there.
    pub fn needed(fit: &Fit) -> Self {
        let n_tasks = i64::from(fit.gang.tasks_per_node);
        let amount = |of: u64| i64::try_from(of).unwrap_or(i64::MAX).saturating_mul(n_tasks);
        let tasks = i64::from(fit.n_new_tasks());
        let node = if fit.is_exclusive() { WHOLE_NODE } else { n_tasks };
        let plain = if fit.gpus.is_none() { tasks } else { 0 };
        Self([node, amount(fit.cpus.get()), amount(fit.memory.get()), tasks, plain])
    }

    /// The product. One whole node is enough for any number of units of one job.
    pub fn times(self, times: u32) -> Self {
        let mut product = self.0.map(|amount| amount.saturating_mul(i64::from(times)));
        product[0] = product[0].min(WHOLE_NODE);
        Self(product)
    }

    /// Returns how many times this fits into `available`, at most `most`.
    pub fn times_in(self, available: Self, most: u32) -> u32 {
        most_times(most, |times| self.times(times).first_short(available).is_none())
    }

    /// Returns the resources that an allocation books.
    pub fn booked(allocation: &Allocation) -> Self {
        let own = Self::new(allocation.of_node(), &allocation.resources, allocation.plain_tasks());
        own.with_memory(allocation.resources.get(&ResourceKind::PauseMemory))
    }

    /// Returns the resources that a task of a job books once it is paused.
    pub fn booked_paused(node: &Node, spec: &JobSpec, allocation: &Allocation) -> Self {
        let kept = spec.resources_paused();
        let plain = if spec.gpus.is_none() { kept.get(&ResourceKind::Tasks) } else { 0 };
        Self::new(0, &kept, plain).with_memory(pause_memory(node, spec, allocation).get())
    }

    /// Returns the host memory that the GPU memory of a paused task takes until it resumes.
    pub fn until_resumed(allocation: &Allocation) -> Self {
        Self::default().with_memory(allocation.resources.get(&ResourceKind::PauseMemory))
    }

    fn with_memory(mut self, bytes: u64) -> Self {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.0[MEMORY] = self.0[MEMORY].saturating_add(bytes);
        self
    }

    /// Whether jobs that pause on a node with this much free take more memory than it has: `needed`
    /// is their total need, as a negative amount.
    pub fn lacks_memory(self, needed: Self) -> bool {
        let (free, needed) = (self.0[MEMORY], needed.0[MEMORY]);
        needed < 0 && free.saturating_add(needed) < 0
    }

    /// The amounts below zero alone.
    pub fn below_zero(self) -> Self {
        Self(self.0.map(|amount| amount.min(0)))
    }

    /// The first resource that is short in `available`. A demand without a resource fits even
    /// where that resource is overbooked.
    pub fn first_short(self, available: Self) -> Option<ResourceKind> {
        self.first_short_with(Self::default(), available)
    }

    /// The same beside an amount that is held for others.
    pub fn first_short_with(self, held: Self, available: Self) -> Option<ResourceKind> {
        let amounts = self.0.into_iter().zip(held.0).zip(available.0);
        let is_short = |((needed, held), available): ((i64, i64), i64)| {
            needed > 0 && available < needed.saturating_add(held)
        };
        KINDS.iter().zip(amounts).find(|(_, amounts)| is_short(*amounts)).map(|(it, _)| it.clone())
    }

    /// The amount of one kind; 0 if negative.
    pub fn get(self, kind: &ResourceKind) -> u64 {
        let mut amounts = KINDS.iter().zip(self.0);
        let amount = amounts.find(|(it, _)| *it == kind).map_or(0, |(_, amount)| amount);
        u64::try_from(amount).unwrap_or(0)
    }

    /// The sum.
    pub fn more(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_add(other.0[at])))
    }

    /// The difference.
    pub fn less(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(other.0[at])))
    }
}

/// Position of the memory in [`KINDS`].
const MEMORY: usize = 2;
const WHOLE_NODE: i64 = Resources::WHOLE_NODE.cast_signed();
