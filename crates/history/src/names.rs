//! Names as small numbers, in the order of their first appearance. Devices of a node and jobs that
//! start together therefore share blocks.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use crate::error::Error;
use crate::series::Family;

/// Longer names are refused.
pub const LENGTH_MAX: usize = 256;

/// Caches with more names are cleared.
const CACHED_MAX: usize = 500_000;

/// Separates job and metric in the name of a user's metric.
const SEPARATOR: char = '\u{1f}';

/// The kinds of names. The numbers are stored; the first three are families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Device = 0,
    Job = 1,
    /// A job and one of its metrics.
    Metric = 2,
    Project = 3,
    User = 4,
    Model = 5,
    /// A kind of job or use.
    Use = 6,
    Node = 7,
    Pool = 8,
}

impl From<Family> for NameKind {
    fn from(family: Family) -> Self {
        match family {
            Family::Device => Self::Device,
            Family::Job => Self::Job,
            Family::Metric => Self::Metric,
        }
    }
}

/// The full name of a user's metric.
pub fn metric(job: &str, name: &str) -> String {
    format!("{job}{SEPARATOR}{name}")
}

/// Most metrics of all elements of an array together.
const OF_ELEMENTS_MAX: u32 = 100_000;

/// The metrics of the elements of an array with their numbers: element, number, name.
pub fn metrics_of_elements(
    connection: &Connection,
    array: &str,
) -> Result<Vec<(String, u32, String)>, Error> {
    let sql = "SELECT n, text FROM name
        WHERE kind = 2 AND text >= ?1 AND text < ?2 ORDER BY text LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    // The character after the point ends the range.
    let range = (format!("{array}."), format!("{array}/"), OF_ELEMENTS_MAX);
    let rows = statement.query_map(range, |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (n, text): (u32, String) = row?;
        if let Some((element, name)) = text.split_once(SEPARATOR) {
            found.push((element.to_owned(), n, name.to_owned()));
        }
    }
    Ok(found)
}

/// The names of a job's metrics with their numbers.
pub fn metrics_of(connection: &Connection, job: &str) -> Result<Vec<(u32, String)>, Error> {
    let first = metric(job, "");
    // The character after the separator ends the range.
    let sql = "SELECT n, substr(text, length(?1) + 1) FROM name
        WHERE kind = 2 AND text >= ?1 AND text < ?2 ORDER BY text";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement
        .query_map((first, format!("{job}\u{20}")), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The day on which a metric last had sealed values, or was new.
pub fn last_day(connection: &Connection, n: u32) -> Result<Option<u32>, Error> {
    let sql = "SELECT last_day FROM name WHERE kind = 2 AND n = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([n], |row| row.get(0)).optional()?)
}

/// The number of a name; `None` if it never appeared.
pub fn find(connection: &Connection, kind: NameKind, text: &str) -> Result<Option<u32>, Error> {
    let sql = "SELECT n FROM name WHERE kind = ?1 AND text = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row((kind as u8, text), |row| row.get(0)).optional()?)
}

/// The name of a number; `?` if it was dropped.
pub fn text_of(connection: &Connection, kind: NameKind, n: u32) -> Result<String, Error> {
    let sql = "SELECT text FROM name WHERE kind = ?1 AND n = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let text = statement.query_row((kind as u8, n), |row| row.get(0)).optional()?;
    Ok(text.unwrap_or_else(|| "?".to_owned()))
}

/// Notes the day on which devices or jobs last had values.
pub fn touch(connection: &Connection, kind: NameKind, n: u32, day: u32) -> Result<(), Error> {
    let sql = "UPDATE name SET last_day = ?3 WHERE kind = ?1 AND n = ?2 AND last_day < ?3";
    connection.prepare_cached(sql)?.execute((kind as u8, n, day))?;
    Ok(())
}

/// Drops at most `limit` names of devices, jobs and metrics without values since `day`. Returns
/// their number.
pub fn drop_before(connection: &Connection, day: u32, limit: u32) -> Result<usize, Error> {
    let sql = "DELETE FROM name WHERE (kind, n) IN (
        SELECT kind, n FROM name WHERE kind <= 2 AND last_day < ?1 LIMIT ?2)";
    Ok(connection.prepare_cached(sql)?.execute((day, limit))?)
}

/// The writer's numbers of names.
#[derive(Default)]
pub struct Names {
    cached: [HashMap<Box<str>, u32>; 9],
}

impl Names {
    /// Forgets all numbers, after a failed transaction or dropped names.
    pub fn clear(&mut self) {
        self.cached.iter_mut().for_each(HashMap::clear);
    }

    /// The number of a name, if it is known already.
    pub fn find_number(
        &mut self,
        connection: &Connection,
        kind: NameKind,
        text: &str,
    ) -> Result<Option<u32>, Error> {
        let cached = &mut self.cached[kind as usize];
        if let Some(n) = cached.get(text) {
            return Ok(Some(*n));
        }
        let found = find(connection, kind, text)?;
        if let Some(n) = found {
            if cached.len() >= CACHED_MAX {
                cached.clear();
            }
            cached.insert(Box::from(text), n);
        }
        Ok(found)
    }

    /// The number of a name, a new one if needed.
    pub fn number(
        &mut self,
        connection: &Connection,
        kind: NameKind,
        text: &str,
        day: u32,
    ) -> Result<u32, Error> {
        if let Some(n) = self.find_number(connection, kind, text)? {
            return Ok(n);
        }
        let sql = "INSERT INTO name (kind, n, text, last_day)
            SELECT ?1, ifnull(max(n), -1) + 1, ?2, ?3 FROM name WHERE kind = ?1 RETURNING n";
        let mut statement = connection.prepare_cached(sql)?;
        let n = statement.query_row((kind as u8, text, day), |row| row.get(0))?;
        self.cached[kind as usize].insert(Box::from(text), n);
        Ok(n)
    }
}
