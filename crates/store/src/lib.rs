//! The durable state of a server: records, the journal of changes, the archive of ended jobs, and
//! small blobs. One SQLite file in a state folder, owned by one thread that commits in groups.
//! Checksums and a mark outside the database detect damage and loss. The store does not know the
//! meaning of the bytes and decides nothing.

#![forbid(unsafe_code)]

mod archive;
mod backup;
mod blob_id;
mod blobs;
mod chain;
mod commit;
mod committer;
mod create;
mod database;
mod elements;
mod error;
mod extra_files;
mod file;
mod hash;
mod head;
mod journal;
mod load;
mod lock;
mod mark;
mod open;
mod presence;
mod prune;
mod reader;
mod reserve;
mod restore;
mod row;
mod schema;
mod spare;
mod verify;

pub use archive::ArchiveFilter;
pub use backup::{Backup, backup};
pub use blob_id::BlobId;
pub use blobs::{Blobs, PinEnd, Sweep};
pub use committer::{Committer, OnDone, Submitter};
pub use error::{
    BackupError, BlobError, CommitError, LoadError, OpenError, ReadError, RestoreError,
};
pub use file::{allocate, is_no_space};
pub use journal::JournalSearch;
pub use load::Loaded;
pub use open::{Store, StoreOptions};
pub use presence::StoreFiles;
pub use reader::Reader;
pub use reserve::Room;
pub use restore::{Existing, Restored, restore};
pub use row::{ArchiveEntry, Commit, ElementEntry, GroupEntry, JournalEntry, Record, RecordChange};
pub use schema::SCHEMA;
pub use verify::{Finding, FindingKind, VerifyReport, verify};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::file::{is_there, publish};
    pub use crate::hash::{CHAIN_START, Digest, Fields, chain_after, record_checksum};
    pub use crate::lock::Lock;
}
