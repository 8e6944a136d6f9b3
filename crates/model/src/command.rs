//! The changes that callers may ask the server for, and the replies.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::{ArrayEnds, ArraySpec};
use crate::id::{BlobId, JobId, JobNumber, NodeName, PoolName, ReservationName};
use crate::job::{Job, JobSpec, JobState, Outcome, Owner};
use crate::label::LabelChange;
use crate::launch::NodeLack;
use crate::plan::Placement;
use crate::project_change::{ProjectsAsk, ProjectsOutcome};
use crate::rare::{Rare, is_false};
use crate::reason::Reason;
use crate::request::edit::JobPatch;
use crate::request::job::{JobRequest, Standing};
use crate::reserve::{
    Consent, DrainOutcome, DrainTarget, NewReservation, ReservationPatch, ReserveOutcome,
};
use crate::unit::Timestamp;
use crate::verb::JobVerb;

/// The caller of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User and group.
    pub owner: Owner,
    /// Whether the caller may act for others: root, or the user that runs the server.
    pub admin: bool,
    /// The caller's groups in the operating system, by name; only groups that a project names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<Arc<str>>,
}

impl Caller {
    /// A caller without groups.
    #[must_use]
    pub fn new(owner: Owner, admin: bool) -> Self {
        Self { owner, admin, groups: BTreeSet::new() }
    }
}

/// An archived job that another job depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedDependency {
    /// The job.
    pub job: JobId,
    /// How it ended.
    pub outcome: Outcome,
    /// When it first started, or ended without a start.
    pub began_at: Timestamp,
}

