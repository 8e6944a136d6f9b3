//! What each user's jobs hold, summed up from all jobs, and whether a user may have more.

use std::collections::BTreeMap;

use gpool_model::policy::{Caps, UserCap};
use gpool_model::{MilliGpu, Plan, Policy, ProjectName, ResourceKind};
use gpool_world::{JobRow, Snapshot, World};

use crate::arrays::row_of;
use crate::job::{is_parked, n_tasks, started};
use crate::projects::upwards;
use crate::tally::capacity;
use crate::violation::Violation;

/// What users hold: jobs, and thousandths of GPUs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    held: BTreeMap<u32, (u64, u64)>,
    /// The same in each project, with all projects below it.
    held_in: BTreeMap<(u32, ProjectName), (u64, u64)>,
    /// Task slots, paused jobs included.
    slots: BTreeMap<u32, u64>,
}

impl Users {
    /// Counts all jobs, or none where neither the policy nor a project limits users.
    pub fn of(world: &World, policy: &Policy) -> Self {
        Self::count(world, policy, world.job_rows())
    }

    /// Counts only the jobs that the index lists as holding something.
    pub fn as_indexed(world: &World, policy: &Policy) -> Self {
        Self::count(world, policy, world.holding())
    }

    fn count<'a>(world: &World, policy: &Policy, rows: impl Iterator<Item = &'a JobRow>) -> Self {
        let mut users = Self::default();
        if is_open(world, policy) {
            return users;
        }
        for row in rows {
            if holds(row) {
                users.add_so_much(world, row, gpus_held(row));
            }
            if !row.job.phase.allocations().is_empty() {
                *users.slots.entry(row.spec.owner.uid).or_default() += slots(row);
            }
        }
        users
    }

    /// Adds the jobs that a plan starts or plans to start.
    pub fn after(&self, snapshot: &Snapshot<'_>, plan: &Plan) -> Self {
        let mut users = self.clone();
        let planned = plan.planned.iter().map(|planned| planned.job);
        let jobs = started(plan).into_iter().chain(planned);
        for row in jobs.filter_map(|job| row_of(snapshot.world, job)) {
            users.add(snapshot.world, row);
        }
        users
    }

    /// Adds one more job of its user, with the GPUs that it asks for.
    pub fn add(&mut self, world: &World, row: &JobRow) {
        self.add_so_much(world, row, row.spec.gpus_together().get());
        *self.slots.entry(row.spec.owner.uid).or_default() += new_slots(row);
    }

    /// How many task slots a user's jobs take.
    pub fn slots(&self, uid: u32) -> u64 {
        self.slots.get(&uid).copied().unwrap_or(0)
    }

    fn add_so_much(&mut self, world: &World, row: &JobRow, gpus: u64) {
        let uid = row.spec.owner.uid;
        let add = |(jobs, sum): &mut (u64, u64)| {
            *jobs += 1;
            *sum = sum.saturating_add(gpus);
        };
        add(self.held.entry(uid).or_default());
        for name in upwards(world, &row.spec.project) {
            add(self.held_in.entry((uid, name)).or_default());
        }
    }

    /// How much of a kind a user holds, in a project and all below it, or in total.
    pub fn held(&self, uid: u32, project: Option<&ProjectName>, what: UserCap) -> u64 {
        let held = match project {
            None => self.held.get(&uid),
            Some(name) => self.held_in.get(&(uid, name.clone())),
        };
        let (jobs, gpus) = held.copied().unwrap_or_default();
        match what {
            UserCap::RunningJobs => jobs,
            UserCap::Gpus => gpus,
        }
    }

    /// Whether a job of this user would exceed a cap.
    pub fn is_capped(&self, world: &World, policy: &Policy, row: &JobRow) -> bool {
        if is_open(world, policy) {
            return false;
        }
        let owner = &row.spec.owner;
        let (more, slots) = (new_slots(row), self.slots(owner.uid));
        if more > 0 && slots_most(world).is_some_and(|(most, _)| slots + more > most) {
            return true;
        }
        let gpus = row.spec.gpus_together().get();
        let above = upwards(world, &row.spec.project).into_iter().map(Some);
        std::iter::once(None).chain(above).any(|project| {
            [(UserCap::RunningJobs, 1), (UserCap::Gpus, gpus)].into_iter().any(|(what, more)| {
                let most = most(world, policy, &owner.user, project.as_ref(), what);
                let held = self.held(owner.uid, project.as_ref(), what);
                more > 0 && most.is_some_and(|most| held + more > most)
            })
        })
    }
}

/// How much of a kind a user may have, in a project and all below it, or in total.
pub(crate) fn most(
    world: &World,
    policy: &Policy,
    user: &str,
    project: Option<&ProjectName>,
    what: UserCap,
) -> Option<u64> {
    let of_user = policy.user_caps.of.get(user).unwrap_or(&policy.user_caps.all);
    let caps: Caps = match project {
        None => *of_user,
        Some(name) => world.projects().get(name)?.user_caps,
    };
    match what {
        UserCap::RunningJobs => caps.running_jobs,
        UserCap::Gpus => caps.gpus.map(MilliGpu::get),
    }
}

