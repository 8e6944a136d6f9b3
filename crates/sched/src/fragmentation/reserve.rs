//! Nodes for tasks of several devices: while few nodes can take such a task, other tasks go there
//! last.

use super::free_part::{FreePart, TaskDemand, WHOLE};
use super::mix::{Mix, Weighed};

/// The cost of a node that can no longer take a task, for each device of that task, in thousandths
/// of an idle device.
const PENALTY: u64 = 2_500;

/// The number of nodes that can take each task of several devices.
#[derive(Debug, Clone, Default)]
pub struct Reserve {
    gangs: Vec<Weighed>,
    margin: u64,
    /// By gang, the number of nodes that can take it.
    n_nodes: Vec<u64>,
}

impl Reserve {
    /// Counts for the gangs of a mix. `margin` is the number of nodes reserved for each node that
    /// is expected to be needed.
    #[must_use]
    pub fn new(mix: &Mix, margin: u64) -> Self {
        // One bit each.
        let gangs: Vec<Weighed> = mix.gangs.iter().take(64).copied().collect();
        let n_nodes = vec![0; gangs.len()];
        Self { gangs, margin, n_nodes }
    }

    pub fn clear(&mut self) {
        self.n_nodes.fill(0);
    }

    fn bits(&self, which: impl Fn(&TaskDemand) -> bool) -> u64 {
        let all = self.gangs.iter().enumerate();
        all.filter(|(_, it)| which(&it.ask)).fold(0, |bits, (ix, _)| bits | 1 << ix)
    }

    /// Returns the gangs that a node can take, as bits.
    #[must_use]
    pub fn hosts(&self, left: &FreePart) -> u64 {
        self.bits(|ask| left.fits_but_memory(ask))
    }

    /// Counts a node that could take the gangs `before` and can now take the gangs `after`.
    pub fn change(&mut self, before: u64, after: u64) {
        for (ix, n_nodes) in self.n_nodes.iter_mut().enumerate() {
            *n_nodes += after >> ix & 1;
            *n_nodes -= before >> ix & 1;
        }
    }

    /// Returns the gangs that so few nodes can take that none of these nodes should be lost, as
    /// bits. `idle` is the thousandths of idle devices.
    #[must_use]
    pub fn scarce(&self, idle: u64) -> u64 {
        let is_scarce = |(it, n_nodes): (&Weighed, &u64)| {
            let amount = u128::from(self.margin) * u128::from(it.weight) * u128::from(idle);
            let of_one = u128::from(it.ask.n_gpus) * u128::from(WHOLE) * 1_000_000;
            u128::from(*n_nodes) <= amount.div_ceil(of_one)
        };
        let all = self.gangs.iter().zip(&self.n_nodes).enumerate();
        all.filter(|(_, it)| is_scarce(*it)).fold(0, |bits, (ix, _)| bits | 1 << ix)
    }

    /// Returns the cost of a node that can no longer take these gangs, in thousandths of devices.
    #[must_use]
    #[inline]
    pub fn penalty(&self, lost: u64) -> u64 {
        let all = self.gangs.iter().enumerate().filter(|(ix, _)| lost >> ix & 1 == 1);
        all.map(|(_, it)| PENALTY * u64::from(it.ask.n_gpus)).sum()
    }
}
