//! The layout of the tables, as ordered steps from nothing to today's. All steps that a store needs
//! are one transaction: a kill in the middle leaves the layout before them. No step is ever edited
//! once released; a change is a new step. What reads a store reads every layout there ever was,
//! since backups stay as they are, and since a store is proved whole before its layout is changed.
//!
//! What the bodies of records mean is not part of the layout; but a step, if need be an empty one,
//! keeps a gpool that would drop what it does not know from opening the store.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::head::Head;

/// Marks a SQLite file as gpool's: `gpol`.
pub const APPLICATION_ID: u32 = 0x6770_6f6c;

/// The layout that this gpool reads and writes.
pub const SCHEMA: u32 = 4;

/// One step. The first makes the tables; later ones change them.
pub struct Migration {
    /// The layout after it.
    pub to: u32,
    /// What it does.
    pub sql: &'static str,
}

/// All steps, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { to: 1, sql: TABLES },
    Migration { to: 2, sql: JOURNAL_START },
    Migration { to: 3, sql: ELEMENTS },
    Migration { to: 4, sql: OWNED_BLOBS },
];

// Strict tables keep a damaged type byte from becoming another value. Records lie in the order of
// their keys, because they are only ever read all at once or one by key.
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
";

// The start needs no checksum: the entry after it proves it by the chain. By name and state people
// ask for a few among many ended jobs.
const JOURNAL_START: &str = "
CREATE TABLE journal_start (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL
) STRICT;
INSERT INTO journal_start (one, seq, chain) VALUES (1, 0, zeroblob(32));
CREATE INDEX archive_by_name ON archive (name, job);
CREATE INDEX archive_by_state ON archive (state, job);
";

// Elements of arrays, which may be many and are asked for by their array. They count for the digest
// of the archive.
const ELEMENTS: &str = "
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

// Names of blobs have an owner, and environments are no JSON: the tables stay as they are, but an
// older gpool could start none of the jobs.
const OWNED_BLOBS: &str = "";

/// Takes the steps after the layout of `head`, all or none of them.
pub fn migrate(
    connection: &mut Connection,
    head: &Head,
    migrations: &[Migration],
) -> rusqlite::Result<()> {
    let from = head.schema;
    let mut head = head.clone();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    for migration in migrations.iter().filter(|migration| migration.to > from) {
        transaction.execute_batch(migration.sql)?;
        head.schema = migration.to;
    }
    head.written_by = env!("CARGO_PKG_VERSION").to_owned();
    head.write(&transaction)?;
    transaction.pragma_update(None, "user_version", head.schema)?;
    transaction.commit()
}

/// True if the database has a table of that name.
pub fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", [name], |_| {
            Ok(())
        })
        .optional()
        .map(|row| row.is_some())
}
