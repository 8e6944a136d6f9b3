//! The values of a device, job or metric over an hour or a day.

use crate::codec::{close, open, put_column, take_column};
use crate::keys::Level;
use crate::series::Scale;
use crate::time::{DAY, HOUR};

/// Columns of an hour for each series: number of minutes, mean, maximum.
pub const PER_HOUR: usize = 3;

/// Values by column and slot: a minute of the hour, or an hour of the day.
pub struct Block {
    n_slots: usize,
    values: Vec<Option<u32>>,
}

impl Block {
    /// A block of this level without values.
    pub fn new(level: Level) -> Self {
        let (n_columns, n_slots) = match level {
            Level::Minutes(family) => (family.scales().len(), HOUR as usize),
            Level::Hours(family) => (family.scales().len() * PER_HOUR, DAY as usize),
            Level::NodeTotals | Level::Totals => (0, 1),
        };
        Self { n_slots, values: vec![None; n_columns * n_slots] }
    }

    pub fn slots(&self, column: usize) -> &[Option<u32>] {
        &self.values[column * self.n_slots..][..self.n_slots]
    }

    pub fn set(&mut self, column: usize, slot: usize, value: u32) {
        self.values[column * self.n_slots + slot] = Some(value);
    }

    /// Stores a value if there is none: the first measurement stays.
    pub fn fill(&mut self, column: usize, slot: usize, value: u32) {
        self.values[column * self.n_slots + slot].get_or_insert(value);
    }

    /// Number of minutes, mean and maximum of a column of minutes.
    pub fn summary(&self, column: usize, scale: Scale) -> Option<[u32; PER_HOUR]> {
        let present = || self.slots(column).iter().flatten();
        let n = u32::try_from(present().count()).unwrap_or(0);
        let sum: f64 = present().map(|code| scale.value(*code)).sum();
        Some([n, scale.quantise(sum / f64::from(n))?, *present().max()?])
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for slots in self.values.chunks(self.n_slots) {
            put_column(&mut bytes, self.n_slots, &|slot| slots[slot].map(u64::from));
        }
        close(bytes)
    }

    /// Reads bytes; `None` if they are damaged.
    pub fn decode(level: Level, bytes: &[u8]) -> Option<Self> {
        let mut bytes = open(bytes)?;
        let mut block = Self::new(level);
        for slots in block.values.chunks_mut(block.n_slots) {
            take_column(&mut bytes, slots.len(), &mut |slot, value| {
                slots[slot] = u32::try_from(value).ok();
            })?;
        }
        bytes.is_empty().then_some(block)
    }
}
