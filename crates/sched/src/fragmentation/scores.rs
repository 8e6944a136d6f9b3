//! The scores of placements on free parts, each computed once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::free_part::{FreePart, TaskDemand};
use super::mix::Mix;
use super::parts::Parts;
use super::reserve::Reserve;
use super::rollout::{Rollout, RolloutRule};

/// The most free parts that are kept, and the most scores of each: tens of megabytes.
const KNOWN_MAX: usize = 16_384;
const KNOWN_OF_EACH_MAX: usize = 32;

/// The score of a free part for a demand.
#[derive(Debug, Clone, Copy)]
pub struct Worth {
    /// How much less stays idle; see [`Rollout::gain`].
    pub gain: i64,
    /// Tasks of several devices that no longer fit afterwards, as bits.
    pub lost: u64,
    /// Free thousandths of the device that a share goes to.
    pub of_device: u32,
}

impl Worth {
    /// The demand does not fit.
    const NONE: Self = Self { gain: i64::MIN, lost: 0, of_device: 0 };
}

/// The scores by the expected tasks.
#[derive(Debug, Clone, Default)]
pub struct Scores {
    rollout: Rollout,
    reserve: Reserve,
    parts: Parts,
    /// Numbers of demands.
    asks: BTreeMap<TaskDemand, usize>,
    /// By number of the demand, then of the free part.
    worths: Vec<Vec<Option<Worth>>>,
}

impl Scores {
    /// Scores by other expected tasks from now on. Free parts keep their numbers, demands do not.
    /// `capacity` is the thousandths of devices of each model.
    pub fn expect(&mut self, rule: &RolloutRule, mix: &Mix, capacity: &[u64]) {
        let before = std::mem::take(&mut self.rollout);
        self.rollout = Rollout::new(rule, mix, capacity).knowing_of(before);
        self.reserve = Reserve::new(mix, rule.margin);
        self.parts.count_for(&self.reserve);
        self.asks.clear();
        self.worths.clear();
    }

    pub fn forget(&mut self) {
        self.rollout.forget();
        self.parts = Parts::default();
        self.asks.clear();
        self.worths.clear();
    }

    /// Whether no task is expected.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.rollout.is_blank()
    }

    /// Whether so much is known that it should be forgotten.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let n_known = self.rollout.n_known().max(self.worths.len() * self.parts.len());
        self.parts.len() > KNOWN_MAX || n_known > KNOWN_MAX * KNOWN_OF_EACH_MAX
    }

    /// Returns the number of a free part.
    pub fn number(&mut self, left: FreePart) -> usize {
        self.parts.number(left, &self.reserve)
    }

    /// Returns the number of a demand.
    pub fn ask_no(&mut self, ask: TaskDemand) -> usize {
        let next = self.asks.len();
        let ask_no = *self.asks.entry(ask).or_insert(next);
        self.worths.resize_with(self.asks.len(), Vec::new);
        ask_no
    }

    /// Returns the tasks of several devices that so few of these nodes can take that none of these
    /// nodes should be lost, as bits. The nodes are given by the numbers of their free parts.
    #[must_use]
    pub fn scarce(&mut self, nodes: &[usize]) -> u64 {
        self.reserve.clear();
        let mut idle = 0;
        for number in nodes {
            idle += self.parts.get(*number).gpus();
            self.reserve.change(0, self.parts.hosts(*number));
        }
        self.reserve.scarce(idle)
    }

    /// Returns the score of a free part for a demand, by their numbers. `ask` is the demand.
    ///
    /// # Panics
    /// If the numbers are not from this.
    pub fn worth(&mut self, ask: &TaskDemand, ask_no: usize, number: usize) -> Worth {
        if let Some(Some(known)) = self.worths[ask_no].get(number) {
            return *known;
        }
        let worth = self.compute(ask, number);
        let of_ask = &mut self.worths[ask_no];
        of_ask.resize(of_ask.len().max(self.parts.len()), None);
        of_ask[number] = Some(worth);
        worth
    }

    fn compute(&mut self, ask: &TaskDemand, number: usize) -> Worth {
        let (left, hosts) = (self.parts.get(number), self.parts.hosts(number));
        // The free part was rounded down, so the task may fit nevertheless.
        let most = FreePart { cpus: left.cpus.max(ask.cpus), ..left.clone() };
        if !most.fits_but_memory(ask) {
            return Worth::NONE;
        }
        let worth = |at: usize| {
            let after = most.after(ask, at).rounded();
            let gain = self.rollout.gain(left, &after, ask);
            let lost = hosts & !self.reserve.hosts(&after);
            Worth { gain, lost, of_device: most.free.get(at).copied().unwrap_or(0) }
        };
        let key = |it: &Worth| (Reverse(self.reserve.penalty(it.lost)), it.gain);
        let all = most.choices(ask).map(worth);
        // The first of equal devices is the fullest.
        all.reduce(|best, it| if key(&it) > key(&best) { it } else { best }).unwrap_or(Worth::NONE)
    }

    /// Returns the gain, less the cost of tasks that fit on few nodes and no longer fit on this
    /// one; these are `scarce`.
    #[must_use]
    pub fn balance(&self, worth: Worth, scarce: u64) -> i64 {
        let n_sequences = self.rollout.n_sequences();
        let penalty = self.reserve.penalty(worth.lost & scarce).saturating_mul(n_sequences);
        worth.gain.saturating_sub(i64::try_from(penalty).unwrap_or(i64::MAX))
    }
}
