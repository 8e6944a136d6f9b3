//! The decayed usage of each project's users, updated as jobs change. The cost of a look or a
//! change does not depend on the time since the last one.

use gpool_model::job::Job;
use gpool_model::record::{RecordKey, RecordKind};
use gpool_model::{
    AllocationState, GpuTime, InUse, JobSpec, MilliGpu, ProjectName, ResourceKind, Timestamp, Used,
};

use crate::row::ProjectIx;
use crate::world::World;

/// Returns the GPUs that a job occupies now, whether it starts, runs or leaves.
pub(crate) fn in_use(job: &Job) -> MilliGpu {
    let held = job.phase.allocations().iter();
    let held = held.filter(|it| !matches!(it.state, AllocationState::Claimed { .. }));
    let gpus = held.map(|it| it.resources.get(&ResourceKind::Gpu));
    MilliGpu::new(gpus.fold(0, u64::saturating_add))
}

impl World {
    /// Sets the clock; usage counts up to this time.
    pub fn tell_time(&mut self, now: Timestamp) {
        self.clock = self.clock.max(now);
    }

    /// Returns the recent usage of a user in a project.
    #[must_use]
    pub fn used_by(&self, ix: ProjectIx, uid: u32, now: Timestamp) -> GpuTime {
        let used = self.project_rows()[ix.0].used.get(&uid);
        used.map_or(GpuTime::ZERO, |used| used.by(now, self.policy.use_half_life))
    }

    /// Returns the recent usage of a project.
    #[must_use]
    pub fn used_in(&self, ix: ProjectIx, now: Timestamp) -> GpuTime {
        let all = self.project_rows()[ix.0].used.values();
        let all = all.map(|used| used.by(now, self.policy.use_half_life));
        all.fold(GpuTime::ZERO, GpuTime::saturating_add)
    }

    /// The stored usage, by project and user.
    pub fn all_used(&self) -> impl Iterator<Item = Used> + '_ {
        self.project_rows().iter().flat_map(|row| {
            let counted = row.used.iter().filter(|(_, used)| used.at > Timestamp::ZERO);
            counted.map(|(uid, used)| used_record(&row.name, *uid, used))
        })
    }

    pub fn put_used(&mut self, used: &Used) {
        let ix = self.project_ix(&used.project);
        let gpus = self.holdings.row(ix).used.get(&used.uid).map(|it| it.gpus);
        let (gpus, amount, at) = (gpus.unwrap_or_default(), used.amount, used.at);
        self.holdings.row(ix).used.insert(used.uid, InUse { amount, at, gpus });
        self.mark(RecordKey { kind: RecordKind::Used, key: used.key() });
    }

    /// Records that a job now uses `after` GPUs and no longer `before`.
    pub(crate) fn change_use(&mut self, spec: &JobSpec, before: MilliGpu, after: MilliGpu) {
        if before == after {
            return;
        }
        let (now, half_life) = (self.clock, self.policy.use_half_life);
        let (ix, uid) = (self.project_ix(&spec.project), spec.owner.uid);
        let used = self.holdings.row(ix).used.entry(uid).or_default();
        let gpus = used.gpus.saturating_add(after).saturating_sub(before);
        // While a world is built from records its clock is zero, and nothing is counted.
        if now > used.at {
            (used.amount, used.at) = (used.by(now, half_life), now);
        }
        used.gpus = gpus;
        if used.gpus.is_zero() && used.amount.is_zero() {
            self.holdings.row(ix).used.remove(&uid);
        }
        let key = Used::key_of(uid, &spec.project);
        self.mark(RecordKey { kind: RecordKind::Used, key });
    }

    /// Counts usage up to now, before the rate of decay changes.
    pub(crate) fn settle_use(&mut self) {
        let (now, half_life) = (self.clock, self.policy.use_half_life);
        let mut keys = Vec::new();
        for row in self.holdings.rows_mut() {
            let name = row.name.clone();
            for (uid, used) in row.used.iter_mut().filter(|(_, used)| used.at < now) {
                (used.amount, used.at) = (used.by(now, half_life), now);
                keys.push(Used::key_of(*uid, &name));
            }
        }
        for key in keys {
            self.mark(RecordKey { kind: RecordKind::Used, key });
        }
    }

    pub(crate) fn used_by_key(&self, key: &str) -> Option<Used> {
        let (uid, project) = key.split_once(':')?;
        let uid: u32 = uid.parse().ok()?;
        let row = self.project_row(&ProjectName::new(project))?;
        let used = row.used.get(&uid).filter(|used| used.at > Timestamp::ZERO)?;
        Some(used_record(&row.name, uid, used))
    }
}

fn used_record(project: &ProjectName, uid: u32, used: &InUse) -> Used {
    Used { project: project.clone(), uid, amount: used.amount, at: used.at }
}
