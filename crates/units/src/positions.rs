//! Sets of elements of an array by position: the first element is at position 0, whatever its
//! index. Small if the elements are adjacent.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::parse::ParseError;

/// A set of elements of an array, by position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Positions {
    // Invariant: first to last of each range; between two ranges at least one position is missing.
    ranges: BTreeMap<u32, u32>,
    len: u32,
}

impl Positions {
    /// The first `n` positions.
    #[must_use]
    pub fn first_n(n: u32) -> Self {
        let mut positions = Self::default();
        if let Some(last) = n.checked_sub(1) {
            positions.ranges.insert(0, last);
            positions.len = n;
        }
        positions
    }

    /// The number of positions.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it contains a position.
    #[must_use]
    pub fn contains(&self, position: u32) -> bool {
        self.range_of(position).is_some()
    }

    /// The first position after the given one, or the first of all.
    #[must_use]
    pub fn next_after(&self, position: Option<u32>) -> Option<u32> {
        let from = match position {
            None => 0,
            Some(position) => position.checked_add(1)?,
        };
        if self.contains(from) {
            return Some(from);
        }
        self.ranges.range(from..).next().map(|(first, _)| *first)
    }

    /// The number of smaller positions.
    #[must_use]
    pub fn n_before(&self, position: u32) -> u32 {
        let before = self.ranges.range(..position);
        before.map(|(first, last)| (*last).min(position - 1) - first + 1).sum()
    }

    /// Inserts a position; `false` if it was there.
    pub fn insert(&mut self, position: u32) -> bool {
        if self.contains(position) {
            return false;
        }
        let (mut first, mut last) = (position, position);
        if let Some(before) = position.checked_sub(1)
            && let Some((start, _)) = self.range_of(before)
        {
            self.ranges.remove(&start);
            first = start;
        }
        if let Some(after) = position.checked_add(1)
            && let Some(end) = self.ranges.remove(&after)
        {
            last = end;
        }
        self.ranges.insert(first, last);
        self.len += 1;
        true
    }

    /// Removes a position; `false` if it was not there.
    pub fn remove(&mut self, position: u32) -> bool {
        let Some((first, last)) = self.range_of(position) else {
            return false;
        };
        self.ranges.remove(&first);
        if first < position {
            self.ranges.insert(first, position - 1);
        }
        if position < last {
            self.ranges.insert(position + 1, last);
        }
        self.len -= 1;
        true
    }

    /// Inserts all positions of another set.
    pub fn extend(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        for position in other.iter() {
            self.insert(position);
        }
    }

    /// Removes all positions of another set.
    pub fn subtract(&mut self, other: &Self) {
        if self.len == other.len && self == other {
            *self = Self::default();
            return;
        }
        for position in other.iter() {
            self.remove(position);
        }
    }

    /// The positions in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// The first and last position of each range.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    fn range_of(&self, position: u32) -> Option<(u32, u32)> {
        let (first, last) = self.ranges.range(..=position).next_back()?;
        (position <= *last).then_some((*first, *last))
    }
}

impl FromIterator<u32> for Positions {
    fn from_iter<I: IntoIterator<Item = u32>>(positions: I) -> Self {
        let mut all = Self::default();
        for position in positions {
            all.insert(position);
        }
        all
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Positions {
    type Err = ParseError;

    /// Reads only the displayed form of a set: ranges in ascending order, not adjacent.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut positions = Self::default();
        let mut least = 0;
        let mut at = 0;
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let bad = || ParseError::new("a set of positions", text, at, "0-56,60");
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| -> Result<u32, ParseError> {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|n| digits && *n < u32::MAX - 1).ok_or_else(bad)
            };
            let (first, last) = (number(first)?, number(last)?);
            if first < least || last < first {
                return Err(bad());
            }
            positions.ranges.insert(first, last);
            positions.len += last - first + 1;
            // An adjacent range would belong to this one.
            least = last + 2;
            at += part.len() + 1;
        }
        Ok(positions)
    }
}

impl Serialize for Positions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Positions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
