//! What is kept: records are the truth that is loaded, the journal says how they came about.

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
use crate::unit::Timestamp;
use crate::used::Used;

/// What kind of thing a record is.
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
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
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
    ];

    /// The word for it in the store.
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

/// A word that names no kind of record; a newer gpool may know it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no kind of record that this version knows")]
pub struct UnknownKind(pub String);

/// Where a record is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordKey {
    /// What kind of thing.
    pub kind: RecordKind,
    /// Which of them; empty where there is one.
    pub key: String,
}

/// A record as the core knows it.
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
}

impl Record {
    /// Where it is kept.
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
        };
        RecordKey { kind, key }
    }
}

/// A record that was written or, without a value, deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// Where.
    pub key: RecordKey,
    /// What it is now.
    pub value: Option<Record>,
}

/// What the cluster must never forget.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Grows with each start of the server.
    pub term: Term,
    /// The last number given to a job.
    pub last_job: JobNumber,
    /// Numbers up to that which were never given out, because the store was restored.
    #[serde(default)]
    pub n_skipped_jobs: u64,
    /// The last entry of the journal.
    pub last_seq: Seq,
    /// What became of the messages of the outbox.
    #[serde(default, skip_serializing_if = "DeliveryCounts::is_zero")]
    pub deliveries: DeliveryCounts,
}

impl ClusterRecord {
    /// How many jobs were ever taken.
    #[must_use]
    pub fn n_jobs(&self) -> u64 {
        self.last_job.0.saturating_sub(self.n_skipped_jobs)
    }
}

/// The answer to a create that carried an idempotency key, so that a repeated one gets the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// Whose key.
    pub uid: u32,
    /// As the caller chose it.
    pub name: String,
    /// A digest of the request, to tell another request under the same key.
    pub digest: String,
    /// When the request was answered; the record is dropped some time after.
    pub at: Timestamp,
    /// The first job that was created.
    pub first: JobNumber,
    /// How many jobs were created, with consecutive numbers.
    pub n_jobs: u64,
}

impl IdempotencyRecord {
    /// Where it is kept.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(self.uid, &self.name)
    }

    /// Where the record of that caller's key is kept.
    #[must_use]
    pub fn key_of(uid: u32, name: &str) -> String {
        format!("{uid}:{name}")
    }
}

/// One event as it is journaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its place.
    pub seq: Seq,
    /// When it happened, by the server's clock.
    pub time: Timestamp,
    /// What happened.
    pub entry: crate::event::Journaled,
}

/// A job that has ended and leaves memory for the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    /// What was asked.
    pub spec: Arc<JobSpec>,
    /// What became of it.
    pub job: Job,
}

impl EndedJob {
    /// Which job.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.id
    }
}
