//! Minutes as they came: one row for each call of `append`, stream and part.

use rusqlite::{Connection, OptionalExtension};

use crate::codec::{put_varint, take_u32, take_varint};
use crate::error::Error;
use crate::keys::{Pending, Stream};
use crate::totals::{Key, NODE, Totals};

/// Values of one device, job or metric.
pub type Member = (u32, Box<[Option<u32>]>);

/// Encodes values of one minute; `members` are sorted by number.
pub fn encode_values(minute: u32, members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut of_member = Vec::new();
    put_varint(&mut bytes, u64::from(minute));
    let mut last = 0;
    for (n, values) in members {
        of_member.clear();
        for &value in values {
            // Absent values become zero, the shortest.
            put_varint(&mut of_member, value.map_or(0, |value| u64::from(value) + 1));
        }
        put_varint(&mut bytes, u64::from(n - last));
        put_varint(&mut bytes, of_member.len() as u64);
        bytes.extend_from_slice(&of_member);
        last = *n;
    }
    bytes
}

/// Reads values of the members that `wants` accepts: member, minute of the hour, series, value.
/// `None` if the bytes are damaged.
pub fn decode_values(
    mut bytes: &[u8],
    n_series: usize,
    wants: &dyn Fn(u32) -> bool,
    see: &mut dyn FnMut(u32, usize, usize, u32),
) -> Option<()> {
    let minute = usize::try_from(take_varint(&mut bytes)?).ok().filter(|minute| *minute < 60)?;
    let mut n = 0_u32;
    while !bytes.is_empty() {
        n = n.checked_add(take_u32(&mut bytes)?)?;
        let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
        let (mut of_member, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        if !wants(n) {
            continue;
        }
        for series in 0..n_series {
            if let Some(value) = take_u32(&mut of_member)?.checked_sub(1) {
                see(n, minute, series, value);
            }
        }
    }
    Some(())
}

/// The form of use, above the minute. Older versions wrote the first two: rows of the first lack
/// pool, job, energy and waiting time, those of the second guaranteed time. They wait to be sealed.
const FORM: u32 = 64;
/// The names and sums of a row in each form.
const FORMS: [(usize, usize); 3] = [(NODE + 1, 5), (7, 8), (7, 9)];

pub fn encode_use<'a>(minute: u32, rows: impl Iterator<Item = (&'a Key, &'a Totals)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::from(minute + 2 * FORM));
    for (key, totals) in rows {
        key.iter().for_each(|part| put_varint(&mut bytes, u64::from(*part)));
        totals.parts().into_iter().for_each(|sum| put_varint(&mut bytes, sum));
    }
    bytes
}

/// Reads use of one minute. `None` if the bytes are damaged.
pub fn decode_use(mut bytes: &[u8], see: &mut dyn FnMut(usize, Key, Totals)) -> Option<()> {
    let head = take_u32(&mut bytes)?;
    let (n_key, n_sums) = *FORMS.get(usize::try_from(head / FORM).ok()?)?;
    let minute = usize::try_from(head % FORM).ok().filter(|minute| *minute < 60)?;
    while !bytes.is_empty() {
        let (mut key, mut sums) = (Key::default(), Totals::default().parts());
        for part in &mut key[..n_key] {
            *part = take_u32(&mut bytes)?;
        }
        for sum in &mut sums[..n_sums] {
            *sum = take_varint(&mut bytes)?;
        }
        see(minute, key, Totals::of_parts(sums));
    }
    Some(())
}

/// Adds a row. False if this hour and part have their largest number of rows.
pub fn add(connection: &Connection, pending: Pending, data: &[u8]) -> Result<bool, Error> {
    let (first, last) = pending.rows().into_inner();
    let sql = "SELECT max(id) FROM recent WHERE id BETWEEN ?1 AND ?2";
    let used: Option<i64> =
        connection.prepare_cached(sql)?.query_row((first, last), |row| row.get(0))?;
    let id = used.map_or(first, |id| id + 1);
    if id > last {
        return Ok(false);
    }
    let sql = "INSERT INTO recent (id, data) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute((id, data))?;
    Ok(true)
}

/// Reads the rows of an hour and part, first written first.
pub fn each(
    connection: &Connection,
    pending: Pending,
    see: &mut dyn FnMut(&[u8]) -> Option<()>,
) -> Result<(), Error> {
    let sql = "SELECT data FROM recent WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(pending.rows().into_inner())?;
    while let Some(row) = rows.next()? {
        let data = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        // A damaged row ends early: the values before the damage are used.
        let _ = see(data);
    }
    Ok(())
}

/// The hours and parts of a stream that wait to be sealed, within hours.
pub fn pending(
    connection: &Connection,
    stream: Stream,
    hours: std::ops::Range<u32>,
) -> Result<Vec<Pending>, Error> {
    let sql = "SELECT id FROM recent WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut at = Pending::hour_start(stream, hours.start);
    let end = Pending::hour_start(stream, hours.end);
    let mut found = Vec::new();
    while let Some(id) = statement.query_row((at, end), |row| row.get(0)).optional()? {
        let pending = Pending::of_row(stream, id);
        at = pending.rows().end() + 1;
        found.push(pending);
    }
    Ok(found)
}
