//! The values of one group over an hour or a day.

use crate::codec::{ABSENT, Packer, put, put_column, take, take_column};
use crate::error::Error;
use crate::keys::{GROUP, Level};
use crate::series::Scale;
use crate::time::{DAY, HOUR};

/// Columns of an hour for each series: number of minutes, mean, maximum.
pub const PER_HOUR: usize = 3;

const N_MEMBERS: usize = GROUP as usize;

/// The size of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    n_columns: usize,
    n_slots: usize,
}

impl Shape {
    /// The size of the blocks of a level; `None` for sums, which have another form.
    pub fn of(level: Level) -> Option<Self> {
        match level {
            Level::Minutes(family) => {
                Some(Self { n_columns: family.scales().len(), n_slots: HOUR as usize })
            }
            Level::Hours(family) => {
                let n_columns = family.scales().len() * PER_HOUR;
                Some(Self { n_columns, n_slots: DAY as usize })
            }
            Level::NodeTotals | Level::Totals => None,
        }
    }
}

/// Values by column, member of the group, and slot (a minute of the hour or an hour of the day).
pub struct Block {
    shape: Shape,
    values: Vec<u32>,
}

impl Block {
    /// A block without values.
    pub fn new(shape: Shape) -> Self {
        Self { shape, values: vec![ABSENT; shape.n_columns * N_MEMBERS * shape.n_slots] }
    }

    fn start(&self, column: usize, member: usize) -> usize {
        (column * N_MEMBERS + member) * self.shape.n_slots
    }

    /// The values of one column and member, by slot.
    pub fn slots(&self, column: usize, member: usize) -> &[u32] {
        let start = self.start(column, member);
        &self.values[start..start + self.shape.n_slots]
    }

    /// Replaces a value.
    pub fn set(&mut self, column: usize, member: usize, slot: usize, value: u32) {
        let start = self.start(column, member);
        self.values[start + slot] = value;
    }

    /// Stores a value if there is none: the first measurement stays.
    pub fn fill(&mut self, column: usize, member: usize, slot: usize, value: u32) {
        let ix = self.start(column, member) + slot;
        if self.values[ix] == ABSENT {
            self.values[ix] = value;
        }
    }

    /// True if a member has a value.
    pub fn has(&self, member: usize) -> bool {
        let mut columns = 0..self.shape.n_columns;
        columns.any(|column| self.slots(column, member).iter().any(|value| *value != ABSENT))
    }

    /// Number of minutes, mean and maximum of a column of minutes.
    pub fn summary(&self, column: usize, member: usize, scale: Scale) -> Option<[u32; PER_HOUR]> {
        let present = self.slots(column, member).iter().filter(|value| **value != ABSENT);
        let (mut n, mut sum, mut max) = (0_u32, 0.0, 0);
        for &code in present {
            n += 1;
            sum += scale.value(code);
            max = max.max(code);
        }
        (n > 0).then(|| [n, scale.quantise(Some(sum / f64::from(n))), max])
    }

    /// The block as compressed bytes.
    pub fn encode(&self, packer: &mut Packer) -> Result<Vec<u8>, Error> {
        let members: Vec<usize> = (0..N_MEMBERS).filter(|member| self.has(*member)).collect();
        let mut bytes = Vec::with_capacity(self.values.len() * 2);
        put(&mut bytes, members.iter().map(|member| 1 << member).sum());
        for column in 0..self.shape.n_columns {
            let mut last = 0;
            for &member in &members {
                put_column(&mut bytes, self.slots(column, member), &mut last);
            }
        }
        packer.pack(&bytes)
    }

    /// Reads compressed bytes; `None` if they are damaged.
    pub fn decode(shape: Shape, packed: &[u8], packer: &mut Packer) -> Option<Self> {
        let unpacked = packer.unpack(packed)?;
        let mut bytes = unpacked.as_slice();
        let members = take(&mut bytes)?;
        let mut block = Self::new(shape);
        for column in 0..shape.n_columns {
            let mut last = 0;
            for member in (0..N_MEMBERS).filter(|member| members >> member & 1 == 1) {
                let start = block.start(column, member);
                let slots = &mut block.values[start..start + shape.n_slots];
                take_column(&mut bytes, slots, &mut last)?;
            }
        }
        bytes.is_empty().then_some(block)
    }
}
