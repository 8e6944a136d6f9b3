//! Sealing: the minutes of an hour become blocks, hours and sums.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rusqlite::{Connection, OptionalExtension};

use crate::block::{Block, PER_HOUR};
use crate::error::Error;
use crate::keys::{Level, Pending, Stream};
use crate::names;
use crate::recent;
use crate::series::Family;
use crate::time::DAY;
use crate::totals::{HourSums, JOB, Key, NODE, Totals};

/// Seals one part of an hour, in one transaction. Minutes that come after the hour was sealed are
/// merged in the same way.
pub fn seal(connection: &mut Connection, pending: Pending) -> Result<(), Error> {
    let transaction = connection.transaction()?;
    match pending.stream {
        Stream::Values(family) => seal_values(&transaction, family, pending)?,
        Stream::Use => seal_use(&transaction, pending)?,
    }
    let sql = "DELETE FROM recent WHERE id BETWEEN ?1 AND ?2";
    transaction.prepare_cached(sql)?.execute(pending.rows().into_inner())?;
    Ok(transaction.commit()?)
}

fn seal_values(connection: &Connection, family: Family, pending: Pending) -> Result<(), Error> {
    let hour = pending.hour;
    let slot = (hour % DAY) as usize;
    for (n, block) in merged(connection, family, pending, &|_| true)? {
        write(connection, Level::Minutes(family).row(hour, n), &block.encode())?;
        let level = Level::Hours(family);
        let of_day = read(connection, level, hour, n)?;
        let mut of_day = of_day.unwrap_or_else(|| Block::new(level));
        for (series, scale) in family.scales().iter().enumerate() {
            for (part, value) in block.summary(series, *scale).into_iter().flatten().enumerate() {
                of_day.set(series * PER_HOUR + part, slot, value);
            }
        }
        write(connection, level.row(hour, n), &of_day.encode())?;
        names::touch(connection, family.into(), n, hour / DAY)?;
    }
    Ok(())
}

/// The minutes of an hour and part, sealed ones first, by number of the name.
pub fn merged(
    connection: &Connection,
    family: Family,
    pending: Pending,
    wants: &dyn Fn(u32) -> bool,
) -> Result<BTreeMap<u32, Block>, Error> {
    let level = Level::Minutes(family);
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    let n_series = family.scales().len();
    let mut failed = None;
    recent::each(connection, pending, &mut |data| {
        recent::decode_values(data, n_series, wants, &mut |n, minute, series, value| {
            let block = match blocks.entry(n) {
                Entry::Occupied(block) => block.into_mut(),
                Entry::Vacant(place) => place.insert(
                    read(connection, level, pending.hour, n)
                        .unwrap_or_else(|error| {
                            failed = Some(error);
                            None
                        })
                        .unwrap_or_else(|| Block::new(level)),
                ),
            };
            block.fill(series, minute, value);
        })
    })?;
    failed.map_or(Ok(blocks), Err)
}

/// Reads a block; `None` if it is missing or damaged.
pub fn read(
    connection: &Connection,
    level: Level,
    hour: u32,
    n: u32,
) -> Result<Option<Block>, Error> {
    let mut statement = connection.prepare_cached("SELECT data FROM block WHERE id = ?1")?;
    let mut rows = statement.query([level.row(hour, n)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Block::decode(level, row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?))
}

fn write(connection: &Connection, row: i64, data: &[u8]) -> Result<(), Error> {
    let sql = "INSERT OR REPLACE INTO block (id, data) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute((row, data))?;
    Ok(())
}

fn seal_use(connection: &Connection, pending: Pending) -> Result<(), Error> {
    let (by_node, new) = unsealed_use(connection, pending)?;
    write(connection, Level::NodeTotals.row(pending.hour, pending.part), &by_node.encode())?;
    let row = Level::Totals.row(pending.hour, 0);
    let mut all = read_table(connection, row)?;
    for (mut key, totals) in new {
        (key[NODE], key[JOB]) = (0, 0);
        all.0.entry(key).or_default().totals += totals;
    }
    write(connection, row, &all.encode())
}

/// The sums of an hour and part with the minutes that wait to be sealed, and the part of these.
pub fn unsealed_use(
    connection: &Connection,
    pending: Pending,
) -> Result<(HourSums, BTreeMap<Key, Totals>), Error> {
    let mut table = read_table(connection, Level::NodeTotals.row(pending.hour, pending.part))?;
    let mut new = BTreeMap::<Key, Totals>::new();
    recent::each(connection, pending, &mut |data| {
        recent::decode_use(data, &mut |minute, key, totals| {
            if table.add(minute, key, totals) {
                *new.entry(key).or_default() += totals;
            }
        })
    })?;
    Ok((table, new))
}

fn read_table(connection: &Connection, row: i64) -> Result<HourSums, Error> {
    let mut statement = connection.prepare_cached("SELECT data FROM block WHERE id = ?1")?;
    let data: Option<Vec<u8>> = statement.query_row([row], |row| row.get(0)).optional()?;
    Ok(data.and_then(|data| HourSums::decode(&data)).unwrap_or_default())
}
