//! Decides which work of a project may be reclaimed: work over quota that has run for its minimum
//! run time. Recomputed from the jobs and the records of projects.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    AllocationState, Amount, JobId, Millis, MinRuntime, Phase, Project, ProjectName, ResourceKind,
    Resources,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::projects::{Projects, booked, upwards};
use crate::tally::add;

/// The jobs within the guarantee of each project that loses work.
pub(crate) struct Loans<'a> {
    snapshot: &'a Snapshot<'a>,
    safe: BTreeMap<ProjectName, BTreeSet<JobId>>,
}

impl<'a> Loans<'a> {
    pub fn new(snapshot: &'a Snapshot<'a>) -> Self {
        Self { snapshot, safe: BTreeMap::new() }
    }

    /// Whether a job is over quota. It is not among the jobs that fit into its project's effective
    /// guarantee. Also, the project and all projects above it hold more than theirs, except
    /// projects that are also above the beneficiary.
    pub fn has(&mut self, projects: &Projects, row: &JobRow, taker: &ProjectName) -> bool {
        let world = self.snapshot.world;
        let name = &row.spec.project;
        if !self.safe.contains_key(name) {
            let safe = self.safe_of(projects, name);
            self.safe.insert(name.clone(), safe);
        }
        let above = upwards(world, taker);
        let levels = upwards(world, name).into_iter().filter(|it| !above.contains(it));
        let levels: Vec<ProjectName> = levels.collect();
        let held = held_by(world, projects, row);
        let is_over = |kind: &ResourceKind| {
            levels.iter().all(|name| {
                projects
                    .effective_guarantee(world, name, kind)
                    .is_some_and(|most| projects.all(name, kind) > most)
            })
        };
        held.iter().any(|(kind, _)| is_over(kind)) && !self.safe[name].contains(&row.job.id)
    }

    /// Whether a job is still within the minimum run time that `of` selects.
    pub fn is_too_new(&self, row: &JobRow, of: fn(&MinRuntime) -> Option<Millis>) -> bool {
        let Snapshot { world, now } = *self.snapshot;
        let since = match &row.job.phase {
            Phase::Starting { since, .. } => *since,
            Phase::Running { started_at, .. } => *started_at,
            _ => return false,
        };
        let levels = upwards(world, &row.spec.project);
        let said = levels.iter().find_map(|it| of(&world.projects().get(it)?.min_runtime));
        said.is_some_and(|length| since.after(length) > now)
    }

    /// The preemptible jobs of a project that its guarantee covers: as many as fit beside its
    /// non-preemptible jobs, by priority and then by age.
    fn safe_of(&self, projects: &Projects, name: &ProjectName) -> BTreeSet<JobId> {
        let world = self.snapshot.world;
        let Some(project) = world.project_row(name) else { return BTreeSet::new() };
        let mut rows: Vec<&JobRow> =
            project.evictable.iter().filter_map(|id| world.job(*id)).collect();
        rows.sort_by_key(|row| (Reverse(row.job.priority), row.spec.submitted_at, row.job.id));
        let mut sum = projects.by_quota_kind(&project.sum.for_good);
        let mut safe = BTreeSet::new();
        for row in rows {
            let held = held_by(world, projects, row);
            let fits = held.iter().all(|(kind, amount)| {
                projects
                    .effective_guarantee(world, name, kind)
                    .is_none_or(|most| sum.get(kind) + amount <= most)
            });
            if fits {
                add(&mut sum, &held);
                safe.insert(row.job.id);
            }
        }
        safe
    }
}

/// What a job holds of the kinds that quotas count.
fn held_by(world: &World, projects: &Projects, row: &JobRow) -> Resources {
    let mut held = Resources::none();
    for allocation in row.job.phase.allocations() {
        add(&mut held, &booked(world, allocation));
    }
    projects.by_quota_kind(&held)
}

/// Whether a job holds something that can be evicted.
pub(crate) fn is_evictable(row: &JobRow) -> bool {
    let is_held = |state: &AllocationState| {
        matches!(state, AllocationState::Placed | AllocationState::Running)
    };
    let held = row.job.phase.allocations();
    row.spec.life.preemptible == Some(true)
        && !held.is_empty()
        && held.iter().all(|it| is_held(&it.state))
}

