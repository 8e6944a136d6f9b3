//! What jobs that hold something ask of nodes, and how many nodes they ask it of. The scheduler
//! expects later jobs to ask the same.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{Bytes, JobRequest, JobSpec};

use crate::world::World;
use crate::world::parts::GpuClass;

/// Requests to nodes, without host memory, each with the number of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestCounts {
    n_nodes: BTreeMap<Fit, u64>,
    /// Grows when a number of nodes doubles or halves.
    n_changes: u64,
}

impl RequestCounts {
    /// Counts a job that now holds something.
    pub fn add(&mut self, spec: &JobSpec) {
        spec.each_part(|part| {
            let n_nodes = self.n_nodes.entry(fit(part)).or_default();
            let before = n_nodes.checked_ilog2();
            *n_nodes += u64::from(part.gang.nodes);
            self.n_changes += u64::from(n_nodes.checked_ilog2() != before);
        });
    }

    /// Uncounts a job that no longer holds anything.
    pub fn remove(&mut self, spec: &JobSpec) {
        spec.each_part(|part| {
            let fit = fit(part);
            let n_nodes = self.n_nodes.get_mut(&fit).expect("a job with an allocation was counted");
            let before = n_nodes.checked_ilog2();
            *n_nodes -= u64::from(part.gang.nodes);
            self.n_changes += u64::from(n_nodes.checked_ilog2() != before);
            if *n_nodes == 0 {
                self.n_nodes.remove(&fit);
            }
        });
    }
}

fn fit(request: &JobRequest) -> Fit {
    // The names of nodes say nothing about the jobs that come next.
    Fit { memory: Bytes::ZERO, nodes: None, ..Fit::of(request) }
}

impl World {
    /// What jobs that hold something ask of nodes, without host memory, and of how many nodes. The
    /// number is rounded down to a power of two, so that it rarely changes.
    pub fn asks(&self) -> impl Iterator<Item = (&Fit, u64)> {
        self.asks.n_nodes.iter().map(|(fit, n)| (fit, 1 << n.ilog2()))
    }

    /// A number that changes whenever [`Self::asks`] does.
    #[must_use]
    pub fn n_changes_of_asks(&self) -> u64 {
        self.asks.n_changes
    }

    /// The number of GPUs of each pool and model.
    pub fn n_gpus_by_class(&self) -> impl Iterator<Item = (&GpuClass, u64)> {
        self.holdings.classes.iter().map(|(class, n)| (class, *n))
    }
}
