//! Spare pages: free pages of the database with allocated blocks on the disk. On a full disk, new
//! rows take them. Without them no checkpoint would succeed there, so the log would grow until its
//! reserve ends.

use std::fs::File;
use std::io;
use std::path::Path;

use gpool_model::Revision;
use rusqlite::{Connection, params};

use crate::file::{allocate, nameless};
use crate::head::{signed, unsigned};

/// The largest reserve. With the 1000 pages that SQLite keeps in the log, its index stays in the
/// first 32 KiB, which exist from the start; a further part would need space of its own.
/// Source: SQLite, "WAL-mode File Format", 4062 frames in the first part.
const RESERVE_MAX: u64 = 12 << 20;
/// The smallest reserve, on a small file system.
const RESERVE_MIN: u64 = 256 << 10;
/// A file system is this many times as large as the reserve, at least.
const RESERVE_PART: u64 = 8;
/// One page per this many bytes of the log's reserve. With the largest reserve there are 945: in
/// the log, they need less than the 1000 pages that it has before SQLite copies it.
const BYTES_PER_PAGE: u64 = 13 << 10;
/// The bytes of a value that a page of its own holds; the rest is the number of the next page.
/// Source: SQLite, "Database File Format", 1.7, with pages of 4096 bytes.
const CONTENT: u64 = 4092;
const PAGE: u64 = 4096;
/// After a failure, no attempt is made for this many commits: each may write all spare pages.
const REST: u64 = 1024;

/// The spare pages of an open store.
pub struct Spare {
    goal: u64,
    n_pages: u64,
    rest_until: Revision,
}

impl Spare {
    /// The spare pages of a store; not made yet. `reserve` is the size of the log's reserve.
    pub fn of(connection: &Connection, reserve: u64) -> Self {
        let n_pages = count(connection).unwrap_or(0);
        Self { goal: goal(reserve), n_pages, rest_until: Revision(0) }
    }

    /// Whether only half of them are left, and an attempt to make more may succeed.
    pub fn is_due(&self, revision: Revision) -> bool {
        self.n_pages < self.goal / 2 && revision >= self.rest_until
    }

    /// Makes them complete again. By trial, because the free space does not show quotas, and the
    /// pages go through the log first: a failure must not use its reserve up.
    pub fn make_in(&mut self, connection: &mut Connection, dir: &Path) -> io::Result<()> {
        let room = self.goal.saturating_mul(2 * PAGE);
        allocate(&File::from(nameless(dir)?), room)?;
        make(connection, self.goal).map_err(io::Error::other)?;
        self.n_pages = count(connection).map_err(io::Error::other)?;
        Ok(())
    }

    /// Makes no further attempt for some time.
    pub fn rest(&mut self, revision: Revision) {
        self.rest_until = Revision(revision.0.saturating_add(REST));
    }

    /// Takes note of the number of free pages after a commit.
    pub fn note(&mut self, n_pages: u64) {
        self.n_pages = n_pages;
    }
}

/// The size of the log's reserve in a folder.
pub fn log_reserve_in(dir: &Path) -> u64 {
    let found = rustix::fs::statvfs(dir);
    let size = found.map_or(0, |it| it.f_blocks.saturating_mul(it.f_frsize));
    (size / RESERVE_PART).clamp(RESERVE_MIN, RESERVE_MAX)
}

/// How many spare pages a store has, beside a log with a reserve of this size.
pub fn goal(reserve: u64) -> u64 {
    reserve / BYTES_PER_PAGE
}

/// The number of free pages. Within a transaction it takes a microsecond.
pub fn count(connection: &Connection) -> rusqlite::Result<u64> {
    connection.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| unsigned(row, 0))
}

/// Makes this number of free pages, together with those that are there: a large value takes them
/// all, the file grows for the rest, and the value is removed again. No reader ever sees it.
pub fn make(connection: &mut Connection, n_pages: u64) -> rusqlite::Result<()> {
    // No entry of the journal has this number.
    const SEQ: i64 = -1;
    // All pages stay in memory: for a new file, SQLite would write some of them for nothing.
    let n_cached = n_pages.saturating_add(256).min(1 << 20);
    connection.pragma_update(None, "cache_size", signed(n_cached))?;
    let transaction = connection.transaction()?;
    let bytes = i32::try_from(n_pages.saturating_mul(CONTENT)).unwrap_or(i32::MAX);
    transaction.execute(
        "INSERT INTO journal (seq, time, chain, body) VALUES (?1, 0, x'', zeroblob(?2))",
        params![SEQ, bytes],
    )?;
    transaction.execute("DELETE FROM journal WHERE seq = ?1", [SEQ])?;
    transaction.commit()
}

/// Gives each page of a database its blocks: SQLite does not write free pages of a new file, and a
/// copy of the file may have holes. No connection of this process may have the file open: to close
/// the file here would release the connection's locks.
pub fn allocate_blocks(path: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    allocate(&file, file.metadata()?.len())
}
