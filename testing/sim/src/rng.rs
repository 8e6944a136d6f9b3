//! A stream of random numbers that is the same on every machine and in every version.

/// Random numbers of one seed.
///
/// Source: `xoshiro256**` by Blackman and Vigna, seeded by `splitmix64`; both in the public domain.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut last = seed;
        let state = std::array::from_fn(|_| {
            last = last.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (last ^ (last >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Self { state }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `n`; 0 if that is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(n);
        u64::try_from(product >> 64).expect("the upper half of a product of two words is a word")
    }

    /// A number of a range, both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true in `n` of a hundred cases.
    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// One of several.
    ///
    /// # Panics
    /// If there is none.
    pub fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        let n = u64::try_from(things.len()).expect("a slice fits in memory");
        things[usize::try_from(self.below(n)).expect("below the length of a slice")]
    }
}
