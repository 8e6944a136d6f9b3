//! Reads all records and proves that they are the committed ones: each by its checksum, all
//! together by the digest in `meta`, the journal's end by its chain, and the whole by the mark.
//! Only `verify` checks the journal before its end, since that is long.

use gpool_model::{Revision, Seq, Term};
use rusqlite::Connection;

use crate::chain::{JOURNAL_COLUMNS, Walk, chain_at, journal_row};
use crate::error::LoadError;
use crate::hash::{self, Checksum, Digest};
use crate::head::{Head, signed, unsigned};
use crate::mark::Mark;
use crate::row::Record;

// Enough to find a damaged last page; `verify` checks the rest.
const TAIL_LEN: u64 = 64;

/// The state that a server starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The last commit; the next one is one more.
    pub revision: Revision,
    /// The last entry of the journal; the next one is one more.
    pub seq: Seq,
    /// The newest term that has committed; a server that starts takes the next one.
    pub fence: Term,
    /// All records, by kind and key.
    pub records: Vec<Record>,
}

/// Reads and checks the state that a server starts from.
pub fn load(connection: &Connection) -> Result<(Head, Loaded), LoadError> {
    // One read transaction, so that all of it shows one point in time.
    let transaction = connection.unchecked_transaction()?;
    let head = read_head(&transaction)?;
    let mut records =
        Vec::with_capacity(usize::try_from(head.records.n_rows).unwrap_or(0).min(1 << 20));
    let mut digest = Digest::default();
    let mut damage = None;
    for_each_record(&transaction, |record, sound, checksum| {
        if !sound {
            damage.get_or_insert(format!("{}: its checksum differs", name_of(&record)));
        }
        digest.add(checksum);
        records.push(record);
    })?;
    if let Some(damage) = damage {
        return Err(LoadError::Damaged(damage));
    }
    if digest != head.records {
        return Err(LoadError::Damaged(digest_differs("record", digest, head.records)));
    }
    check_tail(&transaction, &head)?;
    let loaded = Loaded { revision: head.revision, seq: head.seq, fence: head.fence, records };
    Ok((head, loaded))
}

fn read_head(connection: &Connection) -> Result<Head, LoadError> {
    Head::read(connection)?.map_err(|what| LoadError::Damaged(format!("meta: {what}")))
}

/// Returns the name of a record for messages.
pub fn name_of(record: &Record) -> String {
    format!("record {}/{} (revision {})", record.kind, record.key, record.revision)
}

/// Returns a message about the difference between a table and its digest.
pub fn digest_differs(table: &str, found: Digest, written: Digest) -> String {
    if found.n_rows == written.n_rows {
        format!("{table}: the rows differ from the committed ones, although each is intact")
    } else {
        format!("{table}: {} rows, but {} were committed", found.n_rows, written.n_rows)
    }
}

/// Calls `each` for every record, with whether its checksum is right, and the checksum.
pub fn for_each_record(
    connection: &Connection,
    mut each: impl FnMut(Record, bool, &Checksum),
) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT kind, key, revision, checksum, value FROM record")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let record = Record {
            kind: row.get(0)?,
            key: row.get(1)?,
            revision: Revision(unsigned(row, 2)?),
            value: row.get(4)?,
        };
        let checksum: Checksum = row.get(3)?;
        let computed =
            hash::record_checksum(&record.kind, &record.key, record.revision, &record.value);
        each(record, computed == checksum, &checksum);
    }
    Ok(())
}

fn check_tail(connection: &Connection, head: &Head) -> Result<(), LoadError> {
    let before = head.seq.0.saturating_sub(TAIL_LEN);
    let mut walk = Walk::start(connection)?
        .at(connection, Seq(before))?
        .ok_or_else(|| LoadError::Damaged(format!("journal {before}: missing")))?;
    let mut statement = connection
        .prepare(&format!("SELECT {JOURNAL_COLUMNS} FROM journal WHERE seq > ?1 ORDER BY seq"))?;
    let mut rows = statement.query([signed(walk.seq.0)])?;
    while let Some(row) = rows.next()? {
        let (entry, chain) = journal_row(row)?;
        walk.step(&entry, chain).map_err(LoadError::Damaged)?;
    }
    walk.end(head).map_err(LoadError::Damaged)
}

/// The ways that a store and its mark can disagree.
pub enum Disagreement {
    /// The mark belongs to another store.
    OtherStore,
    /// The store ends before the mark.
    Lost,
    /// The store has another history at the position of the mark.
    Diverged,
}

/// Compares a store with its mark.
pub fn compare_with_mark(
    connection: &Connection,
    head: &Head,
    mark: &Mark,
) -> rusqlite::Result<Option<Disagreement>> {
    if mark.store_id != head.store_id {
        return Ok(Some(Disagreement::OtherStore));
    }
    if mark.revision > head.revision || mark.seq > head.seq {
        return Ok(Some(Disagreement::Lost));
    }
    // A dropped entry can't be compared.
    let is_kept = mark.seq > Walk::start(connection)?.seq;
    let is_other = is_kept && chain_at(connection, mark.seq)? != Some(mark.chain);
    Ok(is_other.then_some(Disagreement::Diverged))
}
