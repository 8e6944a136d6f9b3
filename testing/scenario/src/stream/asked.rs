//! Requests of users for existing jobs.

use std::sync::Arc;

use gpool_model::job::{Holder, StopCause};
use gpool_model::{Allocation, AllocationState, Outcome, Phase};
use gpool_world::JobRow;

use super::Cluster;

impl Cluster {
    pub(super) fn cancel(&mut self, number: u32) {
        let Some(mut job) = self.pick(number, |_| true) else { return };
        let mut allocations = job.phase.allocations().to_vec();
        let is_claim = |it: &Allocation| matches!(it.state, AllocationState::Claimed { .. });
        if allocations.iter().all(is_claim) {
            self.end(job, Outcome::Cancelled);
            return;
        }
        let row = self.world.job(job.id).expect("it was just picked");
        let deadline = self.now.after(row.spec.grace);
        for allocation in &mut allocations {
            allocation.state = AllocationState::Releasing { deadline };
        }
        job.generation = job.generation.next();
        job.phase = Phase::Stopping {
            allocations,
            started_at: Some(self.now),
            cause: StopCause::Cancelled { by: Arc::from("ana") },
            since: self.now,
        };
        self.put(job);
    }

    pub(super) fn hold(&mut self, number: u32) {
        let may_start =
            |row: &JobRow| matches!(row.job.phase, Phase::Pending { .. } | Phase::Waiting { .. });
        let Some(mut job) = self.pick(number, may_start) else { return };
        self.add_wait(&mut job);
        job.phase = Phase::Held { by: Holder::User, since: self.now, missing: None };
        self.put(job);
    }
}
