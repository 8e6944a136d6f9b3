//! What callers may ask the server to change, and what they get back.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::{ArrayEnds, ArraySpec};
use crate::id::{BlobId, JobId, JobNumber, NodeName, PoolName, ReservationName};
use crate::job::{Job, JobSpec, JobState, Outcome, Owner};
use crate::label::LabelChange;
use crate::launch::Missing;
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

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User and group.
    pub owner: Owner,
    /// May act for others: root, or the user whose server it is.
    pub admin: bool,
    /// The groups of the operating system that the caller is in, by name: those that a project
    /// names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<Arc<str>>,
}

impl Caller {
    /// Somebody who is in no group that matters.
    #[must_use]
    pub fn new(owner: Owner, admin: bool) -> Self {
        Self { owner, admin, groups: BTreeSet::new() }
    }
}

/// A change that somebody asks for. It is done whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Take jobs.
    Submit {
        /// In the order in which they get numbers.
        jobs: Vec<NewJob>,
        /// The caller's name for this request and a digest of it, so that a repeated one is
        /// answered and not done again.
        key: Option<RequestKey>,
        /// How jobs ended that these wait for and that have left memory for the archive.
        ends: Vec<(JobId, Outcome)>,
        /// How the elements of arrays ended whose like among these wait for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        array_ends: Vec<(JobId, ArrayEnds)>,
        /// Answer what would happen, and do nothing.
        dry_run: bool,
    },
    /// Do something to jobs that have not ended.
    OnJobs {
        /// Which.
        jobs: Vec<JobId>,
        /// What.
        verb: JobVerb,
    },
    /// Hold jobs because a file that they need is gone; asked by the server itself.
    HoldMissing {
        /// Which.
        jobs: Vec<JobId>,
        /// The file.
        missing: Missing,
    },
    /// Let ended elements of living arrays begin another attempt.
    Retry {
        /// Arrays, which means all elements that ended and have not succeeded, and single elements.
        jobs: Vec<JobId>,
    },
    /// Change what can still change of a job.
    Edit {
        /// Which.
        job: JobId,
        /// The version that the caller saw, to notice that somebody else was faster.
        version: Option<u64>,
        /// What to change.
        patch: JobPatch,
        /// How jobs ended that it is to wait for and that have left memory for the archive.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ends: Vec<(JobId, Outcome)>,
    },
    /// Say which devices of a node new allocations may use.
    AllowDevices {
        /// Which node.
        node: NodeName,
        /// Indexes or UUIDs; `None` means all.
        devices: Option<Vec<String>>,
    },
    /// Put nodes into a pool; what runs there stays.
    MoveNodes {
        /// Which.
        nodes: Vec<NodeName>,
        /// Where to; one that no node was in is begun by it.
        pool: PoolName,
    },
    /// Change labels of nodes; what runs there stays.
    LabelNodes {
        /// Which.
        nodes: Vec<NodeName>,
        /// How.
        change: LabelChange,
    },
    /// Change how the scheduler decides from now on.
    SetPolicy {
        /// Begin with this preset, parameters included, rather than with what there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preset: Option<String>,
        /// Settings by key, as they are written.
        set: Vec<(String, String)>,
        /// Answer what it would be, and change nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Keep devices or nodes for somebody, or for nobody.
    Reserve {
        /// What, for whom, when.
        reservation: Box<NewReservation>,
        /// Whether others may be affected.
        consent: Consent,
    },
    /// Change a reservation.
    EditReservation {
        /// Which.
        name: ReservationName,
        /// What of it.
        patch: Box<ReservationPatch>,
        /// Whether others may be affected.
        consent: Consent,
    },
    /// End reservations before their time.
    Unreserve {
        /// Which.
        names: Vec<ReservationName>,
    },
    /// Give nodes or devices no new work.
    Drain {
        /// Which.
        targets: Vec<DrainTarget>,
        /// When they are to be empty.
        by: Option<Timestamp>,
        /// Why.
        reason: Arc<str>,
        /// Whether others may be affected.
        consent: Consent,
    },
    /// Give nodes or devices work again.
    Undrain {
        /// Which.
        targets: Vec<DrainTarget>,
    },
    /// Say how much one user may have at once.
    SetUserCaps {
        /// Which; `None` is all that have no caps of their own.
        user: Option<Arc<str>>,
        /// How much; a user for whom nothing is limited has caps of his own that are none.
        caps: crate::policy::Caps,
    },
    /// Make, change and take away projects.
    ChangeProjects(ProjectsAsk),
    /// Say how whole devices are chosen from now on.
    SetDeviceStrategy {
        /// How.
        strategy: crate::policy::DeviceStrategy,
    },
}

impl Command {
    /// Does something to jobs.
    #[must_use]
    pub fn on(jobs: Vec<JobId>, verb: JobVerb) -> Self {
        Self::OnJobs { jobs, verb }
    }
}

/// A caller's name for a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// As the caller chose it.
    pub name: String,
    /// A digest of the request.
    pub digest: String,
}

/// A job as it was asked for: each field valid by itself, not yet admitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NewJob {
    /// What its user asks for.
    pub request: JobRequest,
    /// See [`JobSpec::script`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<BlobId>,
    /// See [`JobSpec::context`].
    pub context: BlobId,
    /// Whether the job before it in the same command prepares it: it waits until that one has
    /// succeeded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_setup: bool,
    /// See [`JobSpec::retry_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<JobId>,
}

/// A new job reads as the request that it carries: `job.gpus`.
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
    /// The same with something else asked for.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut JobRequest)) -> Self {
        change(&mut self.request);
        self
    }

    /// A job that ended, once more: all that it asked for, and nothing that it waited for. Of an
    /// array these elements, with those limits.
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

/// What a request that was carried out is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Jobs were taken, with consecutive numbers.
    Submitted {
        /// The first number.
        first: JobNumber,
        /// How many.
        n_jobs: u64,
        /// Whether the same request had been answered before.
        repeated: bool,
    },
    /// What submitting would do.
    WouldSubmit {
        /// One of each job, in order.
        forecasts: Vec<SubmitForecast>,
    },
    /// Each job with the state that it is in now.
    Jobs(Vec<(JobId, JobState)>),
    /// The policy as it is now, or would be.
    Policy(Box<crate::policy::Policy>),
    /// A reservation that was made or changed, or would be.
    Reserved(Box<ReserveOutcome>),
    /// What is drained, or would be.
    Drained(Box<DrainOutcome>),
    /// What of projects was changed, or would be.
    Projects(Box<ProjectsOutcome>),
    /// It was done.
    Done,
}

/// What would become of a job if it were submitted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitForecast {
    /// Where it would start at once; empty if it would wait.
    pub placements: Vec<Placement>,
    /// Why it would wait; empty if it would start.
    pub reasons: Vec<Reason>,
    /// Reasons beyond these: other jobs that it would wait for.
    pub n_more_reasons: u64,
}
