//! Stored data: records hold the present state, the journal its history.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, JobNumber, Seq, Term};
use crate::job::{Job, JobSpec};
use crate::node::Node;
use crate::notify::{Delivery, DeliveryCounts};
use crate::policy::Policy;
use crate::prediction::PastRuns;
use crate::project::Project;
use crate::reservation::Reservation;
use crate::subscription::Subscription;
use crate::unit::Timestamp;
use crate::used::Used;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// [`ClusterRecord`]; one.
    Cluster,
    /// [`Policy`]; one.
    Policy,
    /// [`Project`] by name.
    Project,
    /// [`Node`] by name.
    Node,
    /// [`JobSpec`] by job id.
    JobSpec,
    /// [`Job`] by job id.
    Job,
    /// [`IdempotencyRecord`] by `uid:key`.
    Idempotency,
    /// [`Reservation`] by name.
    Reservation,
    /// [`PastRuns`] by `uid:project:stem`.
    PastRuns,
    /// [`Delivery`] by its id: the outbox.
    Delivery,
    /// [`Used`] by `uid:project`.
    Used,
    /// [`Subscription`] by `project:name` or `user:name`.
    Subscription,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Cluster,
        Self::Policy,
        Self::Project,
        Self::Node,
        Self::JobSpec,
        Self::Job,
        Self::Idempotency,
        Self::Reservation,
        Self::PastRuns,
        Self::Delivery,
        Self::Used,
        Self::Subscription,
    ];

    /// Its name in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Policy => "policy",
            Self::Project => "project",
            Self::Node => "node",
            Self::JobSpec => "job_spec",
            Self::Job => "job",
            Self::Idempotency => "idempotency",
            Self::Reservation => "reservation",
            Self::PastRuns => "past_runs",
            Self::Delivery => "delivery",
            Self::Used => "used",
            Self::Subscription => "subscription",
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RecordKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// The text names no kind of record that this version knows; a newer gpool may know it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this version does not know the record kind {0:?}")]
pub struct UnknownKind(pub String);

/// The key of a record in the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordKey {
    /// The kind.
    pub kind: RecordKind,
    /// The key within the kind; empty if there is only one record.
    pub key: String,
}

/// A record as a typed value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// See [`RecordKind::Cluster`].
    Cluster(ClusterRecord),
    /// See [`RecordKind::Policy`].
    Policy(Box<Policy>),
    /// See [`RecordKind::Project`].
    Project(Box<Project>),
    /// See [`RecordKind::Node`].
    Node(Box<Node>),
    /// See [`RecordKind::JobSpec`].
    JobSpec(Arc<JobSpec>),
    /// See [`RecordKind::Job`].
    Job(Box<Job>),
    /// See [`RecordKind::Idempotency`].
    Idempotency(IdempotencyRecord),
    /// See [`RecordKind::Reservation`].
    Reservation(Box<Reservation>),
    /// See [`RecordKind::PastRuns`].
    PastRuns(PastRuns),
    /// See [`RecordKind::Delivery`].
    Delivery(Box<Delivery>),
    /// See [`RecordKind::Used`].
    Used(Used),
    /// See [`RecordKind::Subscription`].
    Subscription(Box<Subscription>),
}

impl Record {
    /// Its key in the store.
    #[must_use]
    pub fn key(&self) -> RecordKey {
        let (kind, key) = match self {
            Self::Cluster(_) => (RecordKind::Cluster, String::new()),
            Self::Policy(_) => (RecordKind::Policy, String::new()),
            Self::Project(project) => (RecordKind::Project, project.name.to_string()),
            Self::Node(node) => (RecordKind::Node, node.name.to_string()),
            Self::JobSpec(spec) => (RecordKind::JobSpec, spec.id.to_string()),
            Self::Job(job) => (RecordKind::Job, job.id.to_string()),
            Self::Idempotency(record) => (RecordKind::Idempotency, record.key()),
            Self::Reservation(it) => (RecordKind::Reservation, it.name.to_string()),
            Self::PastRuns(runs) => (RecordKind::PastRuns, runs.like.key()),
            Self::Delivery(delivery) => (RecordKind::Delivery, delivery.id.to_string()),
            Self::Used(used) => (RecordKind::Used, used.key()),
            Self::Subscription(it) => (RecordKind::Subscription, it.key()),
        };
        RecordKey { kind, key }
    }
}

/// A record that was written or, without a value, deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// The key.
    pub key: RecordKey,
    /// The new value.
    pub value: Option<Record>,
}

/// State of the cluster that must never be lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Grows with each start of the server.
    pub term: Term,
    /// The last job number that was used.
    pub last_job: JobNumber,
    /// How many numbers up to it were skipped because the store was restored.
    #[serde(default)]
    pub n_skipped_jobs: u64,
    /// The last entry of the journal.
    pub last_seq: Seq,
    /// Counts of the outbox's messages.
    #[serde(default, skip_serializing_if = "DeliveryCounts::is_zero")]
    pub deliveries: DeliveryCounts,
}

impl ClusterRecord {
    /// The number of jobs ever submitted.
    #[must_use]
    pub fn n_jobs(&self) -> u64 {
        self.last_job.0.saturating_sub(self.n_skipped_jobs)
    }
}

/// The answer to a request with an idempotency key; a repeated request gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// The caller.
    pub uid: u32,
    /// The key that the caller chose.
    pub name: String,
    /// A digest of the request, to detect another request with the same key.
    pub digest: String,
    /// When the request was answered; the record is deleted some time later.
    pub at: Timestamp,
    /// The first job that was created.
    pub first: JobNumber,
    /// The number of jobs that were created, with consecutive numbers.
    pub n_jobs: u64,
}

impl IdempotencyRecord {
    /// Its key in the store.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(self.uid, &self.name)
    }

    /// The key in the store for a caller's idempotency key.
    #[must_use]
    pub fn key_of(uid: u32, name: &str) -> String {
        format!("{uid}:{name}")
    }
}

/// One event as it is journaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its position in the journal.
    pub seq: Seq,
    /// The time by the server's clock.
    pub time: Timestamp,
    /// The event or plan.
    pub entry: crate::event::Journaled,
}

/// A job that has ended and leaves memory for the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    /// The request.
    pub spec: Arc<JobSpec>,
    /// The final state.
    pub job: Job,
}

impl EndedJob {
    /// The ID of the job.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.id
    }
}
