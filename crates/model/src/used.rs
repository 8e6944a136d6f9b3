//! Usage: GPU time, halved after each half-life. Integer arithmetic, so that every machine computes
//! the same.

use serde::{Deserialize, Serialize};

use crate::id::ProjectName;
use crate::unit::{GpuTime, MilliGpu, Millis, Timestamp};

/// The usage of one user in one project at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The project.
    pub project: ProjectName,
    /// The user.
    pub uid: u32,
    /// GPU time, decayed.
    pub amount: GpuTime,
    /// The time of the amount.
    pub at: Timestamp,
}

impl Used {
    /// Its key in the store.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(self.uid, &self.project)
    }

    /// The key in the store for the usage of a user in a project.
    #[must_use]
    pub fn key_of(uid: u32, project: &ProjectName) -> String {
        format!("{uid}:{project}")
    }
}

/// An entry of the index of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// GPU time up to `at`, decayed.
    pub amount: GpuTime,
    /// The time of the amount; zero if nothing was counted yet.
    pub at: Timestamp,
    /// The GPUs in use since then.
    pub gpus: MilliGpu,
}

impl InUse {
    /// The usage at `now`.
    #[must_use]
    pub fn by(&self, now: Timestamp, half_life: Millis) -> GpuTime {
        // It is unknown since when a job has run that is older than the accounting.
        let span = if self.at == Timestamp::ZERO { Millis::ZERO } else { now.since(self.at) };
        decayed(self.amount, self.gpus, span, half_life)
    }
}

/// The number 1 in this file's fixed-point format with 62 binary places.
const ONE: u128 = 1 << 62;
/// The number of binary places of a half-life that the calculation uses.
const PLACES: usize = 40;
/// The factors of decay after a half, a quarter, an eighth, … of a half-life.
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
/// The natural logarithm of 2, and its reciprocal, with 32 binary places.
const LN_2: u128 = 2_977_044_472;
const BY_LN_2: u128 = 6_196_328_019;
/// More devices than any cluster has; bounds the products.
const GPUS_MOST: u64 = 1 << 48;

/// The factor of decay after a time.
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

/// The usage after a time of constant use of these GPUs.
///
/// # Panics
/// If the half-life is zero.
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
        // So short that the decay is linear: subtracts the mean decay.
        true => gpus * time - ((gpus * time * time / half * LN_2) >> 33),
        false => (((gpus * half * BY_LN_2) >> 32) * ((ONE - left) >> 30)) >> 32,
    };
    let sum = ((u128::from(amount.get()) * left) >> 62) + gained;
    GpuTime::new(u64::try_from(sum).unwrap_or(u64::MAX))
}

/// The usage that constant use of these GPUs converges to.
#[must_use]
pub fn always(gpus: MilliGpu, half_life: Millis) -> GpuTime {
    let gpus = u128::from(gpus.get().min(GPUS_MOST));
    let sum = (gpus * u128::from(half_life.get()) * BY_LN_2) >> 32;
    GpuTime::new(u64::try_from(sum).unwrap_or(u64::MAX))
}
