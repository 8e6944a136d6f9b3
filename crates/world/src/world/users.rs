//! Counts of each user's jobs and of what they hold, updated as jobs change.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::job::JobState;
use gpool_model::policy::{Caps, UserHoldings};
use gpool_model::{
    Allocation, Exit, JobId, JobSpec, MilliGpu, Millis, Node, Project, ProjectName, ResourceKind,
    Timestamp,
};

use crate::ends::{self, ExpectedEnd};
use crate::row::JobRow;
use crate::world::World;

/// The jobs of one user that have not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    pub name: Arc<str>,
    pub n_jobs: u64,
    /// Jobs that wait, for any reason.
    pub n_waiting: u64,
    /// Jobs that wait, by project.
    pub waiting_in: BTreeMap<ProjectName, u64>,
    /// Task slots that jobs hold; a paused job keeps its own.
    pub slots: u64,
    /// Task slots of jobs without GPUs among these.
    pub plain: u64,
    /// What the jobs hold that are not paused.
    pub held: UserHoldings,
    /// The same by project, without projects where they hold nothing.
    pub held_in: BTreeMap<ProjectName, UserHoldings>,
}

impl World {
    /// One user's row; `None` if the user has no jobs.
    #[must_use]
    pub fn user(&self, uid: u32) -> Option<&UserRow> {
        self.users.get(&uid)
    }

    /// All users with jobs, in the order of their IDs.
    pub fn users(&self) -> impl Iterator<Item = &UserRow> {
        self.users.values()
    }

    /// How many jobs of a user have not ended, elements of arrays one by one.
    #[must_use]
    pub fn n_of_user(&self, uid: u32) -> u64 {
        self.user(uid).map_or(0, |user| user.n_jobs)
    }

    /// How many dependencies a user's live jobs name, met or not.
    #[must_use]
    pub fn n_dependencies_of(&self, uid: u32) -> u64 {
        self.dependencies.n_by_user.get(&uid).copied().unwrap_or(0)
    }

    pub(crate) fn count_dependencies(&mut self, row: &JobRow) {
        // The elements of an array share one list.
        let n = row.spec.n_dependencies();
        if n > 0 && row.job.id.element.is_none() {
            *self.dependencies.n_by_user.entry(row.spec.owner.uid).or_default() += n;
        }
    }

    pub(crate) fn uncount_dependencies(&mut self, row: &JobRow) {
        let (n, uid) = (row.spec.n_dependencies(), row.spec.owner.uid);
        if n > 0 && row.job.id.element.is_none() {
            let counted = self.dependencies.n_by_user.get_mut(&uid).expect("it was counted");
            *counted -= n;
            if *counted == 0 {
                self.dependencies.n_by_user.remove(&uid);
            }
        }
        // The job's dependencies may change.
        self.dependencies.n_met.remove(&row.job.id);
    }

    /// Returns what a user's jobs hold.
    #[must_use]
    pub fn held_by(&self, uid: u32) -> UserHoldings {
        self.user(uid).map(|user| user.held).unwrap_or_default()
    }

    /// How many task slots a user's jobs take.
    #[must_use]
    pub fn slots_of(&self, uid: u32) -> u64 {
        self.user(uid).map_or(0, |user| user.slots)
    }

    /// Returns how many task slots one user may have, and how many exist; `None` where no node
    /// limits users. Every node counts, also one that takes no work: the jobs that it runs count
    /// for their users.
    #[must_use]
    pub fn user_slots(&self) -> Option<(u64, u64)> {
        let nodes = || self.nodes.iter().map(|row| &row.node);
        let most = || nodes().fold(0, |sum: u64, node| sum.saturating_add(node.user_tasks()));
        let all = || nodes().fold(0, |sum: u64, node| sum.saturating_add(node.tasks()));
        self.limits_slots().then(|| (most(), all()))
    }

