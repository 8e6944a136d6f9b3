//! What each project holds, updated as jobs change, and the capacity that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::job::StopCause;
use gpool_model::{
    Allocation, Device, Exit, InUse, JobId, MilliGpu, Node, Phase, Project, ProjectName, Record,
    ResourceKind, Resources,
};

use crate::row::{JobRow, ProjectIx};
use crate::world::World;
use crate::world::evictable::EvictableRank;
use crate::world::parts::{GpuClass, classes, guaranteed_kinds};

/// One project with what its jobs hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRow {
    pub name: ProjectName,
    /// How many jobs have not ended; an array counts once.
    pub n_jobs: u64,
    /// What its jobs hold together.
    pub sum: Holding,
    /// The same by user ID, for users that hold anything.
    pub by_user: BTreeMap<u32, Holding>,
    /// Recent usage, by user ID.
    pub used: BTreeMap<u32, InUse>,
    /// Jobs that hold something and can be evicted.
    pub evictable: BTreeSet<JobId>,
    /// The values that decide their precedence.
    pub ranks: BTreeMap<JobId, EvictableRank>,
    /// How many of these have each priority, with jobs that make another one larger counted apart.
    pub evictable_by: BTreeMap<(i32, bool), u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holding {
    /// Everything held or claimed, without capacity that is being given up.
    pub held: Resources,
    /// The part that belongs to non-preemptible jobs.
    pub for_good: Resources,
    /// Capacity that is being given up and will be wanted again.
    pub returning: Resources,
    /// How many jobs with held or returning capacity ask for less than a device, by their part of
    /// it.
    pub shares: BTreeMap<MilliGpu, u32>,
}

/// All rows, and the totals that they share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holdings {
    /// The number of GPUs of each pool and model.
    pub classes: BTreeMap<GpuClass, u64>,
    /// How many projects are guaranteed each kind.
    pub n_guarantees: BTreeMap<ResourceKind, u64>,
    // Rows are never removed, so that indexes into them stay valid.
    rows: Vec<ProjectRow>,
    ix_by_name: BTreeMap<ProjectName, ProjectIx>,
    /// What nodes that take work have and may give, held or not.
    pub capacity: Resources,
    /// What all nodes have for jobs, usable at the moment or not.
    pub installed: Resources,
}

impl Holdings {
    pub fn row(&mut self, ix: ProjectIx) -> &mut ProjectRow {
        &mut self.rows[ix.0]
    }

    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut ProjectRow> {
        self.rows.iter_mut()
    }
}

impl World {
    /// Adds a project or replaces its record.
    pub fn put_project(&mut self, project: Project) {
        self.mark(Record::Project(Box::new(project.clone())).key());
        self.project_ix(&project.name);
        let name = project.name.clone();
        for kind in guaranteed_kinds(&project) {
            *self.holdings.n_guarantees.entry(kind.clone()).or_default() += 1;
        }
        let before = Arc::make_mut(&mut self.projects).insert(name.clone(), project);
        self.promise_no_more(before.as_ref());
        self.cap_anew(&name, before.as_ref());
    }

    pub fn remove_project(&mut self, name: &ProjectName) -> Option<Project> {
        let project = Arc::make_mut(&mut self.projects).remove(name)?;
        self.mark(Record::Project(Box::new(project.clone())).key());
        self.promise_no_more(Some(&project));
        self.cap_anew(name, Some(&project));
        Some(project)
    }

    fn promise_no_more(&mut self, project: Option<&Project>) {
        for kind in project.into_iter().flat_map(guaranteed_kinds) {
            if let Some(n_projects) = self.holdings.n_guarantees.get_mut(kind) {
                *n_projects -= 1;
                if *n_projects == 0 {
                    self.holdings.n_guarantees.remove(kind);
                }
            }
        }
    }

    /// What the jobs of each project hold, by [`ProjectIx`]. Some projects may have no record any
    /// more.
    #[must_use]
    pub fn project_rows(&self) -> &[ProjectRow] {
        &self.holdings.rows
    }

    /// What the jobs of a project hold; `None` if it never had a job or a record.
    #[must_use]
    pub fn project_row(&self, name: &ProjectName) -> Option<&ProjectRow> {
        self.holdings.ix_by_name.get(name).map(|ix| &self.holdings.rows[ix.0])
    }

