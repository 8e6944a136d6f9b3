//! The answer of the scheduler: a complete list of changes. Plans name objects by ID, not by row
//! number, so they mean the same in another process.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocation::Slot;
use crate::attained::Level;
use crate::exit::{Exit, TakenBack};
use crate::filter::NodeFilter;
use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::id::{Attempt, DeviceUuid, JobId, JobNumber, NodeName, PoolName, ProjectName, Revision};
use crate::launch::NodeLack;
use crate::node::Node;
use crate::rare::is_false;
use crate::reason::Reason;
use crate::request::job::JobRequest;
use crate::sharer::Sharer;
use crate::topology::Topology;
use crate::unit::{Bytes, MilliCpu, MilliGpu, Millis, Timestamp};

/// The plan for one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The state it was made from.
    pub basis: Revision,
    /// The decisions, in order.
    pub decisions: Vec<Decision>,
    /// Planned starts of waiting jobs, in queue order. Later jobs never delay them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlannedStart>,
    /// Why the other jobs wait, in queue order: one entry for each shape, and one for each array at
    /// its own limit.
    pub waits: Vec<Wait>,
}

/// The planned start of a waiting job. Computed anew in each cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStart {
    /// The job.
    pub job: JobId,
    /// The earliest time at which it can run.
    pub at: Timestamp,
    /// The placement of each task, by rank.
    pub placements: Vec<Placement>,
    /// How the time was estimated.
    pub basis: StartBasis,
}

/// How a future time was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartBasis {
    /// From time limits alone: the start can only be earlier.
    Limit,
    /// Also from the run times of similar jobs.
    Predicted,
}

impl StartBasis {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Predicted => "predicted",
        }
    }
}

/// A decision of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Start a job with these placements.
    Start {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The placement of each task, by rank.
        placements: Vec<Placement>,
        /// The evictions of this plan, by position, that free its devices: it claims the devices
        /// and starts when all victims have left them.
        after: Vec<u32>,
    },
    /// Resume a paused job on its devices.
    Resume {
        /// The job.
        job: JobId,
        /// The attempt, which continues.
        attempt: Attempt,
        /// The placement of each task, by rank.
        placements: Vec<Placement>,
        /// As for a start.
        after: Vec<u32>,
    },
    /// Evict a job.
    Evict {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The reason.
        why: TakenBack,
        /// The job that gets its devices.
        beneficiary: JobId,
        /// The exit.
        #[serde(default = "Exit::usual", skip_serializing_if = "Exit::is_usual")]
        exit: Exit,
    },
}

impl Decision {
    /// The job that this decision starts or resumes, and its placements.
    #[must_use]
    pub fn started(&self) -> Option<(JobId, &[Placement])> {
        match self {
            Self::Start { job, placements, .. } | Self::Resume { job, placements, .. } => {
                Some((*job, placements))
            }
            Self::Evict { .. } => None,
        }
    }
}

/// The node and slots for one task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The node.
    pub node: NodeName,
    /// Parts of its devices, by device index.
    pub slots: Vec<Slot>,
}

/// The requirements of a job on nodes: two jobs with equal values fit the same nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fit {
    /// GPUs of one task.
    pub gpus: GpuRequest,
    /// The job, as others on its devices see it, if it requests shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharer: Option<Box<Sharer>>,
    /// CPU cores of one task.
    pub cpus: MilliCpu,
    /// Host memory of one task.
    pub memory: Bytes,
    /// The pool that its nodes must be in; `None` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// Its node filter; `None` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Arc<NodeFilter>>,
    /// The number of tasks and nodes.
    #[serde(default, skip_serializing_if = "Gang::is_single")]
    pub gang: Gang,
    /// Whether it runs in a container, which needs an engine on its node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_container: bool,
    /// The nodes that lack something that it needs, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking_nodes: Vec<NodeLack>,
    /// The placements of its tasks, by rank, if they are paused: they can resume only there. Their
    /// host memory is already booked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Placement>,
}

