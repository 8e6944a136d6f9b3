//! The tables of a store, and the version of the stored format. A store of another version is
//! refused before anything is written (`database::check_schema`).
//!
//! The version counts released formats. To change the tables after a release, raise [`SCHEMA`] and
//! convert a store of the version before in `Store::open`: after it is loaded and found whole,
//! before it is written to, in one transaction, and with a copy of the database beside it as the
//! way back. `crates/gpool/tests/e2e/kept/make.sh` makes a store of the version before for a test.
//! A field that is added to a record changes no table; raise the version for it only if a gpool
//! that ignores the field must not open the store.

use rusqlite::{Connection, OptionalExtension};

use crate::head::Head;

/// Marks a SQLite file as gpool's: `gpol`.
pub const APPLICATION_ID: u32 = 0x6770_6f6c;

/// The version of the stored format that this gpool reads and writes.
pub const SCHEMA: u32 = 1;

// Strict tables keep a damaged type byte from becoming another value. Records are stored in the
// order of their keys: they are read all at once or one by key. The start of the journal needs no
// checksum: the entry after it proves it by the chain. Names and states of ended jobs have an index
// each, since users ask for a few among many. Elements of arrays have a table of their own, since
// an array may have many; they count for the digest of the archive.
const TABLES: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema INTEGER NOT NULL,
    written_by TEXT NOT NULL,
    store_id BLOB NOT NULL,
    fence INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    n_records INTEGER NOT NULL,
    records_sum BLOB NOT NULL,
    n_archive INTEGER NOT NULL,
    archive_sum BLOB NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE record (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    revision INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    chain BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE TABLE journal_start (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL
) STRICT;
INSERT INTO journal_start (one, seq, chain) VALUES (1, 0, zeroblob(32));
CREATE TABLE archive (
    job INTEGER PRIMARY KEY,
    ended_at INTEGER NOT NULL,
    user TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX archive_by_user ON archive (user, job);
CREATE INDEX archive_by_project ON archive (project, job);
CREATE INDEX archive_by_end ON archive (ended_at);
CREATE INDEX archive_by_name ON archive (name, job);
CREATE INDEX archive_by_state ON archive (state, job);
CREATE TABLE element (
    job INTEGER NOT NULL,
    element INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job, element, attempt)
) STRICT, WITHOUT ROWID;
";

/// The index of ended jobs by group. A store that was made before there were groups gets it with
/// its first one. The record of a job has its group too, so it counts for no digest.
pub const GROUPS: &str = "
CREATE TABLE IF NOT EXISTS archive_group (
    name TEXT NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (name, job)
) STRICT, WITHOUT ROWID;
";

/// Makes the tables of a new store in an empty database.
pub fn make_tables(connection: &mut Connection, head: &Head) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(GROUPS)?;
    head.write(&transaction)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()
}

/// Returns whether the database has a table of that name.
pub fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", [name], |_| {
            Ok(())
        })
        .optional()
        .map(|row| row.is_some())
}
