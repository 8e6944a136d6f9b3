//! One project in the division of one kind among siblings: its quota, its request and its share.

use gpool_model::{Amount, Weight};

use super::ratio::Ratio;

/// A project among its siblings, for one kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant {
    pub guaranteed: Amount,
    pub limit: Amount,
    /// Its weight in the division of the rest.
    pub weight: Weight,
    /// Higher priorities take all that they request of the rest before lower ones get any.
    pub priority: i32,
    /// Its decayed usage, in millionths of the capacity.
    pub usage: u32,
    /// Its claim: the allocations and pending requests of it and all projects below it, up to its
    /// limit.
    pub claim: u64,
    /// The smallest amount that it can use: 1000 of GPUs if all its jobs request whole ones.
    pub step: u64,
    /// Its share in this cycle.
    pub share: u64,
    /// The part of its guarantee that the capacity covers: less if more is guaranteed than there
    /// is.
    pub safe: Amount,
    /// The part of its claim that it gets whatever others request: whole steps of `safe`; of a
    /// department, the sum over its children.
    pub safe_claim: u64,
}

impl Claimant {
    /// Its claim beyond its share.
    #[must_use]
    pub const fn want(&self) -> u64 {
        self.claim.saturating_sub(self.share)
    }

    /// Whether it takes part in the division of the rest.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.want() > 0 && self.weight.thousandths() > 0
    }
}

/// The influence of past usage on the division of the rest, in thousandths (k of scheduling.md A2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback(u32);

impl Feedback {
    /// Past usage does not count.
    pub const NONE: Self = Self(0);
    /// The usual strength.
    pub const ONE: Self = Self(1000);

    /// Returns the feedback of that many thousandths; `None` above 10 000: beyond that, any usage
    /// would count as too much.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths <= 10_000 { Some(Self(thousandths)) } else { None }
    }

    /// Returns the number that a claimant's part of the rest is proportional to. `total` is the
    /// weight of all open claimants.
    ///
    /// scheduling.md A2: n + k (n - usage), n = weight / total, not below zero. Multiplied by
    /// `total` and by the units of k and usage it is a whole number, so nothing is rounded. Without
    /// any usage all count n (1 + k), in proportion n.
    #[must_use]
    pub fn part(self, claimant: &Claimant, total: u64) -> u64 {
        let weight = i128::from(claimant.weight.thousandths());
        let k = i128::from(self.0);
        let plain = weight * (1000 + k) * MILLIONTHS;
        let used = k * i128::from(claimant.usage) * i128::from(total);
        u64::try_from((plain - used).max(0)).expect("10^9 x 11 000 x 10^6 is below 2^64")
    }

    /// Whether parts are proportional to weights alone.
    #[must_use]
    pub fn is_idle(self, group: &[Claimant]) -> bool {
        self.0 == 0 || group.iter().all(|it| it.usage == 0)
    }
}

const MILLIONTHS: i128 = 1_000_000;

/// A part of a pool, `pool x part / of`, cut down to whole steps.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Whole steps, in the unit of the pool.
    pub whole_part: u64,
    /// The rest; `None` if it is zero.
    pub rest: Option<Ratio>,
}

/// Returns `Ok(true)` if the part is larger than `want`, `Ok(false)` if it equals `want`, else the
/// whole steps of the part.
///
/// # Errors
/// If the part is smaller than `want`.
pub fn cut(pool: u64, part: u64, of: u128, want: u64, step: u64) -> Result<bool, Cut> {
    let product = u128::from(pool) * u128::from(part);
    // A product that overflows is larger than any pool times any part.
    if let Some(needed) = of.checked_mul(u128::from(want))
        && needed <= product
    {
        return Ok(needed < product);
    }
    let whole = of * u128::from(step);
    let (n_steps, rest) = (product / whole, product % whole);
    let whole_part = u64::try_from(n_steps).expect("a part is not larger than the pool") * step;
    Err(Cut { whole_part, rest: if rest == 0 { None } else { Ratio::new(rest, of) } })
}

/// The ranges of equal priority, from the highest.
pub fn groups(level: &[Claimant]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        let first = level.get(next)?;
        let start = next;
        let same = level[start..].iter().take_while(|it| it.priority == first.priority);
        next += same.count();
        Some(start..next)
    })
}
