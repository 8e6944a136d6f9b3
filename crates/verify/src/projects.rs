//! What projects hold, summed up from all jobs, and whether they may have more: never above a
//! limit, and never above the guarantee for non-preemptible work.

mod loans;
mod taken_back;

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::reason::Bound;
use gpool_model::{
    Allocation, AllocationState, Bytes, Decision, Exit, JobId, MilliCpu, NodeName, Placement, Plan,
    Policy, Project, ProjectName, ResourceKind, Resources, ShareBetween, Slot,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::arrays::row_of;
use crate::job::{is_parked, n_tasks, of_task};
use crate::tally::add;
use crate::violation::Violation;

use loans::{Guarantees, Loans, is_evictable};
use taken_back::TakenJob;

/// What projects and those above them hold: everything, and the non-preemptible part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Projects {
    /// The kinds that quotas name, and GPUs in any case.
    kinds: BTreeSet<ResourceKind>,
    held: BTreeMap<ProjectName, (Resources, Resources)>,
    /// The bound of a project's preemptible jobs, and that of its non-preemptible ones, besides its
    /// limit.
    bounds: (Option<Bound>, Option<Bound>),
    guarantees: Guarantees,
    /// The guarantees for jobs that can't be evicted.
    promises: Guarantees,
}

/// Whether projects are bounded: by fair shares or by limits.
pub(crate) fn are_bounded(world: &World, policy: &Policy) -> bool {
    let is_limited = |it: &Project| it.quotas.iter().any(|(_, it)| it.limit.finite().is_some());
    are_shared(world, policy) || world.projects().values().any(is_limited)
}

/// Whether the cluster is shared between projects.
pub(crate) fn are_shared(world: &World, policy: &Policy) -> bool {
    let unlimited = |it: &Project| it.quotas == Project::open(it.name.clone()).quotas;
    // Every cycle asks this, so it reads the world's counters; the check of the whole state
    // compares these with the jobs.
    let rows = world.project_rows().iter().filter(|row| row.n_jobs > 0);
    let mut others = rows.filter(|row| !world.projects().contains_key(&row.name));
    policy.share_between == ShareBetween::Users
        || policy.share_between == ShareBetween::Projects
            && (world.projects().len() > 1
                || others.next().is_some()
                || !world.projects().values().all(unlimited))
}

impl Projects {
    fn empty() -> Self {
        let promises = Guarantees::of_installed();
        Self { promises, ..Self::default() }
    }

    /// Counts all jobs, or none where projects do not share the cluster.
    pub fn of(world: &World, policy: &Policy) -> Self {
        let bounds = match (are_shared(world, policy), policy.lend) {
            (false, _) => (None, None),
            (true, true) => (None, Some(Bound::Guaranteed)),
            (true, false) => (Some(Bound::GuaranteedOnly), Some(Bound::GuaranteedOnly)),
        };
        let mut projects = Self { kinds: kinds(world), bounds, ..Self::empty() };
        if !are_bounded(world, policy) {
            return projects;
        }
        for row in world.job_rows() {
            let held = row.job.phase.allocations().iter();
            let held = held.filter(|it| !is_leaving(&it.state));
            for allocation in held {
                projects.add(world, row, &booked(world, allocation));
            }
        }
        projects
    }

    /// Counts the projects that a plan touches, and all above them, from the world's counters; the
    /// check of the whole state compares these with all jobs.
    pub fn as_indexed(world: &World, policy: &Policy, plan: &Plan) -> Self {
        let bounds = match (are_shared(world, policy), policy.lend) {
            (false, _) => (None, None),
            (true, true) => (None, Some(Bound::Guaranteed)),
            (true, false) => (Some(Bound::GuaranteedOnly), Some(Bound::GuaranteedOnly)),
        };
        let mut projects = Self { kinds: kinds(world), bounds, ..Self::empty() };
        if !are_bounded(world, policy) {
            return projects;
        }
        let jobs = plan.decisions.iter().map(|it| match it {
            Decision::Start { job, .. }
            | Decision::Resume { job, .. }
            | Decision::Evict { job, .. } => *job,
        });
        let of: BTreeSet<&ProjectName> =
            jobs.filter_map(|job| Some(&row_of(world, job)?.spec.project)).collect();
        for name in of.into_iter().flat_map(|name| upwards(world, name)) {
            projects.held.entry(name).or_default();
        }
        let holds = world.project_rows().iter().filter(|row| row.sum.held != Resources::none());
        for row in holds {
            let parent = |name: &&ProjectName| world.projects().get(*name)?.parent.as_ref();
            let n_levels = world.projects().len() + 1;
            for name in std::iter::successors(Some(&row.name), parent).take(n_levels) {
                let Some((held, for_good)) = projects.held.get_mut(name) else { continue };
                add(held, &row.sum.held);
                add(for_good, &row.sum.for_good);
            }
        }
        projects
    }