/// Whether a project, or one above it, caps what one user may hold.
pub(crate) fn is_capping(world: &World, project: &ProjectName) -> bool {
    let caps = |name: &ProjectName| world.projects().get(name).map(|it| it.user_caps);
    let mut above = upwards(world, project).into_iter();
    above.any(|name| caps(&name).is_some_and(|it| (it.running_jobs, it.gpus) != (None, None)))
}

/// Whether no user is limited.
pub(crate) fn is_open(world: &World, policy: &Policy) -> bool {
    let limits = |caps: &Caps| (caps.running_jobs, caps.gpus) != (None, None);
    !world.limits_slots()
        && policy.user_caps.is_none()
        && !world.projects().values().any(|it| limits(&it.user_caps))
}

/// How many task slots a job has.
fn slots(row: &JobRow) -> u64 {
    row.job.phase.allocations().iter().map(|it| it.resources.get(&ResourceKind::Tasks)).sum()
}

/// How many task slots a job takes when it starts; a job that resumes has its slots already.
pub(crate) fn new_slots(row: &JobRow) -> u64 {
    if is_parked(row) { 0 } else { n_tasks(&row.spec) as u64 }
}

/// How many task slots one user may have, and how many exist, if that is limited.
pub(crate) fn slots_most(world: &World) -> Option<(u64, u64)> {
    let sum = |kind: &ResourceKind| -> u64 {
        world.nodes().iter().map(|row| capacity(&row.node, kind)).fold(0, u64::saturating_add)
    };
    let (most, all) = (sum(&ResourceKind::UserTasks), sum(&ResourceKind::Tasks));
    (most < all).then_some((most, all))
}

/// Returns the GPUs that a job with allocations counts for: its request, or the instances that it
/// has.
fn gpus_held(row: &JobRow) -> u64 {
    if !row.spec.shapes().any(|(gpus, _)| gpus.is_of_instances()) {
        return row.spec.gpus_together().get();
    }
    let slots = row.job.phase.allocations().iter().flat_map(|it| &it.slots);
    slots.map(|slot| slot.part.charge().get()).sum()
}

fn holds(row: &JobRow) -> bool {
    !row.job.phase.allocations().is_empty() && !is_parked(row)
}

/// The counts of one user: all jobs, jobs that wait, jobs that hold something, GPUs. The last two
/// are also counted by project.
#[derive(Debug, Default, PartialEq, Eq)]
struct UserCounts {
    all: (u64, u64, u64, u64),
    slots: (u64, u64),
    in_projects: BTreeMap<ProjectName, (u64, u64)>,
}

/// The counts of each user are right.
pub(crate) fn check_index(world: &World, found: &mut Vec<Violation>) {
    if world.limits_slots() != slots_most(world).is_some() {
        let about = format!("slots of users: {}", world.limits_slots());
        found.push(Violation::WrongIndexEntry { index: "users", about });
    }
    let mut expected = BTreeMap::<u32, UserCounts>::new();
    for row in world.job_rows() {
        let counted = expected.entry(row.spec.owner.uid).or_default();
        let (n_jobs, n_waiting, n_holding, gpus) = &mut counted.all;
        let n = row.job.array.as_ref().map_or(1, |array| u64::from(array.n_unstarted()));
        *n_jobs += n;
        *n_waiting += if row.job.phase.allocations().is_empty() { n } else { 0 };
        let plain = row.job.phase.allocations().iter().filter(|it| it.slots.is_empty());
        let plain = plain.map(|it| it.resources.get(&ResourceKind::Tasks)).sum::<u64>();
        counted.slots = (counted.slots.0 + slots(row), counted.slots.1 + plain);
        if holds(row) {
            let own = gpus_held(row);
            let here = counted.in_projects.entry(row.spec.project.clone()).or_default();
            (*n_holding, *gpus) = (*n_holding + 1, *gpus + own);
            *here = (here.0 + 1, here.1 + own);
        }
    }
    expected.retain(|_, counted| counted.all.0 > 0);
    for (uid, counted) in expected {
        let indexed = world.user(uid).map(|user| {
            let held = user.held_in.iter();
            let held = held.map(|(name, it)| (name.clone(), (it.jobs, it.gpus.get())));
            let all = (user.n_jobs, user.n_waiting, user.held.jobs, user.held.gpus.get());
            UserCounts { all, slots: (user.slots, user.plain), in_projects: held.collect() }
        });
        if indexed.as_ref() != Some(&counted) {
            let about = format!("user {uid}: {indexed:?}, counted {counted:?}");
            found.push(Violation::WrongIndexEntry { index: "users", about });
        }
    }
}