    /// The index of a project in [`World::project_rows`].
    #[must_use]
    pub fn ix_of_project(&self, name: &ProjectName) -> Option<ProjectIx> {
        self.holdings.ix_by_name.get(name).copied()
    }

    /// What nodes that take work have and may give, held or not.
    #[must_use]
    pub fn capacity(&self) -> &Resources {
        &self.holdings.capacity
    }

    /// What all nodes have for jobs, usable at the moment or not: guarantees are meant for it.
    #[must_use]
    pub fn installed(&self) -> &Resources {
        &self.holdings.installed
    }

    pub(crate) fn project_ix(&mut self, name: &ProjectName) -> ProjectIx {
        if let Some(ix) = self.holdings.ix_by_name.get(name) {
            return *ix;
        }
        let ix = ProjectIx(self.holdings.rows.len());
        self.holdings.rows.push(ProjectRow {
            name: name.clone(),
            n_jobs: 0,
            sum: Holding::default(),
            by_user: BTreeMap::new(),
            used: BTreeMap::new(),
            evictable: BTreeSet::new(),
            ranks: BTreeMap::new(),
            evictable_by: BTreeMap::new(),
        });
        self.holdings.ix_by_name.insert(name.clone(), ix);
        ix
    }

    pub(crate) fn count_for_project(&mut self, row: &JobRow) {
        let ix = self.project_ix(&row.spec.project);
        let held = self.charged_to(row);
        let project = &mut self.holdings.rows[ix.0];
        project.n_jobs += u64::from(row.job.id.element.is_none());
        for (part, amount) in &held {
            add(project.sum.part(*part), amount);
            let user = project.by_user.entry(row.spec.owner.uid).or_default();
            add(user.part(*part), amount);
        }
        if let Some(share) = share_held(row) {
            project.sum.add_share(share);
            project.by_user.entry(row.spec.owner.uid).or_default().add_share(share);
        }
        if row.is_evictable() && project.evictable.insert(row.job.id) {
            *project.evictable_by.entry(rank(row)).or_default() += 1;
            project.ranks.insert(row.job.id, EvictableRank::of(row));
        }
    }

    pub(crate) fn uncount_for_project(&mut self, row: &JobRow) {
        let ix = self.project_ix(&row.spec.project);
        let held = self.charged_to(row);
        let project = &mut self.holdings.rows[ix.0];
        project.n_jobs -= u64::from(row.job.id.element.is_none());
        let uid = row.spec.owner.uid;
        for (part, amount) in &held {
            subtract(project.sum.part(*part), amount);
            if let Some(user) = project.by_user.get_mut(&uid) {
                subtract(user.part(*part), amount);
            }
        }
        if let Some(share) = share_held(row) {
            project.sum.remove_share(share);
            if let Some(user) = project.by_user.get_mut(&uid) {
                user.remove_share(share);
            }
        }
        if project.by_user.get(&uid).is_some_and(Holding::is_nothing) {
            project.by_user.remove(&uid);
        }
        project.ranks.remove(&row.job.id);
        if project.evictable.remove(&row.job.id)
            && let Some(n_jobs) = project.evictable_by.get_mut(&rank(row))
        {
            *n_jobs -= 1;
            if *n_jobs == 0 {
                project.evictable_by.remove(&rank(row));
            }
        }
    }

    /// Adds a node to the capacity.
    pub(crate) fn count_capacity(&mut self, node: &Node) {
        add(&mut self.holdings.capacity, &usable(node));
        add(&mut self.holdings.installed, &installed(node));
        for class in classes(node) {
            *self.holdings.classes.entry(class).or_default() += 1;
        }
    }

    pub(crate) fn uncount_capacity(&mut self, node: &Node) {
        subtract(&mut self.holdings.capacity, &usable(node));
        subtract(&mut self.holdings.installed, &installed(node));
        for class in classes(node) {
            if let Some(n_devices) = self.holdings.classes.get_mut(&class) {
                *n_devices -= 1;
                if *n_devices == 0 {
                    self.holdings.classes.remove(&class);
                }
            }
        }
    }

