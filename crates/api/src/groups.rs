//! One row for the jobs of a group in lists.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use gpool_model::JobId;
use gpool_server::elements;
use gpool_wire::GroupStatus;
use gpool_world::{JobRow, World};

/// The jobs that stand for their groups in one answer, by user and name of the group.
#[derive(Clone, Default)]
pub(super) struct Folding(Arc<Mutex<HashMap<(u32, String), JobId>>>);

impl Folding {
    /// Whether a job is in no group, or is the first listed job of its group.
    pub fn shows(&self, world: &World, row: &JobRow, lists: impl Fn(&JobRow) -> bool) -> bool {
        let Some(place) = row.spec.part_of.as_ref().filter(|_| row.job.id.element.is_none()) else {
            return true;
        };
        let uid = row.spec.owner.uid;
        let mut firsts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = firsts.entry((uid, place.name.clone())).or_insert_with(|| {
            let first = world.group(uid, &place.name).find(|row| lists(row));
            first.map_or(row.job.id, |first| first.job.id)
        });
        *first == row.job.id
    }
}

/// The group of a job, with its listed jobs that have not ended; `None` if the job is in none.
pub(super) fn status(
    world: &World,
    row: &JobRow,
    lists: impl Fn(&JobRow) -> bool,
) -> Option<GroupStatus> {
    let place = row.spec.part_of.as_ref()?;
    let (mut n_jobs, mut n_by_state, mut n_by_gpus) = (0, BTreeMap::new(), BTreeMap::new());
    for row in world.group(row.spec.owner.uid, &place.name).filter(|row| lists(row)) {
        n_jobs += 1;
        let counts = elements::counts(world, row);
        let counts = counts.unwrap_or_else(|| [(row.job.phase.state(), 1)].into());
        let n_living: u64 =
            counts.iter().filter(|(state, _)| !state.is_end()).map(|(_, n)| n).sum();
        let n_tasks = u64::from(row.spec.n_tasks()) * n_living;
        *n_by_gpus.entry(row.spec.gpus_written.to_string()).or_default() += n_tasks;
        for (state, n) in counts {
            *n_by_state.entry(state.as_str().to_owned()).or_default() += n;
        }
    }
    Some(GroupStatus { name: place.name.clone(), n_jobs, n_by_state, n_by_gpus })
}