impl Fit {
    /// Returns the requirements of a job that is not paused.
    #[must_use]
    pub fn of(request: &JobRequest) -> Self {
        Self {
            gpus: request.gpus.clone(),
            sharer: None,
            cpus: request.cpus.unwrap_or_default(),
            memory: request.memory.unwrap_or_default(),
            pool: request.pool.clone(),
            nodes: request.nodes.clone(),
            gang: request.gang,
            in_container: request.container.is_some(),
            lacking_nodes: Vec::new(),
            at: Vec::new(),
        }
    }

    /// Whether the job may use a node, regardless of its capacity.
    #[must_use]
    pub fn may_be_on(&self, node: &Node) -> bool {
        let is_there = |place: &Placement| place.node == node.name;
        self.pool.as_ref().is_none_or(|pool| *pool == node.pool)
            && self.nodes.as_ref().is_none_or(|nodes| nodes.allows(node))
            && (!self.in_container || node.facts.engine.is_some())
            && !self.lacking_nodes.iter().any(|it| it.node == node.name)
            && (self.at.is_empty() || self.at.iter().any(is_there))
    }

    /// What its nodes must, or should, have in common; `None` if it is on one node or paused.
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        let topology = self.nodes.as_ref()?.topology.as_ref()?;
        (self.gang.nodes > 1 && self.at.is_empty()).then_some(topology)
    }

    /// The same limited to some of its nodes, without a topology.
    #[must_use]
    pub fn only_on<'n>(&self, names: impl Iterator<Item = &'n NodeName>) -> Self {
        let filter = self.nodes.as_deref().cloned().unwrap_or_default();
        let filter = NodeFilter { include: names.cloned().collect(), topology: None, ..filter };
        Self { nodes: filter.unless_default(), ..self.clone() }
    }

    /// Whether it needs nodes without other jobs.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.exclusive)
    }

    /// Whether the job may use a device of this node.
    #[must_use]
    pub fn may_have(&self, node: &Node, device: &DeviceUuid) -> bool {
        let has = |place: &Placement| {
            place.node == node.name && place.slots.iter().any(|slot| slot.device == *device)
        };
        self.at.is_empty() || self.at.iter().any(has)
    }

    /// The reason why a paused job can't resume on its devices of this node, if some of them are
    /// out of service.
    #[must_use]
    pub fn out_of_service(&self, node: &Node) -> Option<Reason> {
        let places = self.at.iter().filter(|place| place.node == node.name);
        let slots = places.flat_map(|place| &place.slots);
        let out = slots.filter_map(|it| Some((it.index, node.out_of_service(&it.device)?)));
        let (indexes, whys): (Vec<u32>, Vec<String>) = out.unzip();
        let (node, why) = (node.name.clone(), whys.into_iter().next()?);
        Some(Reason::PausedOnMissing { node, indexes, why })
    }

    /// The number of new tasks on one node.
    #[must_use]
    pub fn n_new_tasks(&self) -> u32 {
        if self.at.is_empty() { self.gang.tasks_per_node } else { 0 }
    }

    /// The number of devices that one node must give to all tasks there.
    #[must_use]
    pub fn n_devices_on_node(&self) -> u32 {
        self.gpus.n_devices().saturating_mul(self.gang.tasks_per_node)
    }

    /// The devices that one node must give if it takes `times` nodes' worth of tasks; each task has
    /// devices of its own.
    #[must_use]
    pub fn gpus_on_node(&self, times: u32) -> Cow<'_, GpuRequest> {
        match self.gang.tasks_per_node.saturating_mul(times) {
            1 => Cow::Borrowed(&self.gpus),
            _ => Cow::Owned(self.gpus.of_count(self.n_devices_on_node().saturating_mul(times))),
        }
    }

    /// The most times that a node may take a node's worth of tasks, regardless of other tasks
    /// there. For paused tasks: the number that it holds.
    #[must_use]
    pub fn most_on(&self, node: &Node) -> u32 {
        let most = self.gang.most_on_node();
        if !self.gang.anywhere {
            return most;
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let by_devices = count(node.devices.len()).checked_div(self.n_devices_on_node());
        let most = most.min(by_devices.unwrap_or(most));
        match self.at.is_empty() {
            true => most,
            false => count(self.at.iter().filter(|place| place.node == node.name).count()),
        }
    }

    /// The size of the requests of all tasks together.
    #[must_use]
    pub fn gpus_together(&self) -> MilliGpu {
        let n_tasks = u64::from(self.gang.n_tasks());
        self.gpus.size().checked_mul(n_tasks).unwrap_or(MilliGpu::MAX)
    }
}