    /// The least that projects hold at any point of a plan: without the evicted jobs.
    pub fn least(&self, snapshot: &Snapshot<'_>, plan: &Plan) -> Self {
        let mut projects = self.clone();
        for decision in &plan.decisions {
            if let Decision::Evict { job, exit, .. } = decision
                && let Some(row) = row_of(snapshot.world, *job)
            {
                projects.remove(snapshot.world, row, *exit);
            }
        }
        projects
    }

    /// The most that projects hold at any point of a plan: with the jobs that it starts or plans to
    /// start.
    pub fn most(&self, snapshot: &Snapshot<'_>, plan: &Plan) -> Self {
        let mut projects = self.clone();
        let world = snapshot.world;
        let planned = plan.planned.iter().map(|it| (it.job, &it.placements[..]));
        let started = plan.decisions.iter().filter_map(Decision::started);
        for (job, placements) in started.chain(planned) {
            if let Some(row) = row_of(world, job) {
                projects.add(world, row, &asked_at(world, row, placements));
            }
        }
        projects
    }

    fn add(&mut self, world: &World, row: &JobRow, more: &Resources) {
        for name in upwards(world, &row.spec.project) {
            let (held, for_good) = self.held.entry(name).or_default();
            add(held, more);
            if !is_preemptible(row) {
                add(for_good, more);
            }
        }
    }

    /// Removes what an evicted job holds; a paused job keeps its memory.
    fn remove(&mut self, world: &World, row: &JobRow, exit: Exit) {
        let stays = |kind: &ResourceKind| {
            exit == Exit::Pause && matches!(kind, ResourceKind::Memory | ResourceKind::Tasks)
        };
        let held = row.job.phase.allocations().iter();
        let held: Vec<Resources> = held.map(|it| booked(world, it)).collect();
        for name in upwards(world, &row.spec.project) {
            let (sum, _) = self.held.entry(name).or_default();
            for less in &held {
                for (kind, amount) in less.iter().filter(|(kind, _)| !stays(kind)) {
                    sum.set(kind.clone(), sum.get(kind).saturating_sub(amount));
                }
            }
        }
    }

    /// Returns how much resources count for, by the kinds that quotas name.
    pub fn by_quota_kind(&self, resources: &Resources) -> Resources {
        let mut counted = Resources::none();
        for kind in &self.kinds {
            counted.set(kind.clone(), resources.counted_as(kind));
        }
        counted
    }

    /// Whether parts of the GPUs are counted.
    pub fn count_parts(&self) -> bool {
        self.kinds.iter().any(ResourceKind::is_part_of_gpus)
    }

    /// How much a project holds of a kind.
    pub fn all(&self, name: &ProjectName, kind: &ResourceKind) -> u64 {
        self.held.get(name).map_or(0, |(held, _)| held.counted_as(kind))
    }

    /// Returns a project's effective guarantee of a kind; `None` without a bound.
    pub fn effective_guarantee(
        &self,
        world: &World,
        name: &ProjectName,
        kind: &ResourceKind,
    ) -> Option<u64> {
        self.guarantees.effective_guarantee(world, name, kind)
    }

    /// How much a project may have of a kind; `None` without a bound.
    pub fn bound(
        &self,
        world: &World,
        name: &ProjectName,
        kind: &ResourceKind,
        bound: Bound,
    ) -> Option<u64> {
        match bound {
            Bound::Limit => world.projects().get(name)?.quotas.get(kind)?.limit.finite(),
            Bound::Guaranteed | Bound::GuaranteedOnly => {
                self.promises.effective_guarantee(world, name, kind)
            }
        }
    }

