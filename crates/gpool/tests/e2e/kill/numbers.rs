//! Pseudorandom numbers from a seed, and the number of rounds of a run.

use std::time::{SystemTime, UNIX_EPOCH};

/// A stream of numbers (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let bound = u64::try_from(from.len()).ok().filter(|bound| *bound > 0)?;
        from.get(usize::try_from(self.below(bound)).ok()?)
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = self.below(u64::try_from(last).unwrap() + 1);
            all.swap(last, usize::try_from(other).unwrap());
        }
    }
}

/// The seed of this run: from `GPOOL_TEST_SEED`, or a new one; printed in both cases.
pub fn seed() -> u64 {
    let given = std::env::var("GPOOL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
    });
    eprintln!("GPOOL_TEST_SEED={seed}");
    seed
}

/// The default number of kills of one cluster at random moments. All points are tried once for each
/// such number of kills.
pub const KILLS: u64 = 100;

/// The number of rounds: from `GPOOL_KILL_ROUNDS`, or `usual`.
pub fn rounds(usual: u64) -> u64 {
    let given = std::env::var("GPOOL_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    given.unwrap_or(usual)
}
