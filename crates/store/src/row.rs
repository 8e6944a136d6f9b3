//! Rows of the store, as bytes. The store never reads a body.

use gpool_model::{JobNumber, Revision, Seq, Term, Timestamp};

/// Changes that become durable together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The term of the committing server; terms older than the newest stored one are refused.
    pub fence: Term,
    /// The revision after this commit: one more than before it.
    pub revision: Revision,
    /// Records that are written or deleted.
    pub records: Vec<RecordChange>,
    /// Events, in order; sequence numbers continue from the last one without a gap.
    pub journal: Vec<JournalEntry>,
    /// Ended jobs; each is written once and never changes.
    pub archive: Vec<ArchiveEntry>,
    /// Ended attempts of array elements; each is written once and never changes.
    pub elements: Vec<ElementEntry>,
    /// The groups of these ended jobs, by which lists are filtered.
    pub groups: Vec<GroupEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// The kind of record, such as `job`.
    pub kind: String,
    /// The key within the kind.
    pub key: String,
    /// The new content. `None` deletes the record; deleting a missing record changes nothing.
    pub value: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The kind of record, such as `job`.
    pub kind: String,
    /// The key within the kind.
    pub key: String,
    /// The commit that wrote it last.
    pub revision: Revision,
    pub value: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its number, from 1 without gaps.
    pub seq: Seq,
    pub time: Timestamp,
    /// The event.
    pub body: Vec<u8>,
}

/// An ended job. Lists can be filtered by its columns; the body has the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    pub job: JobNumber,
    pub ended_at: Timestamp,
    pub user: String,
    pub project: String,
    pub name: String,
    pub state: String,
    /// The whole job.
    pub body: Vec<u8>,
}

/// An ended job of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEntry {
    /// Name of the group.
    pub name: String,
    pub job: JobNumber,
}

/// An ended attempt of an array element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementEntry {
    /// The array.
    pub job: JobNumber,
    pub element: u32,
    pub attempt: u32,
    pub ended_at: Timestamp,
    pub state: String,
    /// The whole attempt, without what the array has in common.
    pub body: Vec<u8>,
}
