//! What a user submits and what has become of it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocation::{Allocation, Slot};
use crate::array::ArrayState;
pub use crate::end::{EndCause, ExitStatus, JobEnd, Outcome, RunTotals, Usage};
use crate::gang::Joins;
pub use crate::hold::{AdminHold, Holder};
use crate::id::{Attempt, Generation, JobId, Version};
use crate::launch::Missing;
use crate::life::Course;
use crate::notify::NotifyRule;
use crate::pause::PauseCause;
use crate::rare::Rare;
use crate::request::job::JobRequest;
use crate::resource::Resources;
pub use crate::stop::StopCause;
use crate::unit::{MilliGpu, Millis, Timestamp};

/// Who a job belongs to and runs as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// User name; the number where the system knows no name.
    pub user: Arc<str>,
}

/// The name of a file of the store's blob folder, which holds what must not be in records: the
/// environment of a job, its script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub Arc<str>);

/// A job as it was admitted: the request of its user, and what the system gave it. It changes only
/// if somebody edits the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Which job.
    pub id: JobId,
    /// Who it belongs to.
    pub owner: Owner,
    /// What its user asked for.
    pub request: JobRequest,
    /// The script as it was when submitted, run in place of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<BlobId>,
    /// Environment, limits and umask of the caller ([`crate::agent::LaunchContext`]).
    pub context: BlobId,
    /// The job that was submitted with it to prepare it; one of [`JobRequest::after`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<JobId>,
    /// The job that it joins, if it is one of those that make a job larger while that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<Box<Joins>>,
    /// The ended job whose elements, or which, it runs anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<Box<JobId>>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
}

/// A spec reads as the request that it embeds: `spec.gpus`.
impl Deref for JobSpec {
    type Target = JobRequest;

    fn deref(&self) -> &JobRequest {
        &self.request
    }
}

impl DerefMut for JobSpec {
    fn deref_mut(&mut self) -> &mut JobRequest {
        &mut self.request
    }
}

impl JobSpec {
    /// Every blob that it needs.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobId> {
        let values = self.array.as_ref().and_then(|array| array.values.as_ref());
        let values = values.map(|values| &values.blob);
        std::iter::once(&self.context).chain(&self.script).chain(values)
    }

    /// What one task books on its node with those parts of devices.
    #[must_use]
    pub fn resources(&self, slots: &[Slot]) -> Resources {
        let charge = |sum: MilliGpu, slot: &Slot| sum.saturating_add(slot.part.charge());
        Resources::none()
            .with_gpus(slots.iter().fold(MilliGpu::ZERO, charge))
            .with_cpus(self.cpus.unwrap_or_default())
            .with_memory(self.memory.unwrap_or_default())
            .with_tasks(1)
            .with_whole_node(self.is_exclusive())
    }

    /// Whether it is of one size: one that others join, or that joins one, is not paused, as its
    /// parts would have to be together.
    #[must_use]
    pub fn is_of_one_size(&self) -> bool {
        self.joins.is_none() && self.gang.nodes_most == self.gang.nodes
    }

    /// What one task books on its node while it is paused.
    #[must_use]
    pub fn resources_paused(&self) -> Resources {
        Resources::none().with_memory(self.memory.unwrap_or_default()).with_tasks(1)
    }
}

/// A job that must have ended, or have started, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Which job.
    pub job: JobId,
    /// How it must have ended.
    pub kind: DependencyKind,
}

/// How a job must have ended for another to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// Succeeded.
    Ok,
    /// Ended in any other way.
    Fail,
    /// Ended.
    End,
    /// Succeeded, each element of an array for the same element of this one.
    Each,
    /// Started, or ended without that. Of an array and its elements: ended.
    Start,
}

impl DependencyKind {
    /// Whether that end is the one that was waited for.
    #[must_use]
    pub fn is_met_by(self, outcome: Outcome) -> bool {
        match self {
            Self::Ok | Self::Each => outcome == Outcome::Succeeded,
            Self::Fail => outcome != Outcome::Succeeded,
            Self::End | Self::Start => true,
        }
    }
}

/// What changes of a job while it lives: small, written with each change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Which job.
    pub id: JobId,
    /// Grows with each change that a user makes.
    pub version: Version,
    /// Higher goes first, -1000…1000.
    pub priority: i32,
    /// What somebody wrote beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who is told of what becomes of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<NotifyRule>,
    /// The run that it is in, or will be in when it starts.
    pub attempt: Attempt,
    /// Of the allocation of this attempt; grows with each change of it.
    pub generation: Generation,
    /// Time spent pending before the present spell; what escalation counts.
    pub waited: Millis,
    /// What has become of the elements of an array; `None` for all else, elements included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<ArrayState>>,
    /// What came of it so far.
    #[serde(default, skip_serializing_if = "Course::is_plain")]
    pub course: Rare<Course>,
    /// Where it is in its life. For an array: where its elements are that have no record of their
    /// own.
    pub phase: Phase,
}

impl Job {
    /// A job in its first attempt, of which nothing else is known yet.
    #[must_use]
    pub fn new(id: JobId, priority: i32, phase: Phase) -> Self {
        Self {
            id,
            version: Version(1),
            priority,
            note: None,
            notify: Vec::new(),
            attempt: Attempt::FIRST,
            generation: Generation(1),
            waited: Millis::ZERO,
            array: None,
            course: Rare::default(),
            phase,
        }
    }
}

