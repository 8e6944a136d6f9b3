//! What the scheduler answers: a delta that leaves nothing to choose. Plans carry content, never
//! row numbers, so that they mean the same in another process.

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
use crate::node::Node;
use crate::rare::is_false;
use crate::reason::Reason;
use crate::request::job::JobRequest;
use crate::unit::{Bytes, MilliCpu, MilliGpu, Millis, Timestamp};

/// The answer to one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The state it was made from.
    pub basis: Revision,
    /// What to do, in order.
    pub decisions: Vec<Decision>,
    /// When and where jobs start that must wait, in the order of jobs; what nobody who comes after
    /// them delays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlannedStart>,
    /// Why the rest waits, once for each shape and each array that keeps itself from more, in the
    /// order of jobs.
    pub waits: Vec<Wait>,
}

/// The place and time that are kept for a job that must wait. Computed anew in each cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStart {
    /// Which job.
    pub job: JobId,
    /// The earliest moment at which it can run.
    pub at: Timestamp,
    /// One of each task, by rank.
    pub placements: Vec<Placement>,
    /// What the moment rests on.
    pub basis: StartBasis,
}

/// What a moment in the future rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartBasis {
    /// Time limits alone: it can only be earlier.
    Limit,
    /// How long like jobs ran, too.
    Predicted,
}

impl StartBasis {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Predicted => "predicted",
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Decision {
    /// Give a job's tasks these places and start them.
    Start {
        /// Which job.
        job: JobId,
        /// Which run of it.
        attempt: Attempt,
        /// One of each task, by rank.
        placements: Vec<Placement>,
        /// Evictions of this plan, by position, that make room for it: it claims what they free,
        /// and starts when all have left who hold anything there.
        after: Vec<u32>,
    },
    /// Let a paused job go on, on the devices that it had.
    Resume {
        /// Which job.
        job: JobId,
        /// Which run of it, which is the one that goes on.
        attempt: Attempt,
        /// One of each task, by rank.
        placements: Vec<Placement>,
        /// As for a start.
        after: Vec<u32>,
    },
    /// Take back what a job holds.
    Evict {
        /// Which job.
        job: JobId,
        /// Which run of it.
        attempt: Attempt,
        /// Why.
        why: TakenBack,
        /// Whom it makes room for.
        beneficiary: JobId,
        /// In which way it goes.
        #[serde(default = "Exit::usual", skip_serializing_if = "Exit::is_usual")]
        exit: Exit,
    },
}

impl Decision {
    /// The job that is started, or goes on, and where, if that is what is decided.
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

/// Where one task goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Which node.
    pub node: NodeName,
    /// Parts of its devices, by device index.
    pub slots: Vec<Slot>,
}

/// What nodes are asked by a job: two jobs with equal fits fit the same nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fit {
    /// GPUs of one task.
    pub gpus: GpuRequest,
    /// CPU cores of one task.
    pub cpus: MilliCpu,
    /// Host memory of one task.
    pub memory: Bytes,
    /// The pool that its nodes must be in; `None` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// Which of them it may use; `None` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Arc<NodeFilter>>,
    /// How many tasks, and on how many nodes.
    #[serde(default, skip_serializing_if = "Gang::is_single")]
    pub gang: Gang,
    /// Where its tasks are, by rank, if they are paused: nowhere else can they go on. Their host
    /// memory is theirs already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Placement>,
}

impl Fit {
    /// Returns what a job that is not paused asks of nodes.
    #[must_use]
    pub fn of(request: &JobRequest) -> Self {
        Self {
            gpus: request.gpus.clone(),
            cpus: request.cpus.unwrap_or_default(),
            memory: request.memory.unwrap_or_default(),
            pool: request.pool.clone(),
            nodes: request.nodes.clone(),
            gang: request.gang,
            at: Vec::new(),
        }
    }

    /// Whether a node is one of those that it may be on, whatever that has.
    #[must_use]
    pub fn may_be_on(&self, node: &Node) -> bool {
        let is_there = |place: &Placement| place.node == node.name;
        self.pool.as_ref().is_none_or(|pool| *pool == node.pool)
            && self.nodes.as_ref().is_none_or(|nodes| nodes.allows(node))
            && (self.at.is_empty() || self.at.iter().any(is_there))
    }

