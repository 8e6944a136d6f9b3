//! What goes into the store and comes out of it, as rows of bytes. Does not look inside a body.

use gpool_model::{JobNumber, Revision, Seq, Term, Timestamp};

/// Everything that becomes durable together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The term of the server that commits; older ones than the store has seen are refused.
    pub fence: Term,
    /// The revision after this commit: one more than before it.
    pub revision: Revision,
    /// Records that are written or deleted.
    pub records: Vec<RecordChange>,
    /// What happened, in order; sequence numbers go on from the last one without a gap.
    pub journal: Vec<JournalEntry>,
    /// Jobs that have ended; each is written once and never changed.
    pub archive: Vec<ArchiveEntry>,
    /// Attempts of elements of arrays that have ended; the same holds for them.
    pub elements: Vec<ElementEntry>,
}

/// A record that is written, or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// What kind of thing it is, such as `job`.
    pub kind: String,
    /// Which of its kind.
    pub key: String,
    /// The new content; `None` deletes it, and deleting what is not there changes nothing.
    pub value: Option<Vec<u8>>,
}

/// A record as it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What kind of thing it is, such as `job`.
    pub kind: String,
    /// Which of its kind.
    pub key: String,
    /// The commit that wrote it last.
    pub revision: Revision,
    /// Its content.
    pub value: Vec<u8>,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its place, from 1, without gaps.
    pub seq: Seq,
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub body: Vec<u8>,
}

/// A job that has ended. Its columns are what lists can be filtered by; the body is the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The job.
    pub job: JobNumber,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Whose it was.
    pub user: String,
    /// Who was charged.
    pub project: String,
    /// What it was called.
    pub name: String,
    /// How it ended.
    pub state: String,
    /// Everything about it.
    pub body: Vec<u8>,
}

/// An attempt of an element of an array that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementEntry {
    /// The array.
    pub job: JobNumber,
    /// Which element, by its index.
    pub element: u32,
    /// Which attempt of it.
    pub attempt: u32,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub state: String,
    /// Everything about it that is not the array's.
    pub body: Vec<u8>,
}