    /// Whether a node allows one user fewer than all of its task slots.
    #[must_use]
    pub fn limits_slots(&self) -> bool {
        self.n_limiting_slots > 0
    }

    /// Updates the limits after a node changed. This may decide whether shapes name their users.
    pub(crate) fn limit_slots_anew(&mut self, before: Option<&Node>, after: Option<&Node>) {
        let limits = |node: &Node| usize::from(node.user_tasks() < node.tasks());
        let was_limited = self.limits_slots();
        self.n_limiting_slots += after.map_or(0, limits);
        self.n_limiting_slots -= before.map_or(0, limits);
        if self.limits_slots() != was_limited {
            let pending: Vec<JobId> = self.queue.jobs().collect();
            self.queue_anew(&pending);
        }
    }

    /// Returns the caps of a user.
    #[must_use]
    pub fn caps_of(&self, uid: u32) -> Caps {
        let caps = &self.policy.user_caps;
        self.user(uid).map_or(caps.all, |user| caps.of(&user.name))
    }

    /// The projects that cap what one user holds in them, among this project and all above it,
    /// itself first.
    pub fn capping<'a>(&'a self, project: &ProjectName) -> impl Iterator<Item = &'a Project> {
        let first = Some(project).filter(|_| self.n_capping > 0);
        first
            .into_iter()
            .flat_map(|name| self.upwards(name))
            .filter(|it| it.user_caps.limits_held())
    }

    /// Returns what a user's jobs hold in a project and all projects below it.
    #[must_use]
    pub fn held_in(&self, uid: u32, project: &ProjectName) -> UserHoldings {
        let is_below = |name: &ProjectName| {
            name == project || self.upwards(name).any(|it| it.name == *project)
        };
        let own = self.user(uid).into_iter().flat_map(|user| &user.held_in);
        let below = own.filter(|(name, _)| is_below(name));
        below.fold(UserHoldings::default(), |sum, (_, held)| UserHoldings {
            jobs: sum.jobs + held.jobs,
            gpus: sum.gpus.saturating_add(held.gpus),
        })
    }

    /// Returns the time between the first signal and KILL when a job is evicted by this exit: the
    /// job's own grace, but no longer than its project, the projects above and the policy allow.
    #[must_use]
    pub fn grace_for(&self, spec: &JobSpec, exit: Exit) -> Millis {
        spec.grace_for(exit).min(self.save_time_max(&spec.project))
    }

    /// Returns when a job that holds something is expected to have left if it is evicted now.
    #[must_use]
    pub fn expected_end_if_taken_back(
        &self,
        row: &JobRow,
        exit: Exit,
        now: Timestamp,
    ) -> ExpectedEnd {
        ends::of_taken_back(row, self.grace_for(&row.spec, exit), now)
    }

    /// Returns how long evicted jobs of a project have at most to save and end.
    #[must_use]
    pub fn save_time_max(&self, project: &ProjectName) -> Millis {
        let said = self.upwards(project).filter_map(|it| it.jobs.save_time_max);
        said.chain([self.policy.save_time_max]).min().unwrap_or(self.policy.save_time_max)
    }

    /// A project and all projects above it. Stops even where the records contain a cycle.
    pub fn upwards(&self, name: &ProjectName) -> impl Iterator<Item = &Project> {
        let above = |it: &&Project| self.projects.get(it.parent.as_ref()?);
        std::iter::successors(self.projects.get(name), above).take(self.projects.len())
    }

    /// Updates the caps after a project changed. This may decide whether shapes in it name their
    /// users.
    pub(crate) fn cap_anew(&mut self, name: &ProjectName, before: Option<&Project>) {
        let said = |it: &Project| (it.user_caps.limits_held(), it.parent.clone());
        let before = before.map(said).unwrap_or_default();
        let after = self.projects.get(name).map(said).unwrap_or_default();
        let some = self.n_capping > 0 || after.0;
        self.n_capping += usize::from(after.0);
        self.n_capping -= usize::from(before.0);
        if some && before != after {
            let pending: Vec<JobId> = self.queue.jobs().collect();
            self.queue_anew(&pending);
        }
    }

    /// Counts `n` jobs of this state for a row.
    pub(crate) fn count_for_user(&mut self, row: &JobRow, state: JobState, n: u64) {
        let owner = &row.spec.owner;
        let user = self.users.entry(owner.uid).or_insert_with(|| UserRow {
            name: Arc::clone(&owner.user),
            n_jobs: 0,
            n_waiting: 0,
            waiting_in: BTreeMap::new(),
            slots: 0,
            plain: 0,
            held: UserHoldings::default(),
            held_in: BTreeMap::new(),
        });
        user.n_jobs += n;
        if state <= JobState::Pending && n > 0 {
            user.n_waiting += n;
            *user.waiting_in.entry(row.spec.project.clone()).or_default() += n;
        }
    }

    pub(crate) fn uncount_for_user(&mut self, row: &JobRow, state: JobState, n: u64) {
        let user = self.users.get_mut(&row.spec.owner.uid).expect("it was counted");
        user.n_jobs -= n;
        if state <= JobState::Pending && n > 0 {
            user.n_waiting -= n;
            let here = user.waiting_in.get_mut(&row.spec.project).expect("it was counted");
            *here -= n;
            if *here == 0 {
                user.waiting_in.remove(&row.spec.project);
            }
        }
        if user.n_jobs == 0 {
            self.users.remove(&row.spec.owner.uid);
        }
    }

    pub(crate) fn count_held(&mut self, row: &JobRow) {
        if let Some(user) = self.users.get_mut(&row.spec.owner.uid) {
            user.slots += slots(row);
            user.plain += plain(row);
        }
        let Some(gpus) = held(row) else { return };
        if let Some(user) = self.users.get_mut(&row.spec.owner.uid) {
            let here = user.held_in.entry(row.spec.project.clone()).or_default();
            for held in [&mut user.held, here] {
                held.jobs += 1;
                held.gpus = held.gpus.saturating_add(gpus);
            }
        }
    }

    pub(crate) fn uncount_held(&mut self, row: &JobRow) {
        if let Some(user) = self.users.get_mut(&row.spec.owner.uid) {
            user.slots -= slots(row);
            user.plain -= plain(row);
        }
        let Some(gpus) = held(row) else { return };
        // The row leaves with the last of the user's jobs.
        if let Some(user) = self.users.get_mut(&row.spec.owner.uid) {
            let here = user.held_in.get_mut(&row.spec.project).expect("it was counted");
            for held in [&mut user.held, here] {
                held.jobs -= 1;
                held.gpus = held.gpus.saturating_sub(gpus);
            }
            if user.held_in[&row.spec.project].jobs == 0 {
                user.held_in.remove(&row.spec.project);
            }
        }
    }
}

/// Returns how many task slots the tasks of a job take.
fn slots(row: &JobRow) -> u64 {
    row.job.phase.allocations().iter().map(|it| it.resources.get(&ResourceKind::Tasks)).sum()
}

fn plain(row: &JobRow) -> u64 {
    row.job.phase.allocations().iter().map(Allocation::plain_tasks).sum()
}

/// Returns what the tasks of a job that hold something asked of devices. A share by memory counts
/// as a whole device, because its part depends on the device. Instances count by what the job was
/// given.
fn held(row: &JobRow) -> Option<MilliGpu> {
    let n_tasks = row.job.phase.allocations().len();
    let of_instances = row.spec.shapes().any(|(gpus, _)| gpus.is_of_instances());
    let together = || match &row.spec.request {
        _ if of_instances => row.job.allocated_gpus(),
        it if it.has_parts() => it.gpus_together(),
        _ => row.spec.gpus.size().checked_mul(n_tasks as u64).unwrap_or(MilliGpu::MAX),
    };
    (n_tasks > 0 && !row.job.phase.is_parked()).then(together)
}