    /// Whether its nodes are to run nothing else.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.exclusive)
    }

    /// Whether a device of such a node is one of those that it may have.
    #[must_use]
    pub fn may_have(&self, node: &Node, device: &DeviceUuid) -> bool {
        let has = |place: &Placement| {
            place.node == node.name && place.slots.iter().any(|slot| slot.device == *device)
        };
        self.at.is_empty() || self.at.iter().any(has)
    }

    /// How many tasks a node gets at once that are not there yet.
    #[must_use]
    pub fn n_new_tasks(&self) -> u32 {
        if self.at.is_empty() { self.gang.tasks_per_node } else { 0 }
    }

    /// How many devices a node is asked for by all tasks that it gets.
    #[must_use]
    pub fn n_devices_on_node(&self) -> u32 {
        self.gpus.n_devices().saturating_mul(self.gang.tasks_per_node)
    }

    /// The devices that a node is asked for by all tasks that it gets so many times, each task's
    /// its own.
    #[must_use]
    pub fn gpus_on_node(&self, times: u32) -> Cow<'_, GpuRequest> {
        match self.gang.tasks_per_node.saturating_mul(times) {
            1 => Cow::Borrowed(&self.gpus),
            _ => Cow::Owned(self.gpus.of_count(self.n_devices_on_node().saturating_mul(times))),
        }
    }

    /// How many times a node may have at most what a node gets, whoever is there: if its tasks are
    /// paused, as often as it has that.
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

    /// How large the requests of all tasks are together.
    #[must_use]
    pub fn gpus_together(&self) -> MilliGpu {
        let n_tasks = u64::from(self.gang.n_tasks());
        self.gpus.size().checked_mul(n_tasks).unwrap_or(MilliGpu::MAX)
    }
}

/// What the scheduler needs to know of a job beside its age: jobs of one shape differ only in
/// their place in the queue, so they are considered, and wait, together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Who is charged.
    pub project: ProjectName,
    /// Its user, where users are told apart: something is reserved for that user, or the policy or
    /// the project limits what users may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The job itself, if something is reserved for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_as: Option<JobId>,
    /// The pool whose own policy decides about it; `None` for that of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<PoolName>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it may be taken back.
    pub preemptible: bool,
    /// Whether it makes another job larger: of equal priority, all others go before it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub joins: bool,
    /// How long it takes at most: its time limit and grace, rounded up to [`Shape::STEP`] so that
    /// limits do not make shapes of single jobs. `None` without a limit: it may take for ever.
    pub takes: Option<Millis>,
    /// How long it is likely to run, rounded up to a power of two, where the policy's order asks
    /// for that and like jobs have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Millis>,
    /// How much GPU-time it has had, as a level, where the policy's order asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// What it asks of nodes.
    pub fit: Fit,
}

impl Shape {
    /// What lengths of time are rounded up to.
    pub const STEP: Millis = Millis::from_mins(5);

    /// How long a job of that limit takes at most, rounded up.
    #[must_use]
    pub fn takes(limit: Option<Millis>, grace: Millis) -> Option<Millis> {
        let step = Self::STEP.get();
        let longest = limit?.saturating_add(grace).div_ceil(step);
        Some(Millis::new(longest.get().saturating_mul(step)))
    }

    /// How long jobs are likely to run, so rounded up that it seldom changes with one more run.
    #[must_use]
    pub fn rounded_length(length: Millis) -> Millis {
        Millis::new(length.get().checked_next_power_of_two().unwrap_or(u64::MAX))
    }
}

/// Why all jobs of one shape wait, or those of one array that are kept by its own limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Which jobs.
    pub shape: Arc<Shape>,
    /// Set where these are what is left of one array, which keeps itself from more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<JobNumber>,
    /// How many.
    pub n_jobs: u64,
    /// What keeps the first of them.
    pub reason: Reason,
}
