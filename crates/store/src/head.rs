//! The only row of `meta`: the head of the store. Each commit changes it in its transaction, so
//! that it always describes exactly the rows beside it.

use gpool_model::{Revision, Seq, Term};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::hash::{CHAIN_START, Chain, Checksum, Digest, Fields};

/// The position and the digests of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The version of the stored format.
    pub schema: u32,
    /// The gpool that made the tables.
    pub written_by: String,
    /// A unique ID; a restored store gets a new one.
    pub store_id: [u8; 16],
    /// The newest term that has committed.
    pub fence: Term,
    /// The last commit.
    pub revision: Revision,
    /// The last entry of the journal.
    pub seq: Seq,
    /// The chain after that entry.
    pub chain: Chain,
    /// The digest of all live records.
    pub records: Digest,
    /// The digest of all ended jobs.
    pub archive: Digest,
}

impl Head {
    /// The head of a store that nothing was committed to.
    pub fn new(schema: u32, store_id: [u8; 16]) -> Self {
        Self {
            schema,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            store_id,
            fence: Term(0),
            revision: Revision(0),
            seq: Seq(0),
            chain: CHAIN_START,
            records: Digest::default(),
            archive: Digest::default(),
        }
    }

    fn checksum(&self) -> Checksum {
        Fields::new("meta")
            .number(u64::from(self.schema))
            .bytes(self.written_by.as_bytes())
            .bytes(&self.store_id)
            .number(self.fence.0)
            .number(self.revision.0)
            .number(self.seq.0)
            .bytes(&self.chain)
            .number(self.records.n_rows)
            .bytes(&self.records.sum())
            .number(self.archive.n_rows)
            .bytes(&self.archive.sum())
            .checksum()
    }

    /// Reads the row; `Ok(Err(_))` describes its damage.
    pub fn read(connection: &Connection) -> rusqlite::Result<Result<Self, String>> {
        let row = connection
            .prepare_cached(
                "SELECT schema, written_by, store_id, fence, revision, seq, chain, n_records, \
                 records_sum, n_archive, archive_sum, checksum FROM meta",
            )?
            .query_row([], |row| Ok((Self::from_row(row)?, row.get::<_, Checksum>(11)?)))
            .optional()?;
        Ok(match row {
            None => Err("its row is missing".to_owned()),
            Some((head, checksum)) if checksum != head.checksum() => {
                Err("its checksum differs".to_owned())
            }
            Some((head, _)) => Ok(head),
        })
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            schema: row.get(0)?,
            written_by: row.get(1)?,
            store_id: row.get(2)?,
            fence: Term(unsigned(row, 3)?),
            revision: Revision(unsigned(row, 4)?),
            seq: Seq(unsigned(row, 5)?),
            chain: row.get(6)?,
            records: Digest::from_parts(unsigned(row, 7)?, row.get(8)?),
            archive: Digest::from_parts(unsigned(row, 9)?, row.get(10)?),
        })
    }

    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO meta (one, schema, written_by, store_id, fence, revision, \
                 seq, chain, n_records, records_sum, n_archive, archive_sum, checksum) \
                 VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                self.schema,
                self.written_by,
                self.store_id,
                signed(self.fence.0),
                signed(self.revision.0),
                signed(self.seq.0),
                self.chain,
                signed(self.records.n_rows),
                self.records.sum(),
                signed(self.archive.n_rows),
                self.archive.sum(),
                self.checksum(),
            ])?;
        Ok(())
    }
}

/// Converts a number for SQLite. Numbers above 2^63 become negative, and [`unsigned`] restores
/// them; columns that are sorted by never reach them.
pub fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// Restores a number that [`signed`] converted.
pub fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}
