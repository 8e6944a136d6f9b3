//! The layout of the tables, as ordered steps from nothing to today's. Each step is one
//! transaction: a kill in the middle leaves the layout before it. No step is ever edited once
//! released; a change is a new step.

use rusqlite::{Connection, TransactionBehavior};

use crate::head::Head;

/// Marks a SQLite file as gpool's: `gpol`.
pub const APPLICATION_ID: u32 = 0x6770_6f6c;

/// The layout that this gpool reads and writes.
pub const SCHEMA: u32 = 1;

/// One step. The first makes the tables; later ones change them.
pub struct Migration {
    /// The layout after it.
    pub to: u32,
    /// What it does.
    pub sql: &'static str,
}

/// All steps, in order.
pub const MIGRATIONS: &[Migration] = &[Migration { to: 1, sql: TABLES }];

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

/// Takes the steps after `from`. `head` is what `meta` says after the first of them; its layout
/// is set to each step's.
pub fn migrate(
    connection: &mut Connection,
    from: u32,
    head: &Head,
    migrations: &[Migration],
) -> rusqlite::Result<()> {
    let mut head = head.clone();
    for migration in migrations.iter().filter(|migration| migration.to > from) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        transaction.execute_batch(migration.sql)?;
        head.schema = migration.to;
        head.written_by = env!("CARGO_PKG_VERSION").to_owned();
        head.write(&transaction)?;
        transaction.pragma_update(None, "user_version", migration.to)?;
        transaction.commit()?;
    }
    Ok(())
}