/// Where a job is in its life; each variant holds what is only true there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Kept from being considered until released.
    Held {
        /// Who may release it.
        by: Holder,
        /// Since when.
        since: Timestamp,
        /// What was missing when it should have started, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<Missing>,
    },
    /// Waits for other jobs, or for a moment.
    Waiting {
        /// Since when.
        since: Timestamp,
    },
    /// Could start as soon as there is room.
    Pending {
        /// Since when; escalation counts from here, plus [`Job::waited`].
        since: Timestamp,
    },
    /// Every element of an array has been started, and some have not ended.
    Underway {
        /// Since when.
        since: Timestamp,
    },
    /// Its node was told to start it.
    Starting {
        /// One of each task, by rank.
        allocations: Vec<Allocation>,
        /// Since when.
        since: Timestamp,
    },
    /// It runs.
    Running {
        /// One of each task, by rank.
        allocations: Vec<Allocation>,
        /// When its first task started.
        started_at: Timestamp,
    },
    /// Its processes are stopped where they are, or were told to. It holds host memory, and goes on
    /// on the same devices.
    Paused {
        /// One of each task, by rank: pausing, paused, or claiming what it goes on on.
        allocations: Vec<Allocation>,
        /// When its first task started.
        started_at: Timestamp,
        /// Since when.
        since: Timestamp,
        /// Why.
        why: PauseCause,
        /// Who keeps it from going on, if anybody does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Holder>,
    },
    /// It was told to end and has not yet.
    Stopping {
        /// One of each task, by rank.
        allocations: Vec<Allocation>,
        /// When its first task started, if it had.
        started_at: Option<Timestamp>,
        /// Why it is being stopped.
        cause: StopCause,
        /// Since when.
        since: Timestamp,
    },
    /// It has ended; never changes again.
    Ended(Box<JobEnd>),
}

impl Phase {
    /// What its tasks hold now, by rank.
    #[must_use]
    pub fn allocations(&self) -> &[Allocation] {
        match self {
            Self::Starting { allocations, .. }
            | Self::Running { allocations, .. }
            | Self::Paused { allocations, .. }
            | Self::Stopping { allocations, .. } => allocations,
            Self::Held { .. }
            | Self::Waiting { .. }
            | Self::Pending { .. }
            | Self::Underway { .. }
            | Self::Ended(_) => &[],
        }
    }

    /// The same, to be changed; empty where nothing is held.
    pub fn allocations_mut(&mut self) -> &mut [Allocation] {
        match self {
            Self::Starting { allocations, .. }
            | Self::Running { allocations, .. }
            | Self::Paused { allocations, .. }
            | Self::Stopping { allocations, .. } => allocations,
            Self::Held { .. }
            | Self::Waiting { .. }
            | Self::Pending { .. }
            | Self::Underway { .. }
            | Self::Ended(_) => &mut [],
        }
    }

    /// The state in one word.
    #[must_use]
    pub fn state(&self) -> JobState {
        match self {
            Self::Held { .. } => JobState::Held,
            Self::Waiting { .. } => JobState::Waiting,
            Self::Pending { .. } => JobState::Pending,
            Self::Starting { .. } => JobState::Starting,
            Self::Running { .. } | Self::Underway { .. } => JobState::Running,
            Self::Paused { .. } => JobState::Paused,
            Self::Stopping { .. } => JobState::Stopping,
            Self::Ended(end) => end.outcome.state(),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Whether all its tasks are stopped where they are: it uses nothing but host memory.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        match self {
            Self::Paused { allocations, .. } => allocations.iter().all(Allocation::is_paused),
            _ => false,
        }
    }

    /// Since when it could start, or go on, as soon as there is room; `None` if it could not.
    #[must_use]
    pub fn waits_for_room_since(&self) -> Option<Timestamp> {
        match self {
            Self::Pending { since } => Some(*since),
            Self::Paused { since, held: None, .. } if self.is_parked() => Some(*since),
            _ => None,
        }
    }
}

/// A job's state in one word, as users see it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// See [`Phase::Held`].
    Held,
    /// See [`Phase::Waiting`].
    Waiting,
    /// See [`Phase::Pending`].
    #[default]
    Pending,
    /// See [`Phase::Starting`].
    Starting,
    /// See [`Phase::Running`].
    Running,
    /// Its GPU memory is freed and it goes on later.
    Paused,
    /// See [`Phase::Stopping`].
    Stopping,
    /// See [`Outcome::Succeeded`].
    Succeeded,
    /// See [`Outcome::Failed`].
    Failed,
    /// See [`Outcome::Cancelled`].
    Cancelled,
    /// See [`Outcome::TimedOut`].
    TimedOut,
    /// See [`Outcome::Lost`].
    Lost,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 12] = [
        Self::Held,
        Self::Waiting,
        Self::Pending,
        Self::Starting,
        Self::Running,
        Self::Paused,
        Self::Stopping,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Lost,
    ];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
        }
    }

    /// Whether a job in it has ended.
    #[must_use]
    pub fn is_end(self) -> bool {
        self >= Self::Succeeded
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
