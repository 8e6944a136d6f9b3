//! What was used lately: GPU-time of which half counts after each half-life. In whole numbers, so
//! that it is the same wherever it is worked out.

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;
use crate::unit::{GpuTime, MilliGpu, Millis, Timestamp};

/// What the jobs of one user in one project have used, as it was at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Who was charged.
    pub project: ProjectName,
    /// Whose jobs.
    pub uid: u32,
    /// GPU-time, decayed.
    pub amount: GpuTime,
    /// When it was that.
    pub at: Timestamp,
}

impl Used {
    /// Where it is kept.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(self.uid, &self.project)
    }

    /// Where what a user has used in a project is kept.
    #[must_use]
    pub fn key_of(uid: u32, project: &ProjectName) -> String {
        format!("{uid}:{project}")
    }
}

/// What is kept in the index of what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// GPU-time up to `at`, decayed.
    pub amount: GpuTime,
    /// When the amount was that; the beginning of time where nothing was counted yet.
    pub at: Timestamp,
    /// What is in use since then.
    pub gpus: MilliGpu,
}

impl InUse {
    /// What it has come to by `now`.
    #[must_use]
    pub fn by(&self, now: Timestamp, half_life: Millis) -> GpuTime {
        // Since when a job ran that was there before anything was counted is not known.
        let span = if self.at == Timestamp::ZERO { Millis::ZERO } else { now.since(self.at) };
        decayed(self.amount, self.gpus, span, half_life)
    }
}

/// One in the numbers of this file, which have 62 binary places.
const ONE: u128 = 1 << 62;
/// So many binary places of a half-life are told apart.
const PLACES: usize = 40;
/// What is left after a half, a quarter, an eighth of a half-life and so on.
const LEFT_AFTER: [u128; PLACES] = {
    let mut left = [0; PLACES];
    let mut last = ONE / 2;
    let mut place = 0;
    while place < PLACES {
        last = (last * ONE).isqrt();
        left[place] = last;
        place += 1;
    }
    left
};
/// The natural logarithm of two, and one by it, with 32 binary places.
const LN_2: u128 = 2_977_044_472;
const BY_LN_2: u128 = 6_196_328_019;
/// More devices than there are, so that no product overflows.
const GPUS_MOST: u64 = 1 << 48;

/// What is left of one after a time.
fn left_after(span: u128, half_life: u128) -> u128 {
    let halvings = span / half_life;
    if halvings >= 62 {
        return 0;
    }
    let places = ((span % half_life) << PLACES) / half_life;
    let is_set = |place: &usize| places >> (PLACES - 1 - place) & 1 == 1;
    let left = (0..PLACES).filter(is_set).fold(ONE, |left, place| (left * LEFT_AFTER[place]) >> 62);
    left >> halvings
}

/// What an amount comes to after a time in which so much of devices was in use.
///
/// # Panics
/// If the half-life is nothing.
#[must_use]
pub fn decayed(amount: GpuTime, gpus: MilliGpu, span: Millis, half_life: Millis) -> GpuTime {
    assert!(!half_life.is_zero(), "what counts half after no time counts for nothing");
    if span.is_zero() {
        return amount;
    }
    let (time, half) = (u128::from(span.get()), u128::from(half_life.get()));
    let gpus = u128::from(gpus.get().min(GPUS_MOST));
    let left = left_after(time, half);
    let gained = match time * 1024 < half {
        // So short that it has hardly decayed: less the mean of what that is.
        true => gpus * time - ((gpus * time * time / half * LN_2) >> 33),
        false => (((gpus * half * BY_LN_2) >> 32) * ((ONE - left) >> 30)) >> 32,
    };
    let sum = ((u128::from(amount.get()) * left) >> 62) + gained;
    GpuTime::new(u64::try_from(sum).unwrap_or(u64::MAX))
}

/// What it comes to if so much of devices is always in use.
#[must_use]
pub fn always(gpus: MilliGpu, half_life: Millis) -> GpuTime {
    let gpus = u128::from(gpus.get().min(GPUS_MOST));
    let sum = (gpus * u128::from(half_life.get()) * BY_LN_2) >> 32;
    GpuTime::new(u64::try_from(sum).unwrap_or(u64::MAX))
}