    /// Returns the resources of a job that its project is charged for.
    fn charged_to(&self, row: &JobRow) -> Vec<(HeldAs, Resources)> {
        let mut held = Vec::new();
        for_each_held(row, |part, allocation| held.push((part, self.booked(allocation))));
        held
    }
}

/// The account that an amount goes to.
#[derive(Clone, Copy)]
enum HeldAs {
    Held,
    ForGood,
    Returning,
}

impl Holding {
    fn part(&mut self, part: HeldAs) -> &mut Resources {
        match part {
            HeldAs::Held => &mut self.held,
            HeldAs::ForGood => &mut self.for_good,
            HeldAs::Returning => &mut self.returning,
        }
    }

    fn is_nothing(&self) -> bool {
        [&self.held, &self.for_good, &self.returning].iter().all(|it| **it == Resources::none())
            && self.shares.is_empty()
    }

    fn add_share(&mut self, share: MilliGpu) {
        *self.shares.entry(share).or_default() += 1;
    }

    fn remove_share(&mut self, share: MilliGpu) {
        if let Some(n_jobs) = self.shares.get_mut(&share) {
            *n_jobs -= 1;
            if *n_jobs == 0 {
                self.shares.remove(&share);
            }
        }
    }
}

/// Returns the part of a device that a job asks for, if it holds something or will want it again;
/// `None` if it asks for whole devices.
fn share_held(row: &JobRow) -> Option<MilliGpu> {
    let share = row.spec.gpus_together();
    let is_part = !share.is_zero() && share < MilliGpu::DEVICE;
    let mut is_held = false;
    if is_part {
        for_each_held(row, |_, _| is_held = true);
    }
    is_held.then_some(share)
}

fn for_each_held(row: &JobRow, mut count: impl FnMut(HeldAs, &Allocation)) {
    let returns = match &row.job.phase {
        Phase::Stopping { cause, .. } => match cause {
            StopCause::Requeued { hold, .. } => !hold,
            StopCause::TakenBack { exit, .. } => *exit != Exit::Kill,
            StopCause::TaskRefused { .. } => true,
            StopCause::Cancelled { .. }
            | StopCause::TooManyFailed { .. }
            | StopCause::GangEnded { .. }
            | StopCause::TaskFailed { .. } => false,
        },
        Phase::Paused { held, .. } => held.is_none(),
        _ => false,
    };
    for allocation in row.job.phase.allocations() {
        match (allocation.is_leaving(), returns) {
            (true, true) => count(HeldAs::Returning, allocation),
            (true, false) => {}
            (false, _) => {
                count(HeldAs::Held, allocation);
                if row.spec.life.preemptible != Some(true) {
                    count(HeldAs::ForGood, allocation);
                }
            }
        }
    }
}

/// The job's priority, and whether it makes another one larger.
fn rank(row: &JobRow) -> (i32, bool) {
    (row.job.priority, row.spec.joins.is_some())
}

fn add(sum: &mut Resources, more: &Resources) {
    for (kind, amount) in more.iter() {
        sum.set(kind.clone(), sum.get(kind).saturating_add(amount));
    }
}

fn subtract(sum: &mut Resources, less: &Resources) {
    for (kind, amount) in less.iter() {
        sum.set(kind.clone(), sum.get(kind).saturating_sub(amount));
    }
}

/// Returns what a node has that jobs may get, held or not.
fn usable(node: &Node) -> Resources {
    if !node.takes_work() {
        return Resources::none();
    }
    with_devices(node, |device| node.may_give(device))
}

/// Returns what a node has for jobs, usable at the moment or not.
fn installed(node: &Node) -> Resources {
    with_devices(node, |device| node.allows(&device.uuid) && !device.is_divided())
}

/// The resources of a node with the devices that pass a test.
fn with_devices(node: &Node, test: impl Fn(&Device) -> bool) -> Resources {
    let mut sum = node.capacity.clone();
    for device in node.devices.iter().filter(|device| test(device)) {
        let pool = ResourceKind::GpuPool(node.pool.clone());
        for kind in [ResourceKind::Gpu, ResourceKind::GpuModel(device.model.clone()), pool] {
            sum.add(kind, device.counts_as().get());
        }
    }
    sum
}
