//! Queries on the archive of ended jobs. Sorted by job number: numbers are assigned in the order of
//! submission, so they make a stable cursor.

use gpool_model::{JobNumber, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use crate::error::ReadError;
use crate::hash::{Checksum, archive_checksum};
use crate::head::{signed, unsigned};
use crate::row::ArchiveEntry;
use crate::schema::has_table;

/// A filter of ended jobs. `None` and empty lists match all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveFilter {
    pub user: Option<String>,
    /// Jobs of one of these projects.
    pub projects: Vec<String>,
    /// Jobs with exactly this name.
    pub name: Option<String>,
    /// Jobs of the groups with this name.
    pub group: Option<String>,
    /// Jobs that ended in one of these states.
    pub states: Vec<String>,
    /// Jobs that ended at this time or later.
    pub since: Option<Timestamp>,
    /// Jobs that ended before this time.
    pub until: Option<Timestamp>,
    /// Jobs with a lower number; the last number of a page is the cursor for the next page.
    pub before: Option<JobNumber>,
    pub limit: u32,
    /// Stops once the jobs have this many bytes together.
    pub bytes_max: Option<usize>,
}

impl ArchiveFilter {
    fn conditions(&self) -> (Vec<String>, Vec<Value>) {
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        let mut also = |condition: &str, value: Value| {
            conditions.push(condition.to_owned());
            values.push(value);
        };
        let of_group = "job IN (SELECT job FROM archive_group WHERE name = ?)";
        let texts = [("user = ?", &self.user), ("name = ?", &self.name), (of_group, &self.group)];
        for (condition, text) in texts {
            if let Some(text) = text {
                also(condition, Value::Text(text.clone()));
            }
        }
        // A number beyond SQLite's range is beyond everything stored.
        let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let numbers = [
            ("ended_at >= ?", self.since.map(Timestamp::get)),
            ("ended_at < ?", self.until.map(Timestamp::get)),
            ("job < ?", self.before.map(|job| job.0)),
        ];
        for (condition, bound) in numbers {
            if let Some(bound) = bound {
                also(condition, number(bound));
            }
        }
        for (column, any) in [("project", &self.projects), ("state", &self.states)] {
            if !any.is_empty() {
                let places = vec!["?"; any.len()].join(", ");
                conditions.push(format!("{column} IN ({places})"));
                values.extend(any.iter().cloned().map(Value::Text));
            }
        }
        (conditions, values)
    }
}

const COLUMNS: &str = "job, ended_at, user, project, name, state, checksum, body";

/// Returns the ended jobs that match `filter`, newest number first.
pub fn list(
    connection: &Connection,
    filter: &ArchiveFilter,
) -> Result<Vec<ArchiveEntry>, ReadError> {
    // A store without groups may lack the table.
    if filter.group.is_some() && !has_table(connection, "archive_group")? {
        return Ok(Vec::new());
    }
    let (conditions, mut values) = filter.conditions();
    let condition = match conditions.len() {
        0 => String::new(),
        _ => format!("WHERE {}", conditions.join(" AND ")),
    };
    values.push(Value::Integer(i64::from(filter.limit)));
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM archive {condition} ORDER BY job DESC LIMIT ?"
    ))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut entries, mut n_bytes) = (Vec::new(), 0);
    while filter.bytes_max.is_none_or(|most| n_bytes < most)
        && let Some(row) = rows.next()?
    {
        let entry = sound(row)?;
        n_bytes += entry.body.len();
        entries.push(entry);
    }
    Ok(entries)
}

pub fn get(connection: &Connection, job: JobNumber) -> Result<Option<ArchiveEntry>, ReadError> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM archive WHERE job = ?1"))?
        .query_row([signed(job.0)], |row| Ok(sound(row)))
        .optional()?
        .transpose()
}

/// Calls `each` for every ended job, with whether its checksum is right, and the checksum.
pub fn for_each(
    connection: &Connection,
    mut each: impl FnMut(ArchiveEntry, bool, &Checksum),
) -> rusqlite::Result<()> {
    // Reads the table itself: an index may lack rows of the table.
    let mut statement =
        connection.prepare(&format!("SELECT {COLUMNS} FROM archive NOT INDEXED"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (entry, checksum) = read(row)?;
        let sound = archive_checksum(&entry) == checksum;
        each(entry, sound, &checksum);
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<(ArchiveEntry, Checksum)> {
    let entry = ArchiveEntry {
        job: JobNumber(unsigned(row, 0)?),
        ended_at: Timestamp::new(unsigned(row, 1)?),
        user: row.get(2)?,
        project: row.get(3)?,
        name: row.get(4)?,
        state: row.get(5)?,
        body: row.get(7)?,
    };
    Ok((entry, row.get(6)?))
}

fn sound(row: &Row<'_>) -> Result<ArchiveEntry, ReadError> {
    let (entry, checksum) = read(row)?;
    if archive_checksum(&entry) != checksum {
        return Err(ReadError::Damaged(format!("archive {}: its checksum differs", entry.job)));
    }
    Ok(entry)
}
