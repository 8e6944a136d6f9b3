//! The free parts that nodes have had, by number: nodes with the same free part are compared once.

use std::collections::BTreeMap;

use super::free_part::FreePart;
use super::reserve::Reserve;

#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// By number.
    all: Vec<FreePart>,
    numbers: BTreeMap<FreePart, usize>,
    /// By number: the tasks of several devices that fit there, as bits.
    hosts: Vec<u64>,
}

impl Parts {
    /// Returns the number of a free part: the next one if it is new.
    pub fn number(&mut self, left: FreePart, reserve: &Reserve) -> usize {
        if let Some(number) = self.numbers.get(&left) {
            return *number;
        }
        let number = self.all.len();
        self.hosts.push(reserve.hosts(&left));
        self.all.push(left.clone());
        self.numbers.insert(left, number);
        number
    }

    /// Returns the free part with a number.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, number: usize) -> &FreePart {
        &self.all[number]
    }

    /// Returns the tasks of several devices that fit there, as bits.
    ///
    /// # Panics
    /// If there is no free part with that number.
    #[must_use]
    pub fn hosts(&self, number: usize) -> u64 {
        self.hosts[number]
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Counts other tasks of several devices from now on.
    pub fn count_for(&mut self, reserve: &Reserve) {
        self.hosts = self.all.iter().map(|left| reserve.hosts(left)).collect();
    }
}
