//! Jobs that wait for capacity which becomes free by itself. A job with the same demand that comes
//! later in the queue gets no victims meanwhile, else it would overtake the waiting job.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{JobId, Millis, PoolName, ProjectName, Shape};

/// The project, user, reservation, scheduling pool and demand of a job.
type Alike = (ProjectName, Option<u32>, Option<JobId>, Option<PoolName>, Fit);

/// The waiting jobs of a cycle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    /// By demand, the shortest run time of a waiting job in milliseconds.
    shortest: BTreeMap<Alike, u64>,
}

impl Backoff {
    /// Whether an earlier job with the same demand, which runs no longer, waits.
    pub fn applies_to(&self, shape: &Shape) -> bool {
        if self.shortest.is_empty() {
            return false;
        }
        let (alike, takes) = alike(shape);
        self.shortest.get(&alike).is_some_and(|shortest| takes >= *shortest)
    }

    pub fn add(&mut self, shape: &Shape) {
        let (alike, takes) = alike(shape);
        let shortest = self.shortest.entry(alike).or_insert(takes);
        *shortest = takes.min(*shortest);
    }
}

fn alike(shape: &Shape) -> (Alike, u64) {
    let takes = shape.takes.map_or(u64::MAX, Millis::get);
    let (project, fit) = (shape.project.clone(), shape.fit.clone());
    ((project, shape.uid, shape.reserved_as, shape.domain.clone(), fit), takes)
}
