//! Those who wait for what comes by itself: nobody goes for one that comes after them and asks the
//! same, or they would be passed.

use gpool_model::plan::Fit;
use gpool_model::{JobId, PoolName, ProjectName, Shape};

use super::Evictions;
use crate::capacity::{Demand, Placed};

/// Whose jobs, about whom which policy decides, and what they ask.
pub(crate) type Alike = (ProjectName, Option<u32>, Option<JobId>, Option<PoolName>, Fit);

/// Who that is, and for how long he asks it.
fn alike(shape: &Shape) -> (Alike, u64) {
    let takes = shape.takes.map_or(u64::MAX, gpool_model::Millis::get);
    let (project, fit) = (shape.project.clone(), shape.fit.clone());
    ((project, shape.uid, shape.reserved_as, shape.domain.clone(), fit), takes)
}

impl Evictions {
    /// Whether one that asks the same, for no longer, and comes first, waits.
    pub(crate) fn is_patient(&self, demand: &Demand<'_>) -> bool {
        if self.patient.is_empty() {
            return false;
        }
        let (who, takes) = alike(demand.shape);
        self.patient.get(&who).is_some_and(|shortest| takes >= *shortest)
    }

    /// It waits.
    pub(crate) fn be_patient(&mut self, demand: &Demand<'_>) {
        let (who, takes) = alike(demand.shape);
        let shortest = self.patient.entry(who).or_insert(takes);
        *shortest = takes.min(*shortest);
    }

    /// It waits for those to leave who are where it finds room then: nobody after it may have that.
    pub(crate) fn wait_for(&mut self, demand: &Demand<'_>, found: &Placed) {
        self.claim(found);
        self.be_patient(demand);
    }
}
