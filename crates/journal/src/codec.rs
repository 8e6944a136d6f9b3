//! Encoding of records, journal and archive in the store: JSON, which people can read and later
//! versions can extend.
//!
//! Every version of gpool reads the data of all earlier versions, so stored data is never
//! rewritten. For the stored types of `model` this means:
//!
//! - A new field has a default (`#[serde(default)]`) that means the same as its absence before. A
//!   new variant of an enum needs no default.
//! - Fields and variants are never renamed, and never change their meaning. A new meaning gets a
//!   new field or variant; the old one can still be read.
//! - A server ignores unknown fields, except in the policy, and drops them when it writes the
//!   record again. It refuses records of unknown kinds and variants. If either would be wrong after
//!   a downgrade, the change also raises the format version of the store (`schema.rs` in `store`),
//!   so that older versions refuse to open it.
//!
//! `tests/it/kept.rs` checks this against data of the first layout.

use gpool_model::event::Journaled;
use gpool_model::record::{EndedJob, Record, RecordKind};
use gpool_model::{Commit, Event, Job, JobSpec, Policy, Revision};
use gpool_store as store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A decoding error of a stored body.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {key:?} of the store can't be read: {source}")]
pub struct DecodeError {
    kind: String,
    key: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Data stored with each journal entry, so that a replay can start and continue.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EntryMetadata {
    /// The commit of the entry; the entries of one commit were decided together. `None` in a
    /// journal from before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// Version of the server, for an entry of a server start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Initial policy of the cluster, in the first entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

impl EntryMetadata {
    /// Returns an entry and this data as one object.
    fn with(&self, entry: &Journaled) -> Vec<u8> {
        let mut body = json(self);
        // An object, which always has a field.
        body.pop();
        body.extend_from_slice(b",\"entry\":");
        body.append(&mut json(entry));
        body.push(b'}');
        body
    }
}

/// The entry in a row of the journal.
///
/// # Errors
///
/// No version wrote this.
pub fn journaled(body: &[u8]) -> Result<Journaled, serde_json::Error> {
    #[derive(Deserialize)]
    struct Body {
        entry: Journaled,
    }
    serde_json::from_slice::<Body>(body).map(|body| body.entry)
}

/// Converts a commit of the state machine to rows of the store.
pub fn encode(commit: Commit) -> store::Commit {
    let policy = commit.records.iter().filter(|_| commit.revision == Revision(1));
    let policy: Option<Policy> = policy.into_iter().find_map(|change| match &change.value {
        Some(Record::Policy(policy)) => Some((**policy).clone()),
        _ => None,
    });
    let records = commit.records.into_iter().map(|change| store::RecordChange {
        kind: change.key.kind.as_str().to_owned(),
        key: change.key.key,
        value: change.value.as_ref().map(json),
    });
    let journal = commit.journal.iter().enumerate().map(|(nth, entry)| {
        let starts = matches!(entry.entry, Journaled::Event(Event::ServerStarted { .. }));
        let beside = EntryMetadata {
            revision: Some(commit.revision),
            version: starts.then(|| env!("CARGO_PKG_VERSION").to_owned()),
            policy: policy.clone().filter(|_| nth == 0),
        };
        store::JournalEntry { seq: entry.seq, time: entry.time, body: beside.with(&entry.entry) }
    });
    let (elements, jobs): (Vec<_>, Vec<_>) =
        commit.ended.iter().partition(|ended| ended.job.id.element.is_some());
    let group = |ended: &&EndedJob| {
        let name = ended.spec.part_of.as_ref()?.name.clone();
        Some(store::GroupEntry { name, job: ended.job.id.number })
    };
    let groups = jobs.iter().filter_map(group).collect();
    let archive = jobs.into_iter().map(|ended| store::ArchiveEntry {
        job: ended.job.id.number,
        ended_at: ended_at(&ended.job),
        user: ended.spec.owner.user.to_string(),
        project: ended.spec.project.to_string(),
        name: ended.spec.name.to_string(),
        state: ended.job.phase.state().as_str().to_owned(),
        body: json(ended),
    });
    let elements = elements.into_iter().filter_map(|ended| {
        Some(store::ElementEntry {
            job: ended.job.id.number,
            element: ended.job.id.element?,
            attempt: ended.job.attempt.0,
            ended_at: ended_at(&ended.job),
            state: ended.job.phase.state().as_str().to_owned(),
            // The array's record contains the request.
            body: json(&ended.job),
        })
    });
    store::Commit {
        fence: commit.term,
        revision: commit.revision,
        records: records.collect(),
        journal: journal.collect(),
        archive: archive.collect(),
        elements: elements.collect(),
        groups,
    }
}

fn ended_at(job: &Job) -> gpool_model::Timestamp {
    match &job.phase {
        gpool_model::Phase::Ended(end) => end.ended_at,
        _ => gpool_model::Timestamp::ZERO,
    }
}

/// The JSON of a record, or of a part of it.
///
/// # Panics
/// Never: the model has string keys only, and no serializer of it fails.
pub fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the model has string keys and no failing serializers")
}

/// Converts a record of the store to a record of the state machine.
///
/// # Errors
/// If this version does not know the kind or the content.
pub fn decode(row: &store::Record) -> Result<Record, DecodeError> {
    let kind: RecordKind = row.kind.parse().map_err(|source| error(row, source))?;
    Ok(match kind {
        RecordKind::Cluster => Record::Cluster(body(row)?),
        RecordKind::Policy => Record::Policy(body(row)?),
        RecordKind::Project => Record::Project(Box::new(body(row)?)),
        RecordKind::Node => Record::Node(body(row)?),
        RecordKind::JobSpec => Record::JobSpec(std::sync::Arc::new(body::<JobSpec>(row)?)),
        RecordKind::Job => Record::Job(body(row)?),
        RecordKind::Idempotency => Record::Idempotency(body(row)?),
        RecordKind::Reservation => Record::Reservation(body(row)?),
        RecordKind::PastRuns => Record::PastRuns(body(row)?),
        RecordKind::Delivery => Record::Delivery(body(row)?),
        RecordKind::Used => Record::Used(body(row)?),
        RecordKind::Subscription => Record::Subscription(body(row)?),
    })
}

/// Decodes an ended job of the archive.
///
/// # Errors
/// If this version does not know the content.
pub fn decode_ended(row: &store::ArchiveEntry) -> Result<EndedJob, DecodeError> {
    serde_json::from_slice(&row.body).map_err(|source| DecodeError {
        kind: "archived job".to_owned(),
        key: row.job.to_string(),
        source: source.into(),
    })
}

/// Decodes an ended array element.
///
/// # Errors
/// If this version does not know the content.
pub fn decode_element(row: &store::ElementEntry) -> Result<Job, DecodeError> {
    serde_json::from_slice(&row.body).map_err(|source| DecodeError {
        kind: "archived element".to_owned(),
        key: format!("{}.{}", row.job, row.element),
        source: source.into(),
    })
}

fn body<T: DeserializeOwned>(row: &store::Record) -> Result<T, DecodeError> {
    serde_json::from_slice(&row.value).map_err(|source| error(row, source))
}

fn error(
    row: &store::Record,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> DecodeError {
    DecodeError { kind: row.kind.clone(), key: row.key.clone(), source: source.into() }
}
