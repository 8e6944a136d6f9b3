//! Amounts of several kinds of resources. A new kind is data, not a new field.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::PoolName;
use crate::pattern::ModelPattern;
use crate::unit::{Bytes, MilliCpu, MilliGpu};

/// A kind of resource that can be counted, allocated and limited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// Thousandths of a device.
    Gpu,
    /// Thousandths of a device of one model. For allocations and capacity it is the model's name;
    /// for quotas, a lower-case pattern ([`ModelPattern`]).
    GpuModel(String),
    /// Thousandths of a device on nodes of one pool.
    GpuPool(PoolName),
    /// Bytes of device memory.
    GpuMemory,
    /// Instances of one MIG profile.
    MigProfile(String),
    /// Thousandths of a CPU core.
    Cpu,
    /// Bytes of host memory.
    Memory,
    /// Bytes of host memory for the GPU memory of paused tasks: a part of [`Self::Memory`].
    PauseMemory,
    /// Task slots: tasks that run at once, whatever they request.
    Tasks,
    /// The task slots of a node for tasks without GPUs. Only capacities of nodes have it.
    PlainTasks,
    /// The task slots of a node for one user. Only capacities of nodes have it.
    UserTasks,
    /// The node itself: a job that needs it exclusively books [`Resources::WHOLE_NODE`] of it.
    Node,
}

impl ResourceKind {
    /// Whether it is GPUs of one model or of one pool.
    #[must_use]
    pub fn is_part_of_gpus(&self) -> bool {
        matches!(self, Self::GpuModel(_) | Self::GpuPool(_))
    }

    /// Whether an allocated or available kind counts towards a quota of this kind.
    #[must_use]
    pub fn counts(&self, held: &Self) -> bool {
        match (self, held) {
            (Self::GpuModel(pattern), Self::GpuModel(model)) => {
                ModelPattern::new(pattern).matches(model)
            }
            _ => self == held,
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu => f.pad("GPUs"),
            Self::GpuModel(model) => write!(f, "{} GPUs", model.to_uppercase()),
            Self::GpuPool(pool) => write!(f, "GPUs in pool {pool}"),
            Self::GpuMemory => f.pad("GPU memory"),
            Self::MigProfile(profile) => write!(f, "MIG {profile}"),
            Self::Cpu => f.pad("CPU cores"),
            Self::Memory => f.pad("memory"),
            Self::PauseMemory => f.pad("memory for paused tasks"),
            Self::Tasks => f.pad("tasks at once"),
            Self::PlainTasks => f.pad("tasks without GPUs at once"),
            Self::UserTasks => f.pad("tasks of one user at once"),
            Self::Node => f.pad("whole node"),
        }
    }
}

/// Amounts by kind, in the kind's own unit; a missing kind is zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Resources {
    // Invariant: sorted by kind, each kind once, and no zero amounts, so that equal values compare
    // equal. A `Vec`, because there are few kinds and each allocation has one.
    amounts: Vec<(ResourceKind, u64)>,
}

impl Resources {
    /// A whole node. A task without exclusive use takes 1 of it, so no exclusive task fits beside
    /// it.
    pub const WHOLE_NODE: u64 = 1 << 32;

    /// How much of its node a task takes while it runs.
    #[must_use]
    pub fn of_node(&self) -> u64 {
        self.get(&ResourceKind::Node).max(self.get(&ResourceKind::Tasks))
    }

    /// No resources.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    fn position(&self, kind: &ResourceKind) -> Result<usize, usize> {
        self.amounts.binary_search_by(|(it, _)| it.cmp(kind))
    }

    /// The amount of one kind.
    #[must_use]
    pub fn get(&self, kind: &ResourceKind) -> u64 {
        // A linear search: comparing for equality is faster than for order.
        self.amounts.iter().find(|(it, _)| it == kind).map_or(0, |(_, amount)| *amount)
    }

    /// The amount that counts towards a quota of this kind.
    #[must_use]
    pub fn counted_as(&self, kind: &ResourceKind) -> u64 {
        match kind {
            ResourceKind::GpuModel(_) => {
                let all = self.iter().filter(|(held, _)| kind.counts(held));
                all.map(|(_, amount)| amount).fold(0, u64::saturating_add)
            }
            _ => self.get(kind),
        }
    }

    /// Adds an amount of one kind.
    pub fn add(&mut self, kind: ResourceKind, amount: u64) {
        let sum = self.get(&kind).saturating_add(amount);
        self.set(kind, sum);
    }

    /// Sets the amount of one kind.
    pub fn set(&mut self, kind: ResourceKind, amount: u64) {
        match (self.position(&kind), amount) {
            (Ok(at), 0) => drop(self.amounts.remove(at)),
            (Ok(at), _) => self.amounts[at].1 = amount,
            (Err(_), 0) => {}
            (Err(at), _) => self.amounts.insert(at, (kind, amount)),
        }
    }

    /// The same with this number of GPUs.
    #[must_use]
    pub fn with_gpus(mut self, gpus: MilliGpu) -> Self {
        self.set(ResourceKind::Gpu, gpus.get());
        self
    }

    /// The same with this number of cores.
    #[must_use]
    pub fn with_cpus(mut self, cpus: MilliCpu) -> Self {
        self.set(ResourceKind::Cpu, cpus.get());
        self
    }

    /// The same with this much host memory.
    #[must_use]
    pub fn with_memory(mut self, memory: Bytes) -> Self {
        self.set(ResourceKind::Memory, memory.get());
        self
    }

    /// The same with this number of task slots.
    #[must_use]
    pub fn with_tasks(mut self, tasks: u32) -> Self {
        self.set(ResourceKind::Tasks, u64::from(tasks));
        self
    }

    /// The same with a whole node, if `is_wanted`.
    #[must_use]
    pub fn with_whole_node(mut self, is_wanted: bool) -> Self {
        self.set(ResourceKind::Node, if is_wanted { Self::WHOLE_NODE } else { 0 });
        self
    }

    /// Each kind that is not zero, in the order of [`ResourceKind`].
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceKind, u64)> {
        self.amounts.iter().map(|(kind, amount)| (kind, *amount))
    }

    /// The sum, or `None` if an amount overflows.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        for (kind, amount) in other.iter() {
            sum.set(kind.clone(), sum.get(kind).checked_add(amount)?);
        }
        Some(sum)
    }

    /// The difference, or `None` if an amount would be negative.
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        let mut rest = self.clone();
        for (kind, amount) in other.iter() {
            rest.set(kind.clone(), rest.get(kind).checked_sub(amount)?);
        }
        Some(rest)
    }

    /// The first kind that `available` has too little of.
    #[must_use]
    pub fn first_short(&self, available: &Self) -> Option<ResourceKind> {
        self.iter()
            .find(|(kind, amount)| available.get(kind) < *amount)
            .map(|(kind, _)| kind.clone())
    }
}

impl Serialize for Resources {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.amounts.iter())
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut resources = Self::none();
        for (kind, amount) in Vec::<(ResourceKind, u64)>::deserialize(deserializer)? {
            resources.set(kind, amount);
        }
        Ok(resources)
    }
}