/// A change that a caller asks for. The server does all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Submit jobs.
    Submit {
        /// The jobs, in numbering order.
        jobs: Vec<NewJob>,
        /// The caller's name for this request and a digest of it: the server answers a repeated
        /// request without doing it again.
        key: Option<RequestKey>,
        /// The jobs that these jobs depend on and that exist only in the archive.
        ends: Vec<ArchivedDependency>,
        /// The ends of elements of archived arrays on which the elements of these jobs depend.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        array_ends: Vec<(JobId, ArrayEnds)>,
        /// Answer with the result and change nothing.
        dry_run: bool,
    },
    /// Apply a verb to jobs that have not ended.
    OnJobs {
        /// The jobs.
        jobs: Vec<JobId>,
        /// The verb.
        verb: JobVerb,
    },
    /// Hold jobs because a file that they need is missing; the server itself asks for this.
    HoldMissing {
        /// The jobs.
        jobs: Vec<JobId>,
        /// The file.
        missing: NodeLack,
    },
    /// Start another attempt of ended elements of arrays that have not ended.
    Retry {
        /// Arrays (all their elements that ended without success) and single elements.
        jobs: Vec<JobId>,
    },
    /// Edit a job.
    Edit {
        /// The job.
        job: JobId,
        /// The version that the caller saw, to detect concurrent changes.
        version: Option<u64>,
        /// The changes.
        patch: JobPatch,
        /// The jobs that it will depend on and that exist only in the archive.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ends: Vec<ArchivedDependency>,
    },
    /// Set the devices of a node that new allocations may use.
    AllowDevices {
        /// The node.
        node: NodeName,
        /// Indexes or UUIDs; `None` means all.
        devices: Option<Vec<String>>,
    },
    /// Move nodes into a pool; running jobs stay.
    MoveNodes {
        /// The nodes.
        nodes: Vec<NodeName>,
        /// The pool; created if it has no nodes yet.
        pool: PoolName,
    },
    /// Change labels of nodes; running jobs stay.
    LabelNodes {
        /// The nodes.
        nodes: Vec<NodeName>,
        /// The change.
        change: LabelChange,
    },
    /// Remove a node. Its agent must not answer, and no job may hold anything there.
    RemoveNode {
        /// The node.
        node: NodeName,
        /// Whether the machine is off for good, so that nothing runs there any more: the jobs on
        /// it end as on a lost node.
        is_off: bool,
    },
    /// Change the policy.
    SetPolicy {
        /// Start from this preset with its parameters instead of from the present policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preset: Option<String>,
        /// Settings by key, as text.
        set: Vec<(String, String)>,
        /// Answer with the resulting policy and change nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Reserve devices or nodes for a user, project or job, or for maintenance.
    Reserve {
        /// The reservation.
        reservation: Box<NewReservation>,
        /// Whether jobs and reservations of others may be affected.
        consent: Consent,
    },
    /// Change a reservation.
    EditReservation {
        /// The name.
        name: ReservationName,
        /// The changes.
        patch: Box<ReservationPatch>,
        /// Whether jobs and reservations of others may be affected.
        consent: Consent,
    },
    /// End reservations early.
    Unreserve {
        /// The names.
        names: Vec<ReservationName>,
    },
    /// Drain nodes or devices.
    Drain {
        /// The nodes and devices.
        targets: Vec<DrainTarget>,
        /// When they must be empty.
        by: Option<Timestamp>,
        /// The reason.
        reason: Arc<str>,
        /// Whether jobs of others may be affected.
        consent: Consent,
    },
    /// Undo the drain of nodes or devices.
    Undrain {
        /// The nodes and devices.
        targets: Vec<DrainTarget>,
    },
    /// Set the caps of a user.
    SetUserCaps {
        /// The user; `None` is every user without caps of their own.
        user: Option<Arc<str>>,
        /// The caps; a user with unlimited caps still has caps of their own.
        caps: crate::policy::Caps,
    },
    /// Replace the budgets that are used up; the server itself asks for this.
    SetOverspent {
        /// The budgets.
        all: Vec<crate::budget::Overspent>,
    },
    /// Report pending jobs that missed their forecasts; the server itself asks for this.
    ReportLate {
        /// The jobs.
        jobs: Vec<crate::notify::LateJob>,
    },
    /// Set the addresses that get messages about a project or user; none removes them.
    Subscribe {
        /// The project or user.
        payer: crate::budget::Payer,
        /// The addresses with their events.
        rules: Vec<crate::notify::NotifyRule>,
    },
    /// Report costs that have reached a step of a budget, or no longer reach it; the server itself
    /// asks for this.
    ReportSpending {
        /// The costs.
        all: Vec<crate::budget::MonthSpending>,
    },
    /// Report the week of projects and users; the server itself asks for this.
    ReportDigests {
        /// The digests.
        all: Vec<crate::payer_news::Digest>,
    },
    /// Create, change and delete projects.
    ChangeProjects(ProjectsAsk),
    /// Set how the scheduler chooses whole devices.
    SetDeviceStrategy {
        /// The strategy.
        strategy: crate::policy::DeviceStrategy,
    },
}

impl Command {
    /// Applies a verb to jobs.
    #[must_use]
    pub fn on(jobs: Vec<JobId>, verb: JobVerb) -> Self {
        Self::OnJobs { jobs, verb }
    }

    /// Whether it only ends or stops something, so that the server accepts it on a full disk.
    #[must_use]
    pub fn is_an_end(&self) -> bool {
        use JobVerb::{Cancel, Extend, Hold, Pause, Release, Requeue, Resume, Signal};
        match self {
            Self::OnJobs { verb: Cancel | Hold | Pause | Signal { .. }, .. } => true,
            Self::OnJobs {
                verb: Extend { .. } | Release { .. } | Requeue { .. } | Resume, ..
            }
            | Self::Submit { .. }
            | Self::HoldMissing { .. }
            | Self::Retry { .. }
            | Self::Edit { .. }
            | Self::AllowDevices { .. }
            | Self::MoveNodes { .. }
            | Self::LabelNodes { .. }
            | Self::RemoveNode { .. }
            | Self::SetPolicy { .. }
            | Self::Reserve { .. }
            | Self::EditReservation { .. }
            | Self::Unreserve { .. }
            | Self::Drain { .. }
            | Self::Undrain { .. }
            | Self::SetUserCaps { .. }
            | Self::SetOverspent { .. }
            | Self::ReportLate { .. }
            | Self::Subscribe { .. }
            | Self::ReportSpending { .. }
            | Self::ReportDigests { .. }
            | Self::ChangeProjects(_)
            | Self::SetDeviceStrategy { .. } => false,
        }
    }
}

