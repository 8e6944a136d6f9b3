//! Moments that time alone brings, where the policy's order uses attained GPU-time or the policy
//! consolidates: when running jobs may first be preempted for jobs with less GPU-time, when they
//! reach a level at which more jobs may preempt them, and from when on other jobs may move for a
//! waiting one.

use std::ops::Bound;

use gpool_model::{JobId, Policy, Timestamp};

use crate::row::JobRow;
use crate::world::World;

impl World {
    pub(crate) fn set_rotations(&mut self, row: &JobRow) {
        let moments = moments(&self.policy, row);
        self.rotations.extend(moments.map(|at| (at, row.job.id)));
    }

    pub(crate) fn unset_rotations(&mut self, row: &JobRow) {
        for at in moments(&self.policy, row) {
            self.rotations.remove(&(at, row.job.id));
        }
    }

    /// Recomputes all of them under another policy.
    pub(crate) fn rotate_anew(&mut self) {
        let rows = self.jobs.values().map(|row| &**row);
        let own = |row| moments(&self.policy, row).map(|at| (at, row.job.id));
        self.rotations = rows.flat_map(own).collect();
    }

    /// Returns the next future moment; `None` while no job is pending.
    pub(crate) fn next_rotation(&self) -> Option<Timestamp> {
        let id_max = JobId { number: gpool_model::JobNumber(u64::MAX), element: Some(u32::MAX) };
        let after = Bound::Excluded((self.alarms.now, id_max));
        let next = self.rotations.range((after, Bound::Unbounded)).next();
        next.filter(|_| self.queue.n_jobs() > 0).map(|(at, _)| *at)
    }
}

fn moments(policy: &Policy, row: &JobRow) -> impl Iterator<Item = Timestamp> {
    let policy = policy.of_pool(row.spec.pool.as_ref());
    let may_go = row.spec.life.preemptible == Some(true);
    let rotations = may_go.then(|| policy.rotation_moments(&row.job));
    rotations.into_iter().flatten().chain(policy.moments_of_moves(&row.job, &row.spec))
}
