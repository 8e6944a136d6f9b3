//! What jobs that hold something ask of nodes, and how often: what comes next is likely to ask the
//! same.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{Bytes, JobSpec};

use crate::world::World;
use crate::world::parts::GpuClass;

/// What is asked of nodes, without host memory, and of how many of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asks {
    n_nodes: BTreeMap<Fit, u64>,
    /// Grows when one is asked of twice as many, or half as many.
    n_changes: u64,
}

impl Asks {
    /// A job holds something from now on.
    pub fn add(&mut self, spec: &JobSpec) {
        let n_nodes = self.n_nodes.entry(fit(spec)).or_default();
        let before = n_nodes.checked_ilog2();
        *n_nodes += u64::from(spec.gang.nodes);
        self.n_changes += u64::from(n_nodes.checked_ilog2() != before);
    }

    /// It does no more.
    pub fn remove(&mut self, spec: &JobSpec) {
        let fit = fit(spec);
        let n_nodes = self.n_nodes.get_mut(&fit).expect("who holds something was counted");
        let before = n_nodes.checked_ilog2();
        *n_nodes -= u64::from(spec.gang.nodes);
        self.n_changes += u64::from(n_nodes.checked_ilog2() != before);
        if *n_nodes == 0 {
            self.n_nodes.remove(&fit);
        }
    }
}

fn fit(spec: &JobSpec) -> Fit {
    // Which nodes they name says nothing of the jobs that come next.
    Fit { memory: Bytes::ZERO, nodes: None, ..Fit::of(spec) }
}

impl World {
    /// What jobs that hold something ask of nodes, without host memory, and of how many of these:
    /// the power of two below, so that it stays the same for long.
    pub fn asks(&self) -> impl Iterator<Item = (&Fit, u64)> {
        self.asks.n_nodes.iter().map(|(fit, n)| (fit, 1 << n.ilog2()))
    }

    /// Another number whenever [`Self::asks`] is not what it was.
    #[must_use]
    pub fn n_changes_of_asks(&self) -> u64 {
        self.asks.n_changes
    }

    /// Pools and models, and how many GPUs there are of each.
    pub fn n_gpus_by_class(&self) -> impl Iterator<Item = (&GpuClass, u64)> {
        self.holdings.classes.iter().map(|(class, n)| (class, *n))
    }
}