/// Effective guarantees; each level of the tree is computed on first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guarantees {
    /// Whether they count as far as the installed capacity covers them, and not the present one.
    pub of_installed: bool,
    levels: RefCell<BTreeMap<(Option<ProjectName>, ResourceKind), Level>>,
    /// The remainder of each part of the GPUs, for projects that set no quota for it.
    remainders: RefCell<BTreeMap<ResourceKind, BTreeMap<ProjectName, u64>>>,
}

/// The guarantees of one kind among the children of one project.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// The capacity that they share.
    cap: u128,
    /// Whether the parent has no bound.
    is_open: bool,
    /// The sum of the finite guarantees.
    sum: u128,
    /// What each child without a finite guarantee gets.
    rest: u128,
}

impl Level {
    fn part(&self, amount: u64) -> u128 {
        let amount = u128::from(amount);
        if self.sum > self.cap { amount * self.cap / self.sum } else { amount }
    }
}

impl Guarantees {
    /// Guarantees as far as the installed capacity covers them.
    pub fn of_installed() -> Self {
        Self { of_installed: true, ..Self::default() }
    }

    /// Returns a project's effective guarantee of a kind; `None` without a bound. Where siblings
    /// are guaranteed more than they share, each gets a proportional part.
    pub fn effective_guarantee(
        &self,
        world: &World,
        name: &ProjectName,
        kind: &ResourceKind,
    ) -> Option<u64> {
        let project = world.projects().get(name)?;
        let level = self.level(world, project.parent.as_ref(), kind);
        let kept = match self.bounded(world, project, kind).finite() {
            Some(amount) => level.part(amount),
            None if level.is_open => return None,
            None => level.rest,
        };
        u64::try_from(kept).ok()
    }

    fn level(&self, world: &World, parent: Option<&ProjectName>, kind: &ResourceKind) -> Level {
        let key = (parent.cloned(), kind.clone());
        if let Some(level) = self.levels.borrow().get(&key) {
            return *level;
        }
        let above = parent.and_then(|parent| self.effective_guarantee(world, parent, kind));
        let siblings = world.projects().values().filter(|it| it.parent.as_ref() == parent);
        let all: Vec<Option<u64>> =
            siblings.map(|it| self.bounded(world, it, kind).finite()).collect();
        let capacity = if self.of_installed { world.installed() } else { world.capacity() };
        let cap = u128::from(above.unwrap_or_else(|| capacity.counted_as(kind)));
        let sum = all.iter().flatten().map(|it| u128::from(*it)).sum();
        let mut level = Level { cap, is_open: above.is_none(), sum, rest: 0 };
        let kept: u128 = all.iter().flatten().map(|it| level.part(*it)).sum();
        let n_unbounded = all.iter().filter(|it| it.is_none()).count() as u128;
        level.rest = cap.saturating_sub(kept) / n_unbounded.max(1);
        self.levels.borrow_mut().insert(key, level);
        level
    }

    /// Returns a project's guarantee, up to its limit; no bound where no project is guaranteed the
    /// kind.
    fn bounded(&self, world: &World, project: &Project, kind: &ResourceKind) -> Amount {
        match world.promises(kind) {
            true => self.configured_guarantee(world, project, kind).min(project.quota(kind).limit),
            false => Amount::UNLIMITED,
        }
    }

    /// Returns the configured guarantee; a department without one is guaranteed the sum of its
    /// children.
    fn configured_guarantee(
        &self,
        world: &World,
        project: &Project,
        kind: &ResourceKind,
    ) -> Amount {
        if let Some(guaranteed) = project.quota(kind).guaranteed {
            return guaranteed;
        }
        if let Some(left) = self.left_for(world, project, kind) {
            return Amount::saturating_of(left);
        }
        let children = world.projects().values();
        let children = children.filter(|it| it.parent.as_ref() == Some(&project.name));
        children
            .map(|it| self.configured_guarantee(world, it, kind))
            .fold(Amount::NOTHING, Amount::plus)
    }

    fn left_for(&self, world: &World, project: &Project, kind: &ResourceKind) -> Option<u64> {
        if !kind.is_part_of_gpus() {
            return None;
        }
        let mut left = self.remainders.borrow_mut();
        let left = left.entry(kind.clone()).or_insert_with(|| {
            let left = world.left_of_part(kind).into_iter();
            left.map(|(name, amount)| (name.clone(), amount)).collect()
        });
        left.get(&project.name).copied()
    }
}
