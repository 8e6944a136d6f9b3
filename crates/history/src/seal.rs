//! Sealing: the minutes of an hour become blocks, hours and sums.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use crate::block::{Block, PER_HOUR, Shape};
use crate::codec::Packer;
use crate::error::Error;
use crate::keys::{GROUP, Level, Pending, Stream};
use crate::names;
use crate::recent;
use crate::series::Family;
use crate::time::DAY;
use crate::totals::{Key, NODE, Table, Totals};

/// Seals one part of an hour, in one transaction. Minutes that come after the hour was sealed are
/// merged in the same way.
pub fn seal(
    connection: &mut Connection,
    packer: &mut Packer,
    pending: Pending,
) -> Result<(), Error> {
    let transaction = connection.transaction()?;
    match pending.stream {
        Stream::Values(family) => seal_values(&transaction, packer, family, pending)?,
        Stream::Use => seal_use(&transaction, packer, pending)?,
    }
    let sql = "DELETE FROM recent WHERE id BETWEEN ?1 AND ?2";
    transaction.prepare_cached(sql)?.execute(pending.rows().into_inner())?;
    Ok(transaction.commit()?)
}

fn seal_values(
    connection: &Connection,
    packer: &mut Packer,
    family: Family,
    pending: Pending,
) -> Result<(), Error> {
    let (minutes, hours) = (Level::Minutes(family), Level::Hours(family));
    let day = pending.hour / DAY;
    let slot = (pending.hour % DAY) as usize;
    for (group, block) in merged(connection, packer, family, pending, &|_| true)? {
        write(connection, minutes.row(pending.hour, group), &block.encode(packer)?)?;
        let Some(mut of_day) = read(connection, packer, hours, pending.hour, group, true)? else {
            continue;
        };
        for member in 0..GROUP {
            let ix = member as usize;
            if !block.has(ix) {
                continue;
            }
            names::touch(connection, family.into(), group * GROUP + member, day)?;
            for (series, scale) in family.scales().iter().enumerate() {
                let Some(summary) = block.summary(series, ix, *scale) else { continue };
                for (part, value) in summary.into_iter().enumerate() {
                    of_day.set(series * PER_HOUR + part, ix, slot, value);
                }
            }
        }
        write(connection, hours.row(pending.hour, group), &of_day.encode(packer)?)?;
    }
    Ok(())
}

/// The minutes of an hour and part, sealed ones first, by group.
pub fn merged(
    connection: &Connection,
    packer: &mut Packer,
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
            let group = n / GROUP;
            if let std::collections::btree_map::Entry::Vacant(place) = blocks.entry(group) {
                match read(connection, packer, level, pending.hour, group, true) {
                    Ok(Some(block)) => drop(place.insert(block)),
                    Ok(None) => {}
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(block) = blocks.get_mut(&group) {
                block.fill(series, (n % GROUP) as usize, minute, value);
            }
        })
    })?;
    failed.map_or(Ok(blocks), Err)
}

/// Reads a block. A missing or damaged one is `None`, or an empty one with `or_empty`.
pub fn read(
    connection: &Connection,
    packer: &mut Packer,
    level: Level,
    hour: u32,
    group: u32,
    or_empty: bool,
) -> Result<Option<Block>, Error> {
    let Some(shape) = Shape::of(level) else { return Ok(None) };
    let data = read_data(connection, level.row(hour, group))?;
    let block = data.and_then(|data| Block::decode(shape, &data, packer));
    Ok(block.or_else(|| or_empty.then(|| Block::new(shape))))
}

/// Reads the bytes of a block.
pub fn read_data(connection: &Connection, row: i64) -> Result<Option<Vec<u8>>, Error> {
    let mut statement = connection.prepare_cached("SELECT data FROM block WHERE id = ?1")?;
    Ok(statement.query_row([row], |row| row.get(0)).optional()?)
}

fn write(connection: &Connection, row: i64, data: &[u8]) -> Result<(), Error> {
    let sql = "INSERT OR REPLACE INTO block (id, data) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute((row, data))?;
    Ok(())
}

fn seal_use(connection: &Connection, packer: &mut Packer, pending: Pending) -> Result<(), Error> {
    let (by_node, new) = unsealed_use(connection, packer, pending)?;
    write(connection, Level::NodeTotals.row(pending.hour, pending.part), &by_node.encode(packer)?)?;
    let row = Level::Totals.row(pending.hour, 0);
    let mut all = read_table(connection, packer, row)?;
    for (mut key, totals) in new {
        key[NODE] = 0;
        all.0.entry(key).or_default().totals += totals;
    }
    write(connection, row, &all.encode(packer)?)
}

/// Sums that are not sealed, by key.
pub type New = Vec<(Key, Totals)>;

/// The sums of an hour and part with the minutes that wait to be sealed, and what these add.
pub fn unsealed_use(
    connection: &Connection,
    packer: &mut Packer,
    pending: Pending,
) -> Result<(Table, New), Error> {
    let row = Level::NodeTotals.row(pending.hour, pending.part);
    let mut table = read_table(connection, packer, row)?;
    let mut new = BTreeMap::<Key, Totals>::new();
    recent::each(connection, pending, &mut |data| {
        recent::decode_use(data, &mut |minute, key, used| {
            if let Some(totals) = table.add(minute, key, used) {
                *new.entry(key).or_default() += totals;
            }
        })
    })?;
    Ok((table, new.into_iter().collect()))
}

fn read_table(connection: &Connection, packer: &mut Packer, row: i64) -> Result<Table, Error> {
    let data = read_data(connection, row)?;
    Ok(data.and_then(|data| Table::decode(&data, packer)).unwrap_or_default())
}
