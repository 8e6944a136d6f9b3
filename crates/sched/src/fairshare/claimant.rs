//! One project in the division of one kind among siblings: what is agreed, what it asks for now,
//! and what it is given.

use gpool_model::{Amount, Weight};

use super::ratio::Ratio;

/// A project among its siblings, for one kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant {
    /// What it gets whenever it asks.
    pub guaranteed: Amount,
    /// What it never exceeds.
    pub limit: Amount,
    /// Its part of what is left over.
    pub weight: Weight,
    /// Higher takes all it can of what is left over before lower sees any.
    pub priority: i32,
    /// What it used lately, in millionths of all there is; decayed by whoever measures it.
    pub usage: u32,
    /// What it may ask for: what it and all below it hold and wait for, up to its limit.
    pub claim: u64,
    /// The smallest amount that is of use to it: of GPUs, 1000 where all its jobs ask for whole
    /// ones.
    pub step: u64,
    /// What it may have in this cycle.
    pub share: u64,
    /// The part of what it is guaranteed that can be kept: less where more is promised than there
    /// is.
    pub safe: Amount,
    /// The part of its claim that it gets whatever others ask for: of what is safe, whole steps; of
    /// a department, what its children have of it together.
    pub kept: u64,
}

impl Claimant {
    /// What it asks for beyond its share.
    #[must_use]
    pub const fn want(&self) -> u64 {
        self.claim.saturating_sub(self.share)
    }

    /// True if it is among those to whom what is left over is given.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.want() > 0 && self.weight.thousandths() > 0
    }
}

/// How strongly what projects used lately moves what they get of what is left over, in thousandths
/// (k of SCHEDULING A2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback(u32);

impl Feedback {
    /// What was used lately does not matter.
    pub const NONE: Self = Self(0);
    /// The usual strength.
    pub const ONE: Self = Self(1000);

    /// So many thousandths; `None` above 10 000: beyond, any use at all would count as too much.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths <= 10_000 { Some(Self(thousandths)) } else { None }
    }

    /// What each claimant's part of the rest is in proportion to, where `total` is the weight of
    /// all that still ask.
    ///
    /// SCHEDULING A2: n + k (n - usage), n = weight / total, not below zero. Multiplied by `total`
    /// and by the units of k and usage it is a whole number, so nothing is rounded. Who used
    /// nothing counts n (1 + k), in proportion n where nobody used anything.
    #[must_use]
    pub fn part(self, claimant: &Claimant, total: u64) -> u64 {
        let weight = i128::from(claimant.weight.thousandths());
        let k = i128::from(self.0);
        let plain = weight * (1000 + k) * MILLIONTHS;
        let used = k * i128::from(claimant.usage) * i128::from(total);
        u64::try_from((plain - used).max(0)).expect("10^9 x 11 000 x 10^6 is below 2^64")
    }

    /// True if parts are in proportion to weights alone.
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
    pub given: u64,
    /// What was cut off; `None` if nothing was.
    pub rest: Option<Ratio>,
}

/// `Ok(true)` if the part is larger than `want`, `Ok(false)` if it is exactly that; else as much
/// of the part as makes whole steps.
pub fn cut(pool: u64, part: u64, of: u128, want: u64, step: u64) -> Result<bool, Cut> {
    let product = u128::from(pool) * u128::from(part);
    // Where the product can't be written down it is larger than any pool times any part.
    if let Some(needed) = of.checked_mul(u128::from(want))
        && needed <= product
    {
        return Ok(needed < product);
    }
    let whole = of * u128::from(step);
    let (n_steps, rest) = (product / whole, product % whole);
    let given = u64::try_from(n_steps).expect("a part is not larger than the pool") * step;
    Err(Cut { given, rest: if rest == 0 { None } else { Ratio::new(rest, of) } })
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
