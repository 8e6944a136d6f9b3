//! Reads a store that a server has open, or a backup, from any thread. Never writes; each answer
//! is from one moment. A reader is one connection: threads that ask at once open one each.

use std::path::Path;

use gpool_model::{JobNumber, Seq};
use rusqlite::Connection;

use crate::archive::{self, ArchiveFilter};
use crate::chain::{JOURNAL_COLUMNS, Walk, journal_row};
use crate::database::{connect, database_of};
use crate::elements;
use crate::error::{LoadError, OpenError, ReadError};
use crate::head::{Head, signed};
use crate::journal::{self, JournalSearch};
use crate::load::{self, Loaded};
use crate::row::{ArchiveEntry, ElementEntry, JournalEntry};

/// A connection for reading.
pub struct Reader {
    connection: Connection,
}

impl Reader {
    /// Opens the store in a state folder, or a backup file.
    ///
    /// # Errors
    /// If there is none, or it is not of this gpool.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { connection: connect(&database_of(path)?)? })
    }

    /// Everything that a server starts from, checked in the same way.
    ///
    /// # Errors
    /// If it can't be read or is not what was committed.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        load::load(&self.connection).map(|(_, loaded)| loaded)
    }

    /// Entries of the journal from `from` on, at most `limit`, each checked against the chain. It
    /// begins with the oldest that is kept if `from` is older.
    ///
    /// # Errors
    /// If one is not what was committed.
    pub fn journal(&self, from: Seq, limit: u32) -> Result<Vec<JournalEntry>, ReadError> {
        let from = from.0.max(1);
        let transaction = self.connection.unchecked_transaction()?;
        let head = Head::read(&transaction)?
            .map_err(|what| ReadError::Damaged(format!("meta: {what}")))?;
        if from > head.seq.0 {
            return Ok(Vec::new());
        }
        let mut walk = Walk::start(&transaction)?
            .at(&transaction, Seq(from - 1))?
            .ok_or_else(|| ReadError::Damaged(format!("journal {}: missing", from - 1)))?;
        let mut statement = transaction.prepare_cached(&format!(
            "SELECT {JOURNAL_COLUMNS} FROM journal WHERE seq > ?1 ORDER BY seq LIMIT ?2"
        ))?;
        let mut rows = statement.query([signed(walk.seq.0), i64::from(limit)])?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            let (entry, chain) = journal_row(row)?;
            walk.step(&entry, chain).map_err(ReadError::Damaged)?;
            entries.push(entry);
        }
        if entries.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
            walk.end(&head).map_err(ReadError::Damaged)?;
        }
        Ok(entries)
    }

    /// Entries of the journal between two moments that hold one of these words, each checked
    /// against the entry before it; the journal's times only grow, so that no more is looked at
    /// than what lies between.
    ///
    /// # Errors
    /// If one is not what was committed.
    pub fn journal_about(&self, about: &JournalSearch<'_>) -> Result<Vec<JournalEntry>, ReadError> {
        journal::about(&self.connection, about)
    }

    /// Ended jobs that `filter` lets through, newest number first.
    ///
    /// # Errors
    /// If one is not what was committed.
    pub fn archive(&self, filter: &ArchiveFilter) -> Result<Vec<ArchiveEntry>, ReadError> {
        archive::list(&self.connection, filter)
    }

    /// One ended job.
    ///
    /// # Errors
    /// If it is not what was committed.
    pub fn archived(&self, job: JobNumber) -> Result<Option<ArchiveEntry>, ReadError> {
        archive::get(&self.connection, job)
    }

    /// The last attempt of an element of an array that ended.
    ///
    /// # Errors
    /// If it is not what was committed.
    pub fn element(&self, job: JobNumber, element: u32) -> Result<Option<ElementEntry>, ReadError> {
        elements::last(&self.connection, job, element)
    }

    /// The last ended attempts of elements of an array, from an index on, at most `limit`.
    ///
    /// # Errors
    /// If one is not what was committed.
    pub fn elements(
        &self,
        job: JobNumber,
        from: u32,
        limit: u32,
    ) -> Result<Vec<ElementEntry>, ReadError> {
        elements::list(&self.connection, job, from, limit)
    }

    /// The arrays of which elements have ended that were started.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn arrays_of_elements(&self) -> Result<Vec<JobNumber>, ReadError> {
        Ok(elements::arrays(&self.connection)?)
    }
}