    /// How much of a kind counts against a bound of a project.
    pub fn held(&self, name: &ProjectName, kind: &ResourceKind, bound: Bound) -> u64 {
        self.held.get(name).map_or(0, |(held, for_good)| match bound {
            Bound::Limit | Bound::GuaranteedOnly => held.counted_as(kind),
            Bound::Guaranteed => for_good.counted_as(kind),
        })
    }

    /// Whether no bound is exceeded and the project of this job borrows nothing. The job is counted
    /// already.
    pub fn allow_with(&self, world: &World, job: JobId) -> bool {
        let Some(row) = row_of(world, job) else { return false };
        let own = &row.spec.project;
        let is_within = |name: &ProjectName, bound| {
            self.kinds.iter().all(|kind| {
                let most = self.bound(world, name, kind, bound);
                most.is_none_or(|most| self.held(name, kind, bound) <= most)
            })
        };
        let mut above = upwards(world, own).into_iter();
        above.all(|name| is_within(&name, Bound::Limit) && is_within(&name, Bound::Guaranteed))
            && is_within(own, Bound::GuaranteedOnly)
    }

    /// Returns the first bound that a job would exceed with any choice of GPUs.
    pub fn exceeded(&self, world: &World, row: &JobRow) -> Option<(ProjectName, ResourceKind)> {
        self.exceeded_by(world, row, &request_of(row))
    }

    /// Returns the first bound that a job would exceed with these resources.
    fn exceeded_by(
        &self,
        world: &World,
        row: &JobRow,
        request: &Resources,
    ) -> Option<(ProjectName, ResourceKind)> {
        let asked = self.by_quota_kind(request);
        let (for_lent, for_good) = self.bounds;
        let other = if is_preemptible(row) { for_lent } else { for_good };
        upwards(world, &row.spec.project).into_iter().find_map(|name| {
            let kind = asked.iter().find(|(kind, more)| {
                let over = |bound| {
                    let most = self.bound(world, &name, kind, bound);
                    most.is_some_and(|most| self.held(&name, kind, bound) + more > most)
                };
                over(Bound::Limit) || other.is_some_and(over)
            })?;
            Some((name.clone(), kind.0.clone()))
        })
    }
}

/// The world's counts for each project equal what its jobs hold.
pub(crate) fn check_holdings(world: &World, found: &mut Vec<Violation>) {
    type ProjectCounts = (u64, Resources, Resources, BTreeSet<JobId>);
    let mut counted = BTreeMap::<&ProjectName, ProjectCounts>::new();
    for row in world.job_rows() {
        let (n_jobs, held, for_good, evictable) = counted.entry(&row.spec.project).or_default();
        evictable.extend(is_evictable(row).then_some(row.job.id));
        *n_jobs += u64::from(row.job.id.element.is_none());
        let allocations = row.job.phase.allocations().iter();
        for it in allocations.filter(|it| !is_leaving(&it.state)) {
            let booked = booked(world, it);
            add(held, &booked);
            if !is_preemptible(row) {
                add(for_good, &booked);
            }
        }
    }
    for row in world.project_rows() {
        let jobs = counted.remove(&row.name).unwrap_or_default();
        let sum = &row.sum;
        if jobs != (row.n_jobs, sum.held.clone(), sum.for_good.clone(), row.evictable.clone()) {
            found.push(Violation::WrongHoldings { project: row.name.clone() });
        }
    }
    let uncounted = counted.into_keys().cloned();
    found.extend(uncounted.map(|project| Violation::WrongHoldings { project }));
}

