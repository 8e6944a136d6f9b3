//! When running jobs may first be made to give way to others that have had less GPU-time, and when
//! they reach a level at which more may ask that: what only time brings, where the policy's order
//! asks how much jobs have had.

use std::collections::BTreeSet;
use std::ops::Bound;

use gpool_model::{JobId, Timestamp};

use crate::world::{JobRow, World};

impl World {
    pub(crate) fn set_rotations(&mut self, row: &JobRow) {
        if row.spec.life.preemptible == Some(true) {
            let policy = self.policy.of_pool(row.spec.pool.as_ref());
            let moments = policy.rotation_moments(&row.job);
            self.rotations.extend(moments.map(|at| (at, row.job.id)));
        }
    }

    pub(crate) fn unset_rotations(&mut self, row: &JobRow) {
        if row.spec.life.preemptible == Some(true) {
            let policy = self.policy.of_pool(row.spec.pool.as_ref());
            for at in policy.rotation_moments(&row.job) {
                self.rotations.remove(&(at, row.job.id));
            }
        }
    }

    /// Finds all of them again, under another policy.
    pub(crate) fn rotate_anew(&mut self) {
        let rows = self.holding.iter().map(|id| &*self.jobs[id]);
        let may_go = rows.filter(|row| row.spec.life.preemptible == Some(true));
        let moments: BTreeSet<(Timestamp, JobId)> = may_go
            .flat_map(|row| {
                let moments = self.policy_of(row).rotation_moments(&row.job);
                moments.map(|at| (at, row.job.id))
            })
            .collect();
        self.rotations = moments;
    }

    /// The next of them that has not come; nobody waits for any while nothing is pending.
    pub(crate) fn next_rotation(&self) -> Option<Timestamp> {
        let id_max = JobId { number: gpool_model::JobNumber(u64::MAX), element: Some(u32::MAX) };
        let after = Bound::Excluded((self.alarms.now, id_max));
        let next = self.rotations.range((after, Bound::Unbounded)).next();
        next.filter(|_| self.queue.n_jobs() > 0).map(|(at, _)| *at)
    }
}
