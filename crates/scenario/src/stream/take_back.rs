//! What is taken back for another: who has it leaves, and who is to have it waits until then.

use std::collections::BTreeSet;

use gpool_model::job::StopCause;
use gpool_model::{AllocationState, Exit, Job, JobId, Outcome, Phase, TakenBack, TaskId};
use gpool_world::JobRow;

use super::Cluster;

impl Cluster {
    /// Who is on the devices of a place and leaves: who shares one of them stays.
    pub(super) fn holders(&self, placement: &gpool_model::Placement) -> Vec<TaskId> {
        let Some(row) = self.world.node(&placement.node) else { return Vec::new() };
        let of_slot = |slot: &gpool_model::Slot| {
            let mut devices = row.node.devices.iter();
            let ix = devices.position(|device| device.uuid == slot.device);
            ix.map_or(&[][..], |ix| &row.devices[ix].holders)
        };
        let leaves = |task: &TaskId| {
            let row = self.world.job(task.job);
            row.is_some_and(|row| matches!(row.job.phase, Phase::Stopping { .. }))
        };
        let holders = placement.slots.iter().flat_map(of_slot).copied();
        let holders: BTreeSet<TaskId> = holders.filter(leaves).collect();
        holders.into_iter().collect()
    }

    /// What a job holds is to go to another: it is leaving.
    pub(super) fn take_back(&mut self, job: JobId, why: TakenBack, beneficiary: JobId) {
        let row = self.world.job(job).expect("only jobs that are there are taken back");
        let mut job = row.job.clone();
        let (mut allocations, started_at) = match &job.phase {
            Phase::Running { allocations, started_at } => (allocations.clone(), Some(*started_at)),
            _ => (job.phase.allocations().to_vec(), None),
        };
        for allocation in &mut allocations {
            let deadline = self.now.after(row.spec.grace);
            allocation.state = AllocationState::Releasing { deadline };
        }
        let exit = Exit::usual();
        let cause = StopCause::TakenBack { why, beneficiary, exit };
        job.phase = Phase::Stopping { allocations, started_at, cause, since: self.now };
        self.put(job);
    }

    /// Lets all leave who were told to; says how many they were.
    pub fn finish_leaving(&mut self) -> usize {
        let leaves = |row: &&JobRow| matches!(row.job.phase, Phase::Stopping { .. });
        let rows = self.world.jobs().values().filter(leaves);
        let jobs: Vec<Job> = rows.map(|row| row.job.clone()).collect();
        let n_jobs = jobs.len();
        jobs.into_iter().for_each(|job| self.end(job, Outcome::Lost));
        self.come_into_claims();
        n_jobs
    }

    /// Lets those start whose claims nobody is on any more.
    pub(super) fn come_into_claims(&mut self) {
        let is_left = |task: &TaskId| {
            self.world
                .job(task.job)
                .is_none_or(|row| !row.job.phase.allocations().iter().any(|it| it.task == *task))
        };
        let rows = self.world.jobs().values();
        let ready = rows.filter(|row| {
            let allocations = row.job.phase.allocations();
            !allocations.is_empty()
                && allocations.iter().all(|it| match &it.state {
                    AllocationState::Claimed { after } => after.iter().all(is_left),
                    _ => false,
                })
        });
        for mut job in ready.map(|row| row.job.clone()).collect::<Vec<_>>() {
            let mut allocations = job.phase.allocations().to_vec();
            for allocation in &mut allocations {
                allocation.state = AllocationState::Running;
            }
            job.phase = Phase::Running { allocations, started_at: self.now };
            self.put(job);
        }
    }
}
