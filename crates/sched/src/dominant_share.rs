//! The dominant share of a project, compared exactly.

use std::cmp::Ordering;

/// The usage of a project in proportion to its own quota, of the kind where that is largest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DominantShare {
    pub held: u64,
    pub own: u64,
}

impl DominantShare {
    /// The same for all, where it does not count.
    pub const EQUAL: Self = Self { held: 0, own: 1 };
}

impl Ord for DominantShare {
    fn cmp(&self, other: &Self) -> Ordering {
        // Usage of a kind without quota comes last, no usage first.
        let product = |held: u64, own: u64| u128::from(held) * u128::from(own);
        let infinite = |it: &Self| it.own == 0 && it.held > 0;
        match (infinite(self), infinite(other)) {
            (true, true) => self.held.cmp(&other.held),
            (false, false) => {
                product(self.held, other.own.max(1)).cmp(&product(other.held, self.own.max(1)))
            }
            (one, two) => one.cmp(&two),
        }
    }
}

impl PartialOrd for DominantShare {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DominantShare {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for DominantShare {}
