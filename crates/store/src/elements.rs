//! Ended elements of arrays: written beside the archive, queried by array.

use gpool_model::{JobNumber, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::ReadError;
use crate::hash::{Checksum, element_checksum};
use crate::head::{Head, signed, unsigned};
use crate::row::ElementEntry;

const COLUMNS: &str = "job, element, attempt, ended_at, state, checksum, body";

/// Writes an entry and adds it to the head's digest.
pub fn insert(
    connection: &Connection,
    head: &mut Head,
    entry: &ElementEntry,
) -> rusqlite::Result<()> {
    let checksum = element_checksum(entry);
    connection
        .prepare_cached(&format!(
            "INSERT INTO element ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        ))?
        .execute(params![
            signed(entry.job.0),
            entry.element,
            entry.attempt,
            signed(entry.ended_at.get()),
            entry.state,
            checksum,
            entry.body,
        ])?;
    head.archive.add(&checksum);
    Ok(())
}

/// Returns the last ended attempt of an element.
pub fn last(
    connection: &Connection,
    job: JobNumber,
    element: u32,
) -> Result<Option<ElementEntry>, ReadError> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM element WHERE job = ?1 AND element = ?2 \
             ORDER BY attempt DESC LIMIT 1"
        ))?
        .query_row(params![signed(job.0), element], |row| Ok(sound(row)))
        .optional()?
        .transpose()
}

/// Returns the last ended attempts of an array's elements from an index on, at most `limit`.
pub fn list(
    connection: &Connection,
    job: JobNumber,
    from: u32,
    limit: u32,
) -> Result<Vec<ElementEntry>, ReadError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM element AS one WHERE job = ?1 AND element >= ?2 \
         AND attempt = (SELECT max(attempt) FROM element \
                        WHERE job = one.job AND element = one.element) \
         ORDER BY element LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![signed(job.0), from, limit])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(sound(row)?);
    }
    Ok(entries)
}

/// Returns the arrays with ended elements.
pub fn arrays(connection: &Connection) -> rusqlite::Result<Vec<JobNumber>> {
    let mut statement = connection.prepare("SELECT DISTINCT job FROM element ORDER BY job")?;
    let rows = statement.query_map([], |row| Ok(JobNumber(unsigned(row, 0)?)))?;
    rows.collect()
}

/// Calls `each` for every entry, with whether its checksum is right, and the checksum.
pub fn for_each(
    connection: &Connection,
    mut each: impl FnMut(ElementEntry, bool, &Checksum),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM element"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (entry, checksum) = read(row)?;
        let sound = element_checksum(&entry) == checksum;
        each(entry, sound, &checksum);
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<(ElementEntry, Checksum)> {
    let entry = ElementEntry {
        job: JobNumber(unsigned(row, 0)?),
        element: row.get(1)?,
        attempt: row.get(2)?,
        ended_at: Timestamp::new(unsigned(row, 3)?),
        state: row.get(4)?,
        body: row.get(6)?,
    };
    Ok((entry, row.get(5)?))
}

fn sound(row: &Row<'_>) -> Result<ElementEntry, ReadError> {
    let (entry, checksum) = read(row)?;
    if element_checksum(&entry) != checksum {
        let (job, element) = (entry.job, entry.element);
        return Err(ReadError::Damaged(format!("element {job}.{element}: its checksum differs")));
    }
    Ok(entry)
}
