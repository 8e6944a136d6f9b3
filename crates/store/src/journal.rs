//! Finds journal entries about one thing. There is no index by subject: it would slow down every
//! commit, and reading an entry is faster than writing one. So a search reads all entries of the
//! time range, up to a limit.

use gpool_model::{Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::chain::{JOURNAL_COLUMNS, chain_at, journal_row};
use crate::error::ReadError;
use crate::hash;
use crate::head::signed;
use crate::row::JournalEntry;

#[derive(Debug, Clone, Copy)]
pub struct JournalSearch<'a> {
    /// Entries of this time and later.
    pub since: Timestamp,
    /// Entries of this time and earlier.
    pub until: Timestamp,
    /// Entries that contain either of these.
    pub words: [&'a [u8]; 2],
    pub limit: u32,
    /// Stops once the results have this many bytes together.
    pub bytes_max: usize,
}

/// The largest number of entries that a search reads.
const LOOKED_AT_MAX: u64 = 2_000_000;

/// Returns the entries that match a search, in order.
pub fn about(
    connection: &Connection,
    search: &JournalSearch<'_>,
) -> Result<Vec<JournalEntry>, ReadError> {
    let transaction = connection.unchecked_transaction()?;
    let Some((first, last)) = ends(&transaction)? else { return Ok(Vec::new()) };
    let from = first_since(&transaction, first, last, search.since)?;
    let to = from.saturating_add(LOOKED_AT_MAX).min(last);
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {JOURNAL_COLUMNS} FROM journal WHERE seq >= ?1 AND seq <= ?2 AND time <= ?3 \
         AND (instr(body, ?4) > 0 OR instr(body, ?5) > 0) ORDER BY seq LIMIT ?6"
    ))?;
    // SQLite does not know that times only grow, so the last entry of the range is looked up first.
    let past = Timestamp::new(search.until.get().saturating_add(1));
    let end = first_since(&transaction, first, last, past)?;
    let [one, other] = search.words;
    let mut rows = statement.query(params![
        signed(from),
        signed(to.min(end)),
        signed(search.until.get()),
        one,
        other,
        i64::from(search.limit)
    ])?;
    let (mut entries, mut n_bytes) = (Vec::new(), 0);
    while n_bytes < search.bytes_max
        && let Some(row) = rows.next()?
    {
        let (entry, chain) = journal_row(row)?;
        n_bytes += entry.body.len();
        let before = chain_at(&transaction, Seq(entry.seq.0.saturating_sub(1)))?;
        if before.is_some_and(|before| hash::chain_after(&before, &entry) != chain) {
            let what = format!("journal {}: it does not follow the previous entry", entry.seq);
            return Err(ReadError::Damaged(what));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Returns the first and the last kept entry.
pub(crate) fn ends(connection: &Connection) -> rusqlite::Result<Option<(u64, u64)>> {
    let ends: (Option<i64>, Option<i64>) = connection.query_row(
        "SELECT (SELECT seq FROM journal ORDER BY seq LIMIT 1), \
         (SELECT seq FROM journal ORDER BY seq DESC LIMIT 1)",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let natural = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    Ok(natural(ends.0).zip(natural(ends.1)))
}

/// Returns the first entry of this time or later, by binary search; the last one if there is none.
fn first_since(
    connection: &Connection,
    first: u64,
    last: u64,
    since: Timestamp,
) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT time FROM journal WHERE seq = ?1")?;
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = low + (high - low) / 2;
        let time: Option<i64> =
            statement.query_row([signed(middle)], |row| row.get(0)).optional()?;
        // A missing entry is damage that `verify` finds; the search skips it.
        let is_before = time.is_none_or(|time| time < signed(since.get()));
        if is_before { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