/// A caller's name for a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// The name that the caller chose.
    pub name: String,
    /// A digest of the request.
    pub digest: String,
}

/// A job as requested: each field is valid by itself; the job is not admitted yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NewJob {
    /// The user's request.
    pub request: JobRequest,
    /// See [`JobSpec::script`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<BlobId>,
    /// See [`JobSpec::context`].
    pub context: BlobId,
    /// Whether the job before it in the same command is its setup: it waits until that job has
    /// succeeded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_setup: bool,
    /// See [`JobSpec::retry_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<JobId>,
}

/// A new job dereferences to its request: `job.gpus`.
impl Deref for NewJob {
    type Target = JobRequest;

    fn deref(&self) -> &JobRequest {
        &self.request
    }
}

impl DerefMut for NewJob {
    fn deref_mut(&mut self) -> &mut JobRequest {
        &mut self.request
    }
}

impl From<JobRequest> for NewJob {
    /// A job with an empty environment.
    fn from(request: JobRequest) -> Self {
        Self { request, ..Self::default() }
    }
}

impl NewJob {
    /// The same job with a changed request.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut JobRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// A copy of an ended job for another submission: the whole request except its dependencies.
    /// For an array, the given elements and limits replace the old ones.
    #[must_use]
    pub fn again(spec: &JobSpec, job: &Job, array: Option<Box<ArraySpec>>) -> Self {
        let limits = job.array.as_deref().filter(|_| array.is_some());
        let standing = Standing {
            priority: job.priority,
            note: job.note.clone(),
            notify: job.notify.clone(),
            hold: false,
            max_parallel: limits.and_then(|limits| limits.max_parallel),
            max_fails: limits.and_then(|limits| limits.max_fails),
        };
        Self {
            request: JobRequest {
                after: Rare::default(),
                array,
                life: spec.life.without_waits(),
                standing: standing.into(),
                ..spec.request.clone()
            },
            script: spec.script.clone(),
            context: spec.context.clone(),
            after_setup: false,
            retry_of: Some(job.id),
        }
    }
}

/// The reply to a command that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Jobs were accepted, with consecutive numbers.
    Submitted {
        /// The number of the first job.
        first: JobNumber,
        /// The number of jobs.
        n_jobs: u64,
        /// Whether this repeats the answer to an earlier request.
        repeated: bool,
    },
    /// The result that submitting would have.
    WouldSubmit {
        /// One forecast per job, in order.
        forecasts: Vec<SubmitForecast>,
    },
    /// Each job with its present state.
    Jobs(Vec<(JobId, JobState)>),
    /// The policy after the change, or after the change that a dry run asks about.
    Policy(Box<crate::policy::Policy>),
    /// The reservation after the change, real or dry run.
    Reserved(Box<ReserveOutcome>),
    /// The result of a drain, real or dry run.
    Drained(Box<DrainOutcome>),
    /// The changes to projects, real or dry run.
    Projects(Box<ProjectsOutcome>),
    /// The change was made.
    Done,
}

/// The forecast for a job that would be submitted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitForecast {
    /// The placements at which it would start at once; empty if it would wait.
    pub placements: Vec<Placement>,
    /// Why it would wait; empty if it would start.
    pub reasons: Vec<Reason>,
    /// The number of reasons beyond these: other jobs that it would wait for.
    pub n_more_reasons: u64,
}
