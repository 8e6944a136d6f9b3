//! The jobs of each group of a user, which lists show together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::{GroupPlace, JobId};

use crate::row::JobRow;
use crate::world::World;

/// Jobs that have not ended, by user and name of their group. Arrays are in it, not their elements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(BTreeMap<u32, BTreeMap<String, BTreeSet<JobId>>>);

impl Groups {
    pub fn insert(&mut self, row: &JobRow) {
        let Some(place) = place(row) else { return };
        let of_user = self.0.entry(row.spec.owner.uid).or_default();
        of_user.entry(place.name.clone()).or_default().insert(row.job.id);
    }

    pub fn remove(&mut self, row: &JobRow) {
        let Some(place) = place(row) else { return };
        let Some(of_user) = self.0.get_mut(&row.spec.owner.uid) else { return };
        if let Some(jobs) = of_user.get_mut(&place.name) {
            jobs.remove(&row.job.id);
            if jobs.is_empty() {
                of_user.remove(&place.name);
            }
        }
        if of_user.is_empty() {
            self.0.remove(&row.spec.owner.uid);
        }
    }
}

fn place(row: &JobRow) -> Option<&Arc<GroupPlace>> {
    row.spec.part_of.as_ref().filter(|_| row.job.id.element.is_none())
}

impl World {
    /// Whether any job that has not ended is in a group.
    pub fn has_groups(&self) -> bool {
        !self.groups.0.is_empty()
    }

    /// The jobs of a user's group that have not ended, in the order of their numbers.
    pub fn group(&self, uid: u32, name: &str) -> impl Iterator<Item = &JobRow> {
        let jobs = self.groups.0.get(&uid).and_then(|of_user| of_user.get(name));
        jobs.into_iter().flatten().filter_map(|id| self.job(*id))
    }
}
