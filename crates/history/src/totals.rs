//! Sums of an hour for reports.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::codec::{close, open, put_column, put_varint, take_column, take_varint};

/// Project, user, model, kind, node, pool and job as numbers of names plus one. The node 0 means
/// all nodes, the job 0 all jobs. The pool 0 was not recorded.
pub type Key = [u32; N_KEY];

/// Number of names in a key.
const N_KEY: usize = 7;
/// The place of the node in a key.
pub const NODE: usize = 4;
/// The place of the job in a key.
pub const JOB: usize = 6;

/// Columns of a stored row: five names, minutes, sums, and then those that came later: pool, job,
/// energy, waiting time, guaranteed time.
const N_COLUMNS: usize = 17;
/// Columns that each row has. Older rows end after them.
const N_FIRST: usize = 11;

/// GPU time of a range, in milliseconds of one GPU. Busy and useful time come with the allocated
/// time that has such a measurement, so ratios are right even if some devices measure nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub allocated_ms: u64,
    pub busy_ms: u64,
    /// Allocated time with a measurement of busy time; 0 if there was none.
    pub busy_of_ms: u64,
    pub useful_ms: u64,
    /// Allocated time with a measurement of useful time; 0 if there was none.
    pub useful_of_ms: u64,
    pub energy_j: u64,
    /// Allocated time with a measurement of energy; 0 if there was none.
    pub energy_of_ms: u64,
    /// Requested GPUs times the time that jobs waited for capacity.
    pub waited_ms: u64,
    /// Guaranteed GPUs times the time of the guarantee.
    pub guaranteed_ms: u64,
}

impl Totals {
    /// All sums, in the order of the columns.
    pub(crate) fn parts(self) -> [u64; 9] {
        [
            self.allocated_ms,
            self.busy_ms,
            self.busy_of_ms,
            self.useful_ms,
            self.useful_of_ms,
            self.energy_j,
            self.energy_of_ms,
            self.waited_ms,
            self.guaranteed_ms,
        ]
    }

    /// The sums in the order of [`Totals::parts`].
    pub(crate) fn of_parts(parts: [u64; 9]) -> Self {
        let [allocated_ms, busy_ms, busy_of_ms, useful_ms, useful_of_ms, rest @ ..] = parts;
        let [energy_j, energy_of_ms, waited_ms, guaranteed_ms] = rest;
        Self {
            allocated_ms,
            busy_ms,
            busy_of_ms,
            useful_ms,
            useful_of_ms,
            energy_j,
            energy_of_ms,
            waited_ms,
            guaranteed_ms,
        }
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        let (mut parts, others) = (self.parts(), other.parts());
        for (part, more) in parts.iter_mut().zip(others) {
            *part = part.saturating_add(more);
        }
        *self = Self::of_parts(parts);
    }
}

/// The sums of one key in one hour.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeySums {
    /// A bit for each minute that is in the sums, so that no minute counts twice.
    pub minutes: u64,
    pub totals: Totals,
}

#[derive(Debug, Default)]
pub struct HourSums(pub BTreeMap<Key, KeySums>);

impl HourSums {
    /// Adds a minute; false if the minute is there already.
    pub fn add(&mut self, minute: usize, key: Key, totals: Totals) -> bool {
        let row = self.0.entry(key).or_default();
        let bit = 1 << minute;
        let is_new = row.minutes & bit == 0;
        if is_new {
            row.minutes |= bit;
            row.totals += totals;
        }
        is_new
    }

    pub fn encode(&self) -> Vec<u8> {
        let rows: Vec<_> = self.0.iter().map(|(key, row)| cells(key, row)).collect();
        let mut bytes = Vec::new();
        put_varint(&mut bytes, rows.len() as u64);
        for column in 0..N_COLUMNS {
            put_column(&mut bytes, rows.len(), &|ix| Some(rows[ix][column]));
        }
        close(bytes)
    }

    /// Reads bytes; `None` if they are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut table = Self::default();
        each_row(bytes, &mut |key, row| {
            table.0.insert(key, row);
        })?;
        Some(table)
    }
}

/// Reads the rows of bytes; `None`, before any row, if they are damaged.
pub fn each_row(bytes: &[u8], see: &mut dyn FnMut(Key, KeySums)) -> Option<()> {
    let mut bytes = open(bytes)?;
    let n_rows = usize::try_from(take_varint(&mut bytes)?).ok()?;
    let mut columns = [const { Vec::new() }; N_COLUMNS];
    for (ix, column) in columns.iter_mut().enumerate() {
        if ix >= N_FIRST && bytes.is_empty() {
            column.resize(n_rows, 0);
            continue;
        }
        take_column(&mut bytes, n_rows, &mut |_, value| column.push(value))?;
        if column.len() != n_rows {
            return None;
        }
    }
    (0..n_rows).for_each(|ix| {
        let row: [u64; N_COLUMNS] = std::array::from_fn(|column| columns[column][ix]);
        let [project, user, model, kind, node, minutes, a, b, c, d, e, pool, job, f, g, h, i] = row;
        let number = |value: u64| u32::try_from(value).unwrap_or(0);
        let key = [project, user, model, kind, node, pool, job].map(number);
        let totals = Totals::of_parts([a, b, c, d, e, f, g, h, i]);
        see(key, KeySums { minutes, totals });
    });
    Some(())
}

fn cells(key: &Key, row: &KeySums) -> [u64; N_COLUMNS] {
    let [project, user, model, kind, node, pool, job] = key.map(u64::from);
    let [a, b, c, d, e, f, g, h, i] = row.totals.parts();
    [project, user, model, kind, node, row.minutes, a, b, c, d, e, pool, job, f, g, h, i]
}
