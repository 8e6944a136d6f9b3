//! The row IDs of the tables. An hour's rows are next to each other, so that writing appends, and
//! dropping an hour frees whole pages.

use std::ops::RangeInclusive;

use crate::series::Family;

/// Devices or jobs that are sealed together.
pub const PART: u32 = 1024;
/// Nodes of one block of sums.
pub const NODES: u32 = 128;

/// The streams of `recent`: the families, and use for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    Values(Family),
    /// Use for reports.
    Use,
}

impl Stream {
    pub const ALL: [Self; 4] = [
        Self::Values(Family::Device),
        Self::Values(Family::Job),
        Self::Values(Family::Metric),
        Self::Use,
    ];

    fn number(self) -> i64 {
        match self {
            Self::Values(family) => family as i64,
            Self::Use => 3,
        }
    }
}

/// The rows of one stream, hour and part that wait to be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    pub stream: Stream,
    /// The hour since 1970.
    pub hour: u32,
    /// [`PART`] devices or jobs, or [`NODES`] nodes.
    pub part: u32,
}

const SEQUENCE_BITS: u32 = 16;
const PART_BITS: u32 = 22;

impl Pending {
    /// The row IDs of `recent`.
    pub fn rows(self) -> RangeInclusive<i64> {
        let part = i64::from(self.part) & ((1 << PART_BITS) - 1);
        let first = Self::hour_start(self.stream, self.hour) | part << SEQUENCE_BITS;
        first..=first | ((1 << SEQUENCE_BITS) - 1)
    }

    /// The first row ID of an hour.
    pub fn hour_start(stream: Stream, hour: u32) -> i64 {
        stream.number() << 60 | i64::from(hour) << (PART_BITS + SEQUENCE_BITS)
    }

    /// Reads a row ID of `recent`.
    pub fn of_row(stream: Stream, row: i64) -> Self {
        let bits =
            |shift: u32, n: u32| u32::try_from(row >> shift & ((1 << n) - 1)).unwrap_or_default();
        Self {
            stream,
            hour: bits(PART_BITS + SEQUENCE_BITS, 22),
            part: bits(SEQUENCE_BITS, PART_BITS),
        }
    }
}

/// The kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The minutes of an hour.
    Minutes(Family),
    /// The hours of a day.
    Hours(Family),
    /// Sums of an hour by all names.
    NodeTotals,
    /// Sums of an hour by all names except node and job.
    Totals,
}

impl Level {
    pub const ALL: [Self; 8] = [
        Self::Minutes(Family::Device),
        Self::Minutes(Family::Job),
        Self::Minutes(Family::Metric),
        Self::Hours(Family::Device),
        Self::Hours(Family::Job),
        Self::Hours(Family::Metric),
        Self::NodeTotals,
        Self::Totals,
    ];

    fn number(self) -> i64 {
        match self {
            Self::Minutes(family) => family as i64,
            Self::Hours(family) => 3 + family as i64,
            Self::NodeTotals => 6,
            Self::Totals => 7,
        }
    }

    /// Number of hours that a block covers.
    pub fn hours(self) -> u32 {
        match self {
            Self::Hours(_) => crate::time::DAY,
            Self::Minutes(_) | Self::NodeTotals | Self::Totals => 1,
        }
    }

    /// The row ID of the block that covers an hour, of a device, a job or a part of the nodes.
    pub fn row(self, hour: u32, n: u32) -> i64 {
        self.number() << 60 | i64::from(hour / self.hours()) << 32 | i64::from(n)
    }

    /// The row IDs of all blocks that cover an hour.
    pub fn rows(self, hour: u32) -> RangeInclusive<i64> {
        self.row(hour, 0)..=self.row(hour, u32::MAX)
    }

    /// The row IDs of all blocks of the level.
    pub fn all_rows(self) -> RangeInclusive<i64> {
        self.number() << 60..=self.number() << 60 | ((1 << 60) - 1)
    }

    /// The first hour of the block with this row ID.
    pub fn hour_of(self, row: i64) -> u32 {
        let start = u32::try_from(row >> 32 & ((1 << 28) - 1)).unwrap_or_default();
        start.saturating_mul(self.hours())
    }
}
