//! Ratios that are compared exactly, however large their terms. Nothing is rounded here.

use std::cmp::Ordering;

/// A ratio of two counts. Its denominator is not zero.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    over: u128,
    under: u128,
}

impl Ratio {
    #[must_use]
    pub const fn whole(number: u128) -> Self {
        Self { over: number, under: 1 }
    }

    /// `over / under`; `None` if `under` is zero.
    #[must_use]
    pub const fn new(over: u128, under: u128) -> Option<Self> {
        if under == 0 { None } else { Some(Self { over, under }) }
    }

    /// The ratio divided by `divisor`; `None` if that is zero, or the result overflows.
    #[must_use]
    pub fn per(self, divisor: u64) -> Option<Self> {
        Self::new(self.over, self.under.checked_mul(u128::from(divisor))?)
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let ours = self.over.checked_mul(other.under);
        let theirs = other.over.checked_mul(self.under);
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours.cmp(&theirs),
            _ => by_parts(*self, *other),
        }
    }
}

/// Compares the whole parts, then the reciprocals of the rests, as Euclid does: for terms with
/// cross-products that overflow.
pub fn by_parts(mut one: Ratio, mut two: Ratio) -> Ordering {
    loop {
        let whole = (one.over / one.under).cmp(&(two.over / two.under));
        if whole.is_ne() {
            return whole;
        }
        let (rest_one, rest_two) = (one.over % one.under, two.over % two.under);
        match (rest_one, rest_two) {
            (0, 0) => return Ordering::Equal,
            (0, _) => return Ordering::Less,
            (_, 0) => return Ordering::Greater,
            // The larger fraction has the smaller reciprocal, so the two are swapped.
            _ => {
                (one, two) = (
                    Ratio { over: two.under, under: rest_two },
                    Ratio { over: one.under, under: rest_one },
                );
            }
        }
    }
}
