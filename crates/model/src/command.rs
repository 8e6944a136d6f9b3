//! What callers may ask the server to change, and what they get back.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::{ArrayEnds, NewArray};
use crate::compat::Compat;
use crate::filter::NodeFilter;
use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::id::{JobId, JobNumber, NodeName, PoolName, ProjectName, ReservationName};
use crate::job::{BlobId, Dependency, Job, JobSpec, JobState, Outcome, Owner};
use crate::label::LabelChange;
use crate::launch::{Activation, Missing, WindowSize};
use crate::life::Life;
use crate::notify::NotifyRule;
use crate::patch::JobPatch;
use crate::plan::Placement;
use crate::project_change::{ProjectsAsk, ProjectsOutcome};
use crate::reason::Reason;
use crate::reserve::{
    Consent, DrainOutcome, DrainTarget, NewReservation, ReservationPatch, ReserveOutcome,
};
use crate::unit::{Bytes, MilliCpu, Millis, Timestamp};

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
#[serde(tag = "do", rename_all = "snake_case")]
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
    /// End jobs, or take them off the queue.
    Cancel {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// Keep jobs from being considered.
    Hold {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// Hold jobs because a file that they need is gone; asked by the server itself.
    HoldMissing {
        /// Which.
        jobs: Vec<JobId>,
        /// The file.
        missing: Missing,
    },
    /// Let held jobs be considered again.
    Release {
        /// Which.
        jobs: Vec<JobId>,
        /// When; `None` is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// Stop jobs that run, and put them back to be run again.
    Requeue {
        /// Which.
        jobs: Vec<JobId>,
        /// Whether they are held then.
        hold: bool,
    },
    /// Stop jobs that run where they are, until somebody lets them go on.
    Pause {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// Let paused jobs go on when there is room.
    Resume {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// Change the time limits of jobs, running or not.
    Extend {
        /// Which.
        jobs: Vec<JobId>,
        /// How.
        change: LimitChange,
    },
    /// Let ended elements of living arrays begin another attempt.
    Retry {
        /// Arrays, which means all elements that ended and have not succeeded, and single elements.
        jobs: Vec<JobId>,
    },
    /// Send a signal to the processes of running jobs.
    Signal {
        /// Which.
        jobs: Vec<JobId>,
        /// The signal's number.
        signal: i32,
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

/// A caller's name for a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// As the caller chose it.
    pub name: String,
    /// A digest of the request.
    pub digest: String,
}

/// A job as it was asked for: each field valid by itself, not yet admitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// See [`crate::job::JobSpec::name`].
    pub name: Arc<str>,
    /// See [`crate::job::JobSpec::project`].
    pub project: ProjectName,
    /// See [`crate::job::JobSpec::pool`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// See [`crate::job::JobSpec::nodes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Arc<NodeFilter>>,
    /// See [`crate::job::JobSpec::command`].
    pub command: Vec<String>,
    /// See [`crate::job::JobSpec::script`].
    pub script: Option<BlobId>,
    /// See [`crate::job::JobSpec::context`].
    pub context: BlobId,
    /// See [`crate::job::JobSpec::directory`].
    pub directory: String,
    /// See [`crate::job::JobSpec::stdin`].
    pub stdin: Option<String>,
    /// See [`crate::job::JobSpec::stdout`].
    pub stdout: Option<String>,
    /// See [`crate::job::JobSpec::stderr`].
    pub stderr: Option<String>,
    /// See [`crate::job::JobSpec::pty`].
    pub pty: Option<WindowSize>,
    /// See [`crate::job::JobSpec::activate`].
    pub activate: Vec<Activation>,
    /// Whether the job before it in the same command prepares it: it waits until that one has
    /// succeeded.
    pub after_setup: bool,
    /// See [`crate::job::JobSpec::gpus`].
    pub gpus: GpuRequest,
    /// See [`crate::job::JobSpec::gpus_written`].
    pub gpus_written: Arc<str>,
    /// See [`crate::job::JobSpec::cpus`].
    pub cpus: Option<MilliCpu>,
    /// See [`crate::job::JobSpec::memory`].
    pub memory: Option<Bytes>,
    /// See [`crate::job::JobSpec::gang`].
    #[serde(default, skip_serializing_if = "Gang::is_single")]
    pub gang: Gang,
    /// See [`crate::job::JobSpec::torchrun`].
    #[serde(default)]
    pub torchrun: bool,
    /// See [`crate::job::JobSpec::time_limit`].
    pub time_limit: Option<Millis>,
    /// See [`crate::job::JobSpec::grace`].
    pub grace: Millis,
    /// See [`crate::job::JobSpec::after`].
    pub after: Vec<Dependency>,
    /// See [`crate::job::JobSpec::life`].
    pub life: Life,
    /// See [`crate::job::Job::priority`].
    pub priority: i32,
    /// See [`crate::job::Job::note`].
    pub note: Option<String>,
    /// See [`crate::job::Job::notify`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<NotifyRule>,
    /// Keep it from being considered until released.
    pub hold: bool,
    /// See [`crate::job::JobSpec::allow_unsatisfiable`].
    pub allow_unsatisfiable: bool,
    /// Set for an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<NewArray>>,
    /// See [`crate::job::JobSpec::retry_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<JobId>,
    /// See [`crate::job::JobSpec::compat`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compat: Vec<Compat>,
}

impl NewJob {
    /// A job that ended, once more: all that it asked for, and nothing that it waited for.
    #[must_use]
    pub fn again(spec: &JobSpec, job: &Job, array: Option<Box<NewArray>>) -> Self {
        Self {
            name: spec.name.clone(),
            project: spec.project.clone(),
            pool: spec.pool.clone(),
            nodes: spec.nodes.clone(),
            command: spec.command.clone(),
            script: spec.script.clone(),
            context: spec.context.clone(),
            directory: spec.directory.clone(),
            stdin: spec.stdin.clone().map(String::from),
            stdout: spec.stdout.clone().map(String::from),
            stderr: spec.stderr.clone().map(String::from),
            pty: spec.pty,
            activate: spec.activate.to_vec(),
            after_setup: false,
            gpus: spec.gpus.clone(),
            gpus_written: spec.gpus_written.clone(),
            cpus: spec.cpus,
            memory: spec.memory,
            gang: spec.gang,
            torchrun: spec.torchrun,
            time_limit: spec.time_limit,
            grace: spec.grace,
            after: Vec::new(),
            life: spec.life.without_waits(),
            priority: job.priority,
            note: job.note.clone(),
            hold: false,
            allow_unsatisfiable: spec.allow_unsatisfiable,
            array,
            retry_of: Some(job.id),
            compat: spec.compat.to_vec(),
            notify: job.notify.clone(),
        }
    }
}

/// How a time limit is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum LimitChange {
    /// Longer by that much.
    Longer {
        /// By how much.
        by: Millis,
    },
    /// Shorter by that much.
    Shorter {
        /// By how much.
        by: Millis,
    },
    /// That, counted from the start; `None` is no limit.
    To {
        /// The new limit.
        limit: Option<Millis>,
    },
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