/// Everything that the scheduler reads of a job except its age. Jobs of equal shape differ only in
/// their position in the queue, so the scheduler considers them together and reports one reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// The project that is charged.
    pub project: ProjectName,
    /// Its user, if users matter: a reservation is for this user, or the policy or the project has
    /// caps for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The job itself, if a reservation is for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_as: Option<JobId>,
    /// The pool, if its own policy schedules the job; `None` for the cluster's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<PoolName>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it may be evicted.
    pub preemptible: bool,
    /// Whether it extends an elastic job: other jobs of equal priority go before it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub joins: bool,
    /// The most time that it takes: its time limit and grace, rounded up to [`Shape::STEP`] so that
    /// few jobs have a shape of their own. `None` without a limit.
    pub takes: Option<Millis>,
    /// Its predicted run time, rounded up to a power of two, if the queue order uses it and similar
    /// jobs have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Millis>,
    /// Its level of attained GPU time, if the queue order uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Its requirements on nodes.
    pub fit: Fit,
    /// The requirements of its parts, if it has parts; those of the first one are also `fit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartFit>,
}

/// The requirements of one part of a job on nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartFit {
    /// The name of the part.
    pub name: Arc<str>,
    /// Its requirements.
    pub fit: Fit,
}

impl Shape {
    /// Durations are rounded up to a multiple of this.
    pub const STEP: Millis = Millis::from_mins(5);

    /// The requirements of each part; of the whole job, if it has no parts.
    pub fn fits(&self) -> impl Iterator<Item = &Fit> {
        let whole = self.parts.is_empty().then_some(&self.fit);
        whole.into_iter().chain(self.parts.iter().map(|part| &part.fit))
    }

    /// Returns the shape of one part.
    #[must_use]
    pub fn of_part(&self, at: usize) -> Self {
        Self { fit: self.parts[at].fit.clone(), parts: Vec::new(), ..self.clone() }
    }

    /// The size of the requests of all tasks together.
    #[must_use]
    pub fn gpus_together(&self) -> MilliGpu {
        let sizes = self.fits().map(Fit::gpus_together);
        sizes.fold(MilliGpu::ZERO, MilliGpu::saturating_add)
    }

    /// The number of tasks that start together.
    #[must_use]
    pub fn n_tasks(&self) -> u32 {
        self.fits().map(|fit| fit.gang.n_tasks()).fold(0, u32::saturating_add)
    }

    /// The most time that a job with this limit takes, rounded up. A paused job that used up its
    /// limit takes a step too: it resumes before it ends.
    #[must_use]
    pub fn takes(limit: Option<Millis>, grace: Millis) -> Option<Millis> {
        let step = Self::STEP.get();
        let longest = limit?.saturating_add(grace).max(Millis::new(1)).div_ceil(step);
        Some(Millis::new(longest.get().saturating_mul(step)))
    }

    /// A predicted run time, rounded up so that one more run seldom changes it.
    #[must_use]
    pub fn rounded_length(length: Millis) -> Millis {
        Millis::new(length.get().checked_next_power_of_two().unwrap_or(u64::MAX))
    }
}

/// Why all jobs of one shape wait, or the elements of one array at its own limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The shape of the jobs.
    pub shape: Arc<Shape>,
    /// The array, if its own limit keeps these elements waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<JobNumber>,
    /// The number of jobs.
    pub n_jobs: u64,
    /// Why the first of them waits.
    pub reason: Reason,
}
