//! The rows of the journal and the hash chain through them.

use gpool_model::{Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::hash::{self, CHAIN_START, Chain};
use crate::head::{Head, signed, unsigned};
use crate::row::JournalEntry;

/// The columns that [`journal_row`] reads.
pub const JOURNAL_COLUMNS: &str = "seq, time, chain, body";

/// Reads an entry of the journal and the chain after it.
pub fn journal_row(row: &Row<'_>) -> rusqlite::Result<(JournalEntry, Chain)> {
    let entry = JournalEntry {
        seq: Seq(unsigned(row, 0)?),
        time: Timestamp::new(unsigned(row, 1)?),
        body: row.get(3)?,
    };
    Ok((entry, row.get(2)?))
}

/// Follows the journal's chain.
#[derive(Debug, Clone)]
pub struct Walk {
    /// The last entry that was checked.
    pub seq: Seq,
    chain: Chain,
}

impl Walk {
    /// Begins before the oldest entry that is stored. A wrong start shows at that entry, since the
    /// chain does not lead there.
    pub fn start(connection: &Connection) -> rusqlite::Result<Self> {
        let start = connection
            .prepare_cached("SELECT seq, chain FROM journal_start")?
            .query_row([], |row| Ok(Self { seq: Seq(unsigned(row, 0)?), chain: row.get(1)? }))
            .optional()?;
        Ok(start.unwrap_or(Self { seq: Seq(0), chain: CHAIN_START }))
    }

    /// Continues from a later entry; `None` if it is missing.
    pub fn at(self, connection: &Connection, seq: Seq) -> rusqlite::Result<Option<Self>> {
        if seq <= self.seq {
            return Ok(Some(self));
        }
        Ok(chain_at(connection, seq)?.map(|chain| Self { seq, chain }))
    }

    /// Checks the next entry; returns an error that says why it does not follow.
    pub fn step(&mut self, entry: &JournalEntry, chain: Chain) -> Result<(), String> {
        let expected = self.seq.next();
        let computed = hash::chain_after(&self.chain, entry);
        // Continues with the found chain, so that one fault is reported once.
        *self = Self { seq: entry.seq, chain };
        if entry.seq != expected {
            return Err(format!("journal {expected}: missing; the next entry is {}", entry.seq));
        }
        if computed != chain {
            return Err(format!("journal {}: the chain is broken here", entry.seq));
        }
        Ok(())
    }

    /// Checks that the reached end is the one in `meta`; returns an error that says how it differs.
    pub fn end(&self, head: &Head) -> Result<(), String> {
        if self.seq != head.seq {
            return Err(format!("journal: ends at {}, but {} was committed", self.seq, head.seq));
        }
        if self.chain != head.chain {
            return Err(format!("journal {}: the chain does not end as committed", self.seq));
        }
        Ok(())
    }
}

/// Returns the chain after one entry.
pub fn chain_at(connection: &Connection, seq: Seq) -> rusqlite::Result<Option<Chain>> {
    connection
        .query_row("SELECT chain FROM journal WHERE seq = ?1", [signed(seq.0)], |row| row.get(0))
        .optional()
}
