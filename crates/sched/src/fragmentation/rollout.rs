//! The score of a placement: how much of a node stays idle once it has been filled with expected
//! tasks.

use std::collections::BTreeMap;

use super::free_part::{FreePart, TaskDemand, WHOLE};
use super::mix::Mix;

/// The sequences of tasks that a node is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutRule {
    pub n_sequences: u32,
    /// Tasks of a sequence that are tried on a node without free GPUs. Where tasks come and go, a
    /// node never gets far into a sequence, and a longer one makes placements worse.
    pub length: u32,
    /// More tasks for each free GPU: a large node takes longer to fill.
    pub length_per_gpu: u32,
    pub seed: u64,
    /// Nodes reserved for tasks of several devices, for each node that they are expected to need.
    pub margin: u64,
}

impl Default for RolloutRule {
    fn default() -> Self {
        Self { n_sequences: 48, length: 20, length_per_gpu: 0, seed: 1, margin: 20 }
    }
}

impl RolloutRule {
    /// The rule for a mix that is taken from the present jobs and changes with them: more sequences
    /// make the score of a node depend less on the mix.
    #[must_use]
    pub fn of_present_jobs() -> Self {
        Self { n_sequences: 64, length: 10, length_per_gpu: 6, ..Self::default() }
    }
}

/// A node with more GPUs than this is filled like one with this many.
const GPUS_MAX: u32 = 16;

/// The idle part of filled nodes, each computed once.
#[derive(Debug, Clone, Default)]
pub struct Rollout {
    /// Positions in `asks`.
    sequences: Vec<Vec<usize>>,
    length: u64,
    length_per_gpu: u64,
    asks: Vec<TaskDemand>,
    /// By number of the model: see [`Mix::prices`].
    prices: Vec<u64>,
    cache: BTreeMap<FreePart, u64>,
}

impl Rollout {
    /// Draws the sequences from a mix. `capacity` is the thousandths of devices of each model.
    #[must_use]
    pub fn new(rule: &RolloutRule, mix: &Mix, capacity: &[u64]) -> Self {
        let mut state = rule.seed;
        let total: u64 = mix.popular.iter().map(|it| it.weight).sum();
        let mut draw = || {
            let mut point = splitmix(&mut state) % total.max(1);
            let found = mix.popular.iter().position(|it| match point.checked_sub(it.weight) {
                Some(rest) => {
                    point = rest;
                    false
                }
                None => true,
            });
            found.unwrap_or(0)
        };
        let most = rule.length.saturating_add(rule.length_per_gpu.saturating_mul(GPUS_MAX));
        let n_draws = if mix.popular.is_empty() { 0 } else { most };
        let mut sequence = || (0..n_draws).map(|_| draw()).collect();
        let sequences = (0..rule.n_sequences.max(1)).map(|_| sequence()).collect();
        let asks = mix.popular.iter().map(|it| it.ask).collect();
        Self {
            sequences,
            length: rule.length.into(),
            length_per_gpu: rule.length_per_gpu.into(),
            asks,
            prices: mix.prices(capacity),
            cache: BTreeMap::new(),
        }
    }

    /// Takes over the results of another rollout if it has the same sequences.
    #[must_use]
    pub fn knowing_of(self, other: Self) -> Self {
        match self.sequences == other.sequences && self.asks == other.asks {
            true => Self { cache: other.cache, ..self },
            false => self,
        }
    }

    /// Whether no task is expected.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.asks.is_empty()
    }

    /// Returns the number of results that are kept.
    #[must_use]
    pub fn n_known(&self) -> usize {
        self.cache.len()
    }

    pub fn forget(&mut self) {
        self.cache.clear();
    }

    /// Returns the number of sequences. Sums over all sequences are that many times the mean.
    #[must_use]
    pub fn n_sequences(&self) -> u64 {
        self.sequences.len() as u64
    }

    /// Returns how many thousandths of devices less stay idle if a task takes its part of a node,
    /// summed over all sequences, less the price of the devices for a task that takes any model.
    pub fn gain(&mut self, left: &FreePart, after: &FreePart, ask: &TaskDemand) -> i64 {
        let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        let [before, after] = [left, after].map(|it| signed(self.idle(it)));
        let takes_any = (0..self.prices.len()).all(|model| ask.models >> model & 1 == 1);
        let price = match self.prices.get(left.model as usize) {
            Some(price) if takes_any => {
                let product = u128::from(ask.gpus()) * u128::from(*price);
                let all = product * u128::from(self.n_sequences()) / 2_000_000;
                i64::try_from(all).unwrap_or(i64::MAX)
            }
            Some(_) | None => 0,
        };
        before - after - price
    }

    /// The thousandths of devices that stay idle, summed over all sequences.
    fn idle(&mut self, left: &FreePart) -> u64 {
        let key = left.rounded();
        if let Some(known) = self.cache.get(&key) {
            return *known;
        }
        let of_gpus = self.length_per_gpu.saturating_mul(left.gpus()) / u64::from(WHOLE);
        let length = usize::try_from(self.length.saturating_add(of_gpus)).unwrap_or(usize::MAX);
        let filled = |sequence: &Vec<usize>| {
            let mut left = key.clone();
            // A task that did not fit once does not fit later.
            let mut is_out = 0_u64;
            for ix in sequence.iter().take(length) {
                if is_out >> ix.min(&63) & 1 == 1 {
                    continue;
                }
                let ask = &self.asks[*ix];
                match left.fits_but_memory(ask) {
                    false if *ix < 63 => is_out |= 1 << ix,
                    false => {}
                    true => {
                        let tightest = left.choices(ask).next().unwrap_or(0);
                        left.take(ask, tightest);
                    }
                }
            }
            left.gpus()
        };
        let sum = self.sequences.iter().map(filled).sum();
        self.cache.insert(key, sum);
        sum
    }
}

/// Returns the next number of a pseudorandom sequence.
///
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
