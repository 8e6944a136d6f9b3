//! Records, journal and archive as the store keeps them: JSON, which people can read and later
//! versions can add to.
//!
//! Every gpool reads what any earlier one wrote, so what is stored is never rewritten. For the
//! types of `model` that are stored this means:
//!
//! - A new field has a default (`#[serde(default)]`), which means what was so before there was the
//!   field. A new variant of an enum needs nothing.
//! - A field or a variant is never renamed, and never means something else later. What it says now
//!   goes into a new one; the old one is still read.
//! - A gpool passes over fields that it does not know, except in the policy, and drops them when it
//!   writes the record anew. It refuses a record of a kind or a variant that it does not know.
//!   Where either would be wrong after going back to an older gpool, the change comes with a step
//!   of the store's layout (`schema.rs` in `store`), which keeps older ones from opening it at all.
//!
//! `tests/kept.rs` holds this against what the first layout wrote.

use gpool_model::event::Journaled;
use gpool_model::record::{EndedJob, Record, RecordKind};
use gpool_model::{Commit, Event, Job, JobSpec, Policy, Revision};
use gpool_store as store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Why a stored body could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {key:?} of the store can't be read: {source}")]
pub struct DecodeError {
    kind: String,
    key: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// What the journal says beside each entry, so that a replay can begin and go on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// The commit that the entry belongs to; entries of one commit were decided on together.
    /// `None` in a journal from before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The gpool that started, where the entry tells of a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The policy that the cluster began with, in its first entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

impl Beside {
    /// An entry and this as one object.
    fn with(&self, entry: &Journaled) -> Vec<u8> {
        let (mut body, entry) = (json(self), json(entry));
        // Both are objects, and this one always has a member.
        body.pop();
        body.push(b',');
        body.extend_from_slice(&entry[1..]);
        body
    }
}

/// A commit of the state machine as rows of the store.
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
        let beside = Beside {
            revision: Some(commit.revision),
            version: starts.then(|| env!("CARGO_PKG_VERSION").to_owned()),
            policy: policy.clone().filter(|_| nth == 0),
        };
        store::JournalEntry { seq: entry.seq, time: entry.time, body: beside.with(&entry.entry) }
    });
    let (elements, jobs): (Vec<_>, Vec<_>) =
        commit.ended.iter().partition(|ended| ended.job.id.element.is_some());
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
            // The request is stored once, with the array.
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
    }
}

fn ended_at(job: &Job) -> gpool_model::Timestamp {
    match &job.phase {
        gpool_model::Phase::Ended(end) => end.ended_at,
        _ => gpool_model::Timestamp::ZERO,
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the model has string keys and no failing serializers")
}

/// A record of the store as the state machine knows it.
///
/// # Errors
/// If it is of a kind, or has a content, that this version does not know.
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
    })
}

/// An ended job of the archive.
///
/// # Errors
/// If its content is not known to this version.
pub fn decode_ended(row: &store::ArchiveEntry) -> Result<EndedJob, DecodeError> {
    serde_json::from_slice(&row.body).map_err(|source| DecodeError {
        kind: "archived job".to_owned(),
        key: row.job.to_string(),
        source: source.into(),
    })
}

/// An ended element of an array.
///
/// # Errors
/// If its content is not known to this version.
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
