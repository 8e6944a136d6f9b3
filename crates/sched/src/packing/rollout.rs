//! Further than one step: what stays idle of a node once it has been filled with tasks of the mix.

use std::collections::BTreeMap;

use super::left::{Ask, Left, WHOLE};
use super::mix::Mix;

/// How far is looked, and by which sequences of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutRule {
    /// How many sequences of tasks a node is filled with.
    pub n_sequences: u32,
    /// How many tasks of a sequence are tried on a node of which no GPU is left. Where tasks come
    /// and go, what is far ahead is never reached, and to look there does harm.
    pub length: u32,
    /// How many more for each GPU that is left: what is large takes longer to fill.
    pub length_per_gpu: u32,
    /// Which sequences.
    pub seed: u64,
    /// How many more nodes are reserved for tasks of several devices than these are expected to
    /// need.
    pub margin: u64,
}

impl Default for RolloutRule {
    fn default() -> Self {
        Self { n_sequences: 48, length: 20, length_per_gpu: 0, seed: 1, margin: 20 }
    }
}

impl RolloutRule {
    /// Where what comes is taken from who is there, and so is another mix time and again: by more
    /// sequences a node is worth as much by each.
    pub(crate) fn of_who_is_there() -> Self {
        Self { n_sequences: 64, length: 10, length_per_gpu: 6, ..Self::default() }
    }
}

/// Of nodes that have more GPUs no more tasks are tried.
const GPUS_MAX: u32 = 16;

/// What stays idle of nodes, worked out once of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rollout {
    /// One after the other, numbers of the mix.
    sequences: Vec<Vec<usize>>,
    length: u64,
    length_per_gpu: u64,
    asks: Vec<Ask>,
    /// By number of the model, what a thousandth of a device costs who could do without it, in
    /// millionths.
    prices: Vec<u64>,
    known: BTreeMap<Left, u64>,
}

impl Rollout {
    /// On a cluster that has so much of each model, in thousandths of devices.
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
            known: BTreeMap::new(),
        }
    }

    /// With what another has worked out, if it goes by the same tasks.
    pub fn knowing_of(self, other: Self) -> Self {
        match self.sequences == other.sequences && self.asks == other.asks {
            true => Self { known: other.known, ..self },
            false => self,
        }
    }

    /// Whether no task is expected.
    pub fn is_blank(&self) -> bool {
        self.asks.is_empty()
    }

    /// Of how many nodes it is known what stays idle.
    pub fn n_known(&self) -> usize {
        self.known.len()
    }

    /// Forgets what was worked out of nodes.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Times what a sum over all sequences is the mean.
    pub fn n_sequences(&self) -> u64 {
        self.sequences.len() as u64
    }

    /// How many thousandths of devices less stay idle, summed over all sequences, if a task takes
    /// its part of what is left of a node; less what others would have paid for it.
    pub fn gain(&mut self, left: &Left, after: &Left, ask: &Ask) -> i64 {
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

    /// Thousandths of devices that stay idle, summed over all sequences.
    fn idle(&mut self, left: &Left) -> u64 {
        let key = left.rounded();
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let of_gpus = self.length_per_gpu.saturating_mul(left.gpus()) / u64::from(WHOLE);
        let length = usize::try_from(self.length.saturating_add(of_gpus)).unwrap_or(usize::MAX);
        let filled = |sequence: &Vec<usize>| {
            let mut left = key.clone();
            // What did not fit once will not later.
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
        self.known.insert(key, sum);
        sum
    }
}

/// The next number of a sequence that looks like chance and is not.
///
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub(super) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
