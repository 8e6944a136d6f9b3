//! What each user's jobs hold, counted anew from all jobs, and whether a user may have more.

use std::collections::BTreeMap;

use gpool_model::policy::UserCap;
use gpool_model::{Plan, Policy};
use gpool_world::{JobRow, Snapshot, World};

use crate::arrays::row_of;
use crate::order::{is_parked, started};

/// What users hold: jobs, and thousandths of GPUs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    held: BTreeMap<u32, (u64, u64)>,
}

impl Users {
    /// Counts all jobs; nothing where the policy limits nobody.
    pub fn of(world: &World, policy: &Policy) -> Self {
        let mut users = Self::default();
        if policy.user_caps.is_none() {
            return users;
        }
        let holds = |row: &&JobRow| !row.job.phase.allocations().is_empty() && !is_parked(row);
        for row in world.jobs().values().filter(holds) {
            users.add(row.spec.owner.uid, row.spec.gpus_together().get());
        }
        users
    }

    /// The same with what a plan starts, and what it keeps for those that are to start.
    pub fn after(&self, snapshot: &Snapshot<'_>, plan: &Plan) -> Self {
        let mut users = self.clone();
        let planned = plan.planned.iter().map(|planned| planned.job);
        let jobs = started(plan).into_iter().chain(planned);
        for row in jobs.filter_map(|job| row_of(snapshot.world, job)) {
            users.add(row.spec.owner.uid, row.spec.gpus_together().get());
        }
        users
    }

    /// One more job of a user, with so much of GPUs.
    pub fn add(&mut self, uid: u32, gpus: u64) {
        let (jobs, sum) = self.held.entry(uid).or_default();
        *jobs += 1;
        *sum = sum.saturating_add(gpus);
    }

    /// How much of one kind a user holds.
    pub fn held(&self, uid: u32, what: UserCap) -> u64 {
        let (jobs, gpus) = self.held.get(&uid).copied().unwrap_or_default();
        match what {
            UserCap::RunningJobs => jobs,
            UserCap::Gpus => gpus,
        }
    }

    /// Whether a job of that user would be more than he may have.
    pub fn is_capped(&self, policy: &Policy, row: &JobRow) -> bool {
        let owner = &row.spec.owner;
        let gpus = row.spec.gpus_together().get();
        [(UserCap::RunningJobs, 1), (UserCap::Gpus, gpus)].into_iter().any(|(what, more)| {
            let most = most(policy, &owner.user, what);
            more > 0 && most.is_some_and(|most| self.held(owner.uid, what) + more > most)
        })
    }
}

/// How much of one kind a user may have.
pub(crate) fn most(policy: &Policy, user: &str, what: UserCap) -> Option<u64> {
    let caps = &policy.user_caps;
    let caps = caps.of.get(user).unwrap_or(&caps.all);
    match what {
        UserCap::RunningJobs => caps.running_jobs,
        UserCap::Gpus => caps.gpus.map(gpool_model::MilliGpu::get),
    }
}
