//! Jobs that may grow to more nodes than they started on, and the jobs that join them.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{JobId, Phase};

use crate::row::JobRow;
use crate::world::World;

#[derive(Debug, Clone, Default)]
pub(crate) struct Gangs {
    /// Jobs that run and may grow.
    elastic: BTreeSet<JobId>,
    /// Jobs that join another one, by the job that they join.
    joiners: BTreeMap<JobId, BTreeSet<JobId>>,
}

impl Gangs {
    pub fn insert(&mut self, row: &JobRow) {
        let id = row.job.id;
        if is_elastic(row) {
            self.elastic.insert(id);
        }
        if let (Some(joins), false) = (&row.spec.joins, has_ended(row)) {
            self.joiners.entry(joins.job).or_default().insert(id);
        }
    }

    pub fn remove(&mut self, row: &JobRow) {
        let id = row.job.id;
        if is_elastic(row) {
            self.elastic.remove(&id);
        }
        if let Some(joins) = &row.spec.joins
            && let Some(all) = self.joiners.get_mut(&joins.job)
        {
            all.remove(&id);
            if all.is_empty() {
                self.joiners.remove(&joins.job);
            }
        }
    }
}

fn is_elastic(row: &JobRow) -> bool {
    row.spec.gang.is_elastic() && matches!(row.job.phase, Phase::Running { .. })
}

fn has_ended(row: &JobRow) -> bool {
    matches!(row.job.phase, Phase::Ended(_))
}

impl World {
    /// Jobs that run and may grow to more nodes than they started on.
    pub fn elastic(&self) -> impl Iterator<Item = &JobRow> {
        self.gangs.elastic.iter().filter_map(|id| self.job(*id))
    }

    /// Jobs that have not ended and join another job.
    pub fn joiners(&self) -> impl Iterator<Item = &JobRow> {
        self.gangs.joiners.values().flatten().filter_map(|id| self.job(*id))
    }

    pub fn joiners_of(&self, job: JobId) -> impl Iterator<Item = &JobRow> {
        self.gangs.joiners.get(&job).into_iter().flatten().filter_map(|id| self.job(*id))
    }
}
