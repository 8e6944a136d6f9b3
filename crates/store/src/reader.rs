//! Reads a backup, or a store that a server has open, from any thread. Never writes; each answer
//! shows one point in time. A reader is one connection: parallel threads open one each.

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

pub struct Reader {
    connection: Connection,
}

impl Reader {
    /// Opens the store in a state folder, or a backup file.
    ///
    /// # Errors
    /// If there is none, or another program made it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { connection: connect(&database_of(path)?)? })
    }

    /// Returns everything that a server loads at its start, with the same checks.
    ///
    /// # Errors
    /// If it can't be read or differs from the committed data.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        load::load(&self.connection).map(|(_, loaded)| loaded)
    }

    /// Returns at most `limit` journal entries from `from` on, each checked against the chain.
    /// Begins with the oldest kept entry if `from` is older.
    ///
    /// # Errors
    /// If an entry differs from the committed one.
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

    /// Returns the journal entries between two times that contain one of these words, each checked
    /// against the entry before it. The journal's times only grow, so only entries of that range
    /// are read.
    ///
    /// # Errors
    /// If an entry differs from the committed one.
    pub fn journal_about(&self, about: &JournalSearch<'_>) -> Result<Vec<JournalEntry>, ReadError> {
        journal::about(&self.connection, about)
    }

    /// Returns the ended jobs that match `filter`, newest number first.
    ///
    /// # Errors
    /// If a job differs from the committed one.
    pub fn archive(&self, filter: &ArchiveFilter) -> Result<Vec<ArchiveEntry>, ReadError> {
        archive::list(&self.connection, filter)
    }

    /// Returns one ended job.
    ///
    /// # Errors
    /// If it differs from the committed one.
    pub fn archived(&self, job: JobNumber) -> Result<Option<ArchiveEntry>, ReadError> {
        archive::get(&self.connection, job)
    }

    /// Returns the last ended attempt of an element.
    ///
    /// # Errors
    /// If it differs from the committed one.
    pub fn element(&self, job: JobNumber, element: u32) -> Result<Option<ElementEntry>, ReadError> {
        elements::last(&self.connection, job, element)
    }

    /// Returns the last ended attempts of an array's elements from an index on, at most `limit`.
    ///
    /// # Errors
    /// If one differs from the committed one.
    pub fn elements(
        &self,
        job: JobNumber,
        from: u32,
        limit: u32,
    ) -> Result<Vec<ElementEntry>, ReadError> {
        elements::list(&self.connection, job, from, limit)
    }

    /// Returns the arrays with archived elements.
    pub fn arrays_of_elements(&self) -> Result<Vec<JobNumber>, ReadError> {
        Ok(elements::arrays(&self.connection)?)
    }
}
