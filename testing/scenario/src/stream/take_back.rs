//! Preemption and reclaim: victims leave, and the beneficiary waits for their devices.

use std::collections::BTreeSet;

use gpool_model::job::StopCause;
use gpool_model::pause::pause_memory;
use gpool_model::{
    AllocationState, Bytes, Exit, Job, JobId, Millis, Outcome, PauseCause, Phase, ResourceKind,
    TakenBack, TaskId,
};
use gpool_world::JobRow;

use super::{Cluster, JobSeed};

impl JobSeed {
    /// The exits of a job: some jobs may be paused.
    pub(super) fn exits(&self) -> BTreeSet<Exit> {
        match self.is_preemptible && self.project >> 16 & 3 != 0 {
            true => BTreeSet::from([Exit::Pause, Exit::usual()]),
            false => BTreeSet::new(),
        }
    }
}

impl Cluster {
    /// The tasks on the devices of a placement that are leaving; others that share a device stay.
    pub(super) fn holders(&self, placement: &gpool_model::Placement) -> Vec<TaskId> {
        let Some(row) = self.world.node(&placement.node) else { return Vec::new() };
        let of_slot = |slot: &gpool_model::Slot| {
            let mut devices = row.node.devices.iter();
            let ix = devices.position(|device| device.uuid == slot.device);
            ix.map_or(&[][..], |ix| &row.devices[ix].holders)
        };
        let is_leaving = |task: &TaskId| self.world.job(task.job).is_some_and(leaves);
        let holders = placement.slots.iter().flat_map(of_slot).copied();
        let holders: BTreeSet<TaskId> = holders.filter(is_leaving).collect();
        holders.into_iter().collect()
    }

    /// Makes a job leave its devices for another job.
    pub(super) fn take_back(&mut self, job: JobId, why: TakenBack, beneficiary: JobId, exit: Exit) {
        let row = self.world.job(job).expect("only jobs that are there are taken back");
        let mut job = row.job.clone();
        let (mut allocations, started_at) = match &job.phase {
            Phase::Running { allocations, started_at } => (allocations.clone(), Some(*started_at)),
            _ => (job.phase.allocations().to_vec(), None),
        };
        if let (Exit::Pause, Some(started_at)) = (exit, started_at) {
            for allocation in &mut allocations {
                let node = self.world.node(&allocation.node).map(|row| &row.node);
                let bytes = node.map(|node| pause_memory(node, &row.spec, allocation));
                let bytes = bytes.unwrap_or_default().get();
                allocation.resources.set(ResourceKind::PauseMemory, bytes);
                allocation.state = AllocationState::Pausing;
            }
            let (since, held) = (self.now, None);
            let why = PauseCause::TakenBack { why, beneficiary };
            job.phase = Phase::Paused { allocations, started_at, since, why, held };
            return self.put(job);
        }
        for allocation in &mut allocations {
            let deadline = self.now.after(row.spec.grace);
            allocation.state = AllocationState::Releasing { deadline };
        }
        let cause = StopCause::TakenBack { why, beneficiary, exit };
        job.phase = Phase::Stopping { allocations, started_at, cause, since: self.now };
        self.put(job);
    }

    /// Lets all leaving jobs finish; returns their number.
    pub fn finish_leaving(&mut self) -> usize {
        let rows = self.world.job_rows().filter(|row| leaves(row));
        let jobs: Vec<Job> = rows.map(|row| row.job.clone()).collect();
        let n_jobs = jobs.len();
        jobs.into_iter().for_each(|job| self.end(job, Outcome::Lost));
        self.come_into_claims();
        n_jobs
    }

    /// Ends the attempt of a job and prepares the next one.
    pub(super) fn begin_again(&self, job: &mut Job) {
        job.course.attained = job.attained(self.now);
        job.course.paused = Millis::ZERO;
        job.attempt = job.attempt.next();
    }

    /// Pauses all tasks of a job.
    pub(super) fn park(&mut self, mut job: Job) {
        let row = self.world.job(job.id).expect("only jobs that are there are parked");
        let resources = row.spec.resources_paused();
        for allocation in job.phase.allocations_mut() {
            let bytes = allocation.resources.get(&ResourceKind::PauseMemory);
            let (host_bytes, home) = (Bytes::new(bytes), Vec::new());
            allocation.state = AllocationState::Paused { host_bytes, home, kinds: Vec::new() };
            allocation.resources = resources.clone();
            allocation.resources.set(ResourceKind::PauseMemory, bytes);
        }
        self.put(job);
    }

    /// Resumes a paused job, at once or after others have left.
    pub(super) fn resume(&mut self, id: JobId, is_claim: bool) {
        let row = self.world.job(id).expect("only jobs that are there go on");
        let (spec, mut job) = (std::sync::Arc::clone(&row.spec), row.job.clone());
        let Phase::Paused { mut allocations, started_at, since, why, held } = job.phase else {
            return;
        };
        for allocation in &mut allocations {
            let (node, slots) = (allocation.node.clone(), allocation.slots.clone());
            allocation.state = match is_claim {
                true => {
                    let placement = gpool_model::Placement { node, slots };
                    AllocationState::Claimed { after: self.holders(&placement) }
                }
                false => AllocationState::Running,
            };
            let bytes = allocation.resources.get(&ResourceKind::PauseMemory);
            allocation.resources = spec.resources(allocation.task.rank, &allocation.slots);
            if is_claim {
                allocation.resources.set(ResourceKind::PauseMemory, bytes);
            }
        }
        job.phase = match is_claim {
            true => Phase::Paused { allocations, started_at, since, why, held },
            false => {
                let pause = self.now.since(since);
                job.course.paused = job.course.paused.saturating_add(pause);
                Phase::Running { allocations, started_at }
            }
        };
        self.put(job);
    }

    /// Starts jobs whose claimed devices have been released. A claim forgets a task that has left
    /// once, whatever happens to it later.
    pub(super) fn come_into_claims(&mut self) {
        let claimants: Vec<JobId> = self.world.claimants().collect();
        for id in claimants {
            let row = self.world.job(id).expect("only jobs that are there claim something");
            let mut job = row.job.clone();
            let is_in_the_way = |task: &TaskId| {
                let held = self.world.job(task.job).into_iter();
                let mut held = held.flat_map(|row| row.job.phase.allocations());
                held.any(|it| it.task == *task && !it.is_paused())
            };
            let mut is_waiting = false;
            for allocation in job.phase.allocations_mut() {
                if let AllocationState::Claimed { after } = &mut allocation.state {
                    after.retain(is_in_the_way);
                    is_waiting |= !after.is_empty();
                }
            }
            if is_waiting {
                self.put(job);
                continue;
            }
            if matches!(job.phase, Phase::Paused { .. }) {
                self.resume(job.id, false);
                continue;
            }
            let mut allocations = job.phase.allocations().to_vec();
            for allocation in &mut allocations {
                allocation.state = AllocationState::Running;
            }
            job.phase = Phase::Running { allocations, started_at: self.now };
            self.put(job);
        }
    }
}

/// Whether a job was asked to stop or to pause.
pub(super) fn leaves(row: &JobRow) -> bool {
    matches!(row.job.phase, Phase::Stopping { .. }) || is_pausing(&row.job)
}

/// Whether a job was asked to pause.
pub(super) fn is_pausing(job: &Job) -> bool {
    job.phase.allocations().iter().any(|it| it.state == AllocationState::Pausing)
}
