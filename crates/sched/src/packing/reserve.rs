//! Nodes that could still take a task of several devices are left to such tasks as long as there
//! are few of them: others go there last.

use super::left::{Ask, Left, WHOLE};
use super::mix::{Mix, Weighed};

/// For each device that a task asks for which could not go somewhere any more, so many thousandths
/// of a device of idleness are as bad.
const PENALTY: u64 = 2_500;

/// How many nodes could take which tasks of several devices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reserve {
    gangs: Vec<Weighed>,
    margin: u64,
    /// By gang, how many nodes could take it.
    n_nodes: Vec<u64>,
}

impl Reserve {
    pub fn new(mix: &Mix, margin: u64) -> Self {
        // One bit each.
        let gangs: Vec<Weighed> = mix.gangs.iter().take(64).copied().collect();
        let n_nodes = vec![0; gangs.len()];
        Self { gangs, margin, n_nodes }
    }

    /// Counts anew.
    pub fn clear(&mut self) {
        self.n_nodes.fill(0);
    }

    fn bits(&self, which: impl Fn(&Ask) -> bool) -> u64 {
        let all = self.gangs.iter().enumerate();
        all.filter(|(_, it)| which(&it.ask)).fold(0, |bits, (ix, _)| bits | 1 << ix)
    }

    /// Which of them a node could take, as bits.
    pub fn hosts(&self, left: &Left) -> u64 {
        self.bits(|ask| left.fits_but_memory(ask))
    }

    /// A node could take these, and now those.
    pub fn change(&mut self, before: u64, after: u64) {
        for (ix, n_nodes) in self.n_nodes.iter_mut().enumerate() {
            *n_nodes += after >> ix & 1;
            *n_nodes -= before >> ix & 1;
        }
    }

    /// Which of them could go to so few nodes that none should be lost, where so much is idle, in
    /// thousandths of devices.
    pub fn scarce(&self, idle: u64) -> u64 {
        let is_scarce = |(it, n_nodes): (&Weighed, &u64)| {
            let amount = u128::from(self.margin) * u128::from(it.weight) * u128::from(idle);
            let of_one = u128::from(it.ask.n_gpus) * u128::from(WHOLE) * 1_000_000;
            u128::from(*n_nodes) <= amount.div_ceil(of_one)
        };
        let all = self.gangs.iter().zip(&self.n_nodes).enumerate();
        all.filter(|(_, it)| is_scarce(*it)).fold(0, |bits, (ix, _)| bits | 1 << ix)
    }

    /// What it costs that a node could not take these any more, in thousandths of devices.
    pub fn penalty(&self, lost: u64) -> u64 {
        let all = self.gangs.iter().enumerate().filter(|(ix, _)| lost >> ix & 1 == 1);
        all.map(|(_, it)| PENALTY * u64::from(it.ask.n_gpus)).sum()
    }
}