/// A plan gives no project more than it may have.
pub(crate) fn check(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    mut projects: Projects,
    found: &mut Vec<Violation>,
) {
    let is_bounded = are_bounded(snapshot.world, policy);
    let mut loans = Loans::new(snapshot);
    for decision in &plan.decisions {
        let world = snapshot.world;
        let (job, placements) = match decision {
            Decision::Start { .. } | Decision::Resume { .. } if !is_bounded => continue,
            Decision::Start { job, placements, .. } | Decision::Resume { job, placements, .. } => {
                (*job, placements)
            }
            Decision::Evict { job, why, beneficiary, exit, .. } => {
                let Some(row) = row_of(world, *job) else { continue };
                let taken = TakenJob { row, why: *why, exit: *exit, beneficiary: *beneficiary };
                taken_back::check(snapshot, policy, (&projects, &mut loans), &taken, found);
                projects.remove(world, row, *exit);
                continue;
            }
        };
        let Some(row) = row_of(world, job) else { continue };
        let asked = asked_at(world, row, placements);
        if let Some((project, kind)) = projects.exceeded_by(world, row, &asked) {
            found.push(Violation::OverProjectQuota { job, project, kind });
        }
        projects.add(world, row, &asked);
    }
}

fn is_leaving(state: &AllocationState) -> bool {
    matches!(state, AllocationState::Releasing { .. } | AllocationState::Pausing)
}

fn is_preemptible(row: &JobRow) -> bool {
    row.spec.life.preemptible == Some(true)
}

/// The resource kinds of quotas.
fn kinds(world: &World) -> BTreeSet<ResourceKind> {
    let written = world.projects().values().flat_map(|it| it.quotas.iter().map(|(kind, _)| kind));
    written.chain([&ResourceKind::Gpu]).cloned().collect()
}

/// Returns what an allocation books, including its GPUs by model and by pool.
pub(crate) fn booked(world: &World, allocation: &Allocation) -> Resources {
    let mut booked = allocation.resources.clone();
    let charge = |slot: &Slot| slot.part.charge().get();
    add(&mut booked, &parts_of(world, &allocation.node, allocation.held_slots(), charge));
    booked
}

/// Returns slots of a node's devices by model and by pool.
fn parts_of(
    world: &World,
    node: &NodeName,
    slots: &[Slot],
    charge: impl Fn(&Slot) -> u64,
) -> Resources {
    let mut parts = Resources::none();
    let Some(node) = world.node(node).map(|row| &row.node) else { return parts };
    for device in &node.devices {
        for slot in slots.iter().filter(|slot| slot.device == device.uuid) {
            let charge = charge(slot);
            parts.add(ResourceKind::GpuPool(node.pool.clone()), charge);
            parts.add(ResourceKind::GpuModel(device.model.clone()), charge);
        }
    }
    parts
}

/// Returns what a job asks for of the kinds that quotas may count, with the GPUs that it gets.
fn asked_at(world: &World, row: &JobRow, placements: &[Placement]) -> Resources {
    let mut asked = request_of(row);
    for (rank, it) in placements.iter().enumerate() {
        // The size of a share by memory depends on its device, and is not known before it is
        // booked.
        let gpus = &of_task(row, rank).spec.gpus;
        let each = gpus.size().get() / u64::from(gpus.n_devices().max(1));
        add(&mut asked, &parts_of(world, &it.node, &it.slots, |_| each));
    }
    asked
}

/// Returns what a job asks for of the kinds that quotas may count.
fn request_of(row: &JobRow) -> Resources {
    let n_tasks = u32::try_from(n_tasks(&row.spec)).unwrap_or(u32::MAX);
    let (mut cpus, mut memory) = (0_u64, 0_u64);
    row.spec.each_part(|part| {
        let times = |amount: u64| amount.saturating_mul(u64::from(part.gang.n_tasks()));
        cpus = cpus.saturating_add(times(part.cpus.unwrap_or_default().get()));
        memory = memory.saturating_add(times(part.memory.unwrap_or_default().get()));
    });
    let asked =
        Resources::none().with_gpus(row.spec.gpus_together()).with_cpus(MilliCpu::new(cpus));
    match is_parked(row) {
        true => asked,
        false => asked.with_memory(Bytes::new(memory)).with_tasks(n_tasks),
    }
}

/// A project and all projects above it.
pub(crate) fn upwards(world: &World, name: &ProjectName) -> Vec<ProjectName> {
    let mut path = vec![name.clone()];
    while let Some(parent) = path.last().and_then(|name| world.projects().get(name)?.parent.clone())
        && !path.contains(&parent)
    {
        path.push(parent);
    }
    path
}
