//! Builds the quota state. Quotas change rarely: the parts that follow from them alone are kept
//! from one cycle to the next.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::{
    Amount, GpuTime, MilliGpu, Policy, Project, ProjectName, Quota, Quotas, ResourceKind,
    Resources, ShareBetween, used,
};
use gpool_world::{Holding, PendingQueueKey, ProjectIx, ProjectRow, Snapshot, World};

use super::resource_flavors::Classes;
use super::{Projects, in_devices};
use crate::fairshare::{
    Account, Buffers, Division, Feedback, LeafRequest, Ledger, Member, Method, Tree, TreeIx,
};
use crate::preemption;

impl Projects {
    /// Returns the quota state of a snapshot. `None` without shares and limits: by policy, or if
    /// the only project has none; and if no job may be preempted or moved. `before` is the state of
    /// an earlier cycle.
    pub fn of(snapshot: &Snapshot<'_>, policy: &Policy, before: Option<Self>) -> Option<Self> {
        let world = snapshot.world;
        let is_limited = |it: &Project| it.quotas.iter().any(|(_, it)| !it.limit.is_unlimited());
        // The charges of victims must be known.
        let happens =
            policy.all().any(|policy| policy.consolidate || preemption::is_possible(world, policy));
        let preempts = happens && preemption::any_evictable(world);
        let are_charged = preempts || world.projects().values().any(is_limited);
        if !policy.shares() && !are_charged {
            return None;
        }
        let mut projects = match before.filter(|before| before.still_hold(world, policy)) {
            Some(before) => Self { is_same: true, ..before },
            None => Self::new(world, policy)?,
        };
        if !projects.are_shared && !are_charged {
            return None;
        }
        let capacity = world.capacity();
        projects.totals = projects.kinds.iter().map(|kind| capacity.counted_as(kind)).collect();
        projects.classes = Classes::of(world, &projects.kinds);
        let holdings = projects.holdings(world);
        projects.count(world, &holdings);
        if policy.asks_used() {
            projects.look_back(snapshot);
        }
        projects.divide(world, policy, &holdings);
        Some(projects)
    }

    /// Whether quotas, policy and projects are the same as before.
    fn still_hold(&self, world: &World, policy: &Policy) -> bool {
        let is_same = |(row, (name, is_recorded)): (&ProjectRow, &(ProjectName, bool))| {
            row.name == *name && (*is_recorded || row.n_jobs == 0)
        };
        let rows = world.project_rows();
        Arc::ptr_eq(&self.records, world.agreed())
            && self.are_kept
            && self.policy == *policy
            && rows.len() == self.recorded.len()
            && rows.iter().zip(&self.recorded).all(is_same)
    }

    /// Builds the parts that follow from the quotas alone: the tree, and the guarantees.
    fn new(world: &World, policy: &Policy) -> Option<Self> {
        // A project with jobs left and without a record has an unlimited quota, like a project
        // without settings.
        let projects = world.projects().iter();
        let mut members: BTreeMap<&ProjectName, Cow<'_, Project>> =
            projects.map(|(name, it)| (name, Cow::Borrowed(it))).collect();
        for row in world.project_rows().iter().filter(|row| row.n_jobs > 0) {
            let open = || Cow::Owned(Project::open(row.name.clone()));
            members.entry(&row.name).or_insert_with(open);
        }
        let n_unrecorded = members.len() - world.projects().len();
        let between_users = policy.share_between == ShareBetween::Users;
        let are_shared = policy.shares()
            && (between_users || members.len() > 1 || !members.values().all(|it| it.is_open()));
        let holder = |project| Shareholder { project, user: None };
        let mut holders: Vec<Shareholder<'_>> = members.into_values().map(holder).collect();
        let n_projects = holders.len();
        if between_users {
            holders.extend(users(world));
        }
        let tree = tree(&holders, n_projects)?;
        let quotas = holders.iter().flat_map(|it| it.project.quotas.iter());
        let kinds: BTreeSet<&ResourceKind> =
            quotas.map(|(kind, _)| kind).chain([&ResourceKind::Gpu]).collect();
        let kinds: Vec<ResourceKind> = kinds.into_iter().cloned().collect();
        let mut names = vec![ProjectName::new("default"); holders.len()];
        let mut users = BTreeMap::new();
        let mut is_user = vec![false; holders.len()];
        for (member, it) in holders.iter().enumerate() {
            let row = tree.row(member);
            names[row.ix()] = it.project.name.clone();
            is_user[row.ix()] = it.user.is_some();
            users.extend(it.user.map(|user| (user, row)));
        }
        let position = |name| position(&holders[..n_projects], name).unwrap_or(0);
        let project_rows = world.project_rows().iter();
        let rows = project_rows.map(|row| tree.row(position(&row.name))).collect();
        let is_recorded = |row: &ProjectRow| world.projects().contains_key(&row.name);
        let recorded = world.project_rows().iter().map(|row| (row.name.clone(), is_recorded(row)));
        let mut projects = Self {
            ledger: Ledger::new(&tree, kinds.len()),
            are_shared,
            lends: policy.lend,
            totals: Vec::new(),
            classes: Classes::of(world, &kinds),
            rows,
            names,
            users,
            is_user,
            used: vec![GpuTime::ZERO; tree.len()],
            plain: vec![0; tree.len()],
            records: Arc::clone(world.agreed()),
            policy: policy.clone(),
            recorded: recorded.collect(),
            divisions: Vec::new(),
            bounds: Vec::new(),
            are_kept: false,
            is_same: false,
            tree,
            kinds,
        };
        for at in 0..projects.kinds.len() {
            projects.set_quotas(world, &holders, at);
        }
        let depends = |kind: &ResourceKind| kind.is_part_of_gpus() && world.promises(kind);
        projects.are_kept =
            n_unrecorded == 0 && !between_users && !projects.kinds.iter().any(depends);
        Some(projects)
    }

    /// Sets the guarantees and limits for one kind.
    fn set_quotas(&mut self, world: &World, holders: &[Shareholder<'_>], at: usize) {
        let kind = &self.kinds[at];
        // Without any guarantee, each project may have all of it, up to its limit.
        let is_promised = world.promises(kind);
        let left = match is_promised && kind.is_part_of_gpus() {
            true => world.left_of_part(kind),
            false => BTreeMap::new(),
        };
        let left = |it: &Shareholder<'_>| {
            let left = left.get(&it.project.name).filter(|_| it.user.is_none())?;
            Some(Amount::saturating_of(*left))
        };
        let quota = |it: &Shareholder<'_>| match it.project.quota(kind) {
            quota if is_promised => {
                Quota { guaranteed: quota.guaranteed.or_else(|| left(it)), ..quota }
            }
            quota => {
                Quota { guaranteed: Some(Amount::UNLIMITED), limit: Amount::UNLIMITED, ..quota }
            }
        };
        let quotas: Vec<Quota> = holders.iter().map(quota).collect();
        let step = if in_devices(kind) { MilliGpu::DEVICE.get() } else { 1 };
        let method = Method { step, feedback: self.feedback(kind) };
        let mut bounds = Vec::new();
        if !is_promised {
            bounds.resize(holders.len(), Amount::UNLIMITED);
            for (member, it) in holders.iter().enumerate() {
                bounds[self.tree.row(member).ix()] = it.project.quota(kind).limit;
            }
        }
        let total = world.capacity().counted_as(kind);
        self.divisions.push(Division::new(method, &self.tree, &quotas, total));
        self.bounds.push(bounds);
    }

    /// The influence of past usage of a kind.
    fn feedback(&self, kind: &ResourceKind) -> Feedback {
        match *kind == ResourceKind::Gpu {
            true if self.between_users_alone() => Feedback::ONE,
            true => Feedback::from_thousandths(self.policy.use_weight).unwrap_or(Feedback::NONE),
            false => Feedback::NONE,
        }
    }

    /// Whether past usage counts between users only. It always does between users, and between
    /// projects by its weight.
    fn between_users_alone(&self) -> bool {
        self.policy.share_between == ShareBetween::Users && self.policy.use_weight == 0
    }

    /// The usage of the leaves of the tree.
    fn holdings<'w>(&self, world: &'w World) -> Vec<(TreeIx, &'w Holding)> {
        let between_users = !self.users.is_empty();
        let mut holdings = Vec::with_capacity(self.rows.len());
        for (ix, it) in world.project_rows().iter().enumerate() {
            match between_users {
                false => holdings.push((self.rows[ix], &it.sum)),
                true => holdings.extend(it.by_user.iter().filter_map(|(uid, held)| {
                    Some((*self.users.get(&(ProjectIx(ix), *uid))?, held))
                })),
            }
        }
        holdings
    }

    /// Takes the usage over from the world.
    fn count(&mut self, world: &World, holdings: &[(TreeIx, &Holding)]) {
        self.ledger.clear();
        self.plain.fill(0);
        for ((_, uid), row) in &self.users {
            self.plain[row.ix()] = world.user(*uid).map_or(0, |user| user.plain);
        }
        for (row, it) in holdings.iter().filter(|(_, it)| it.held != Resources::none()) {
            let for_good = self.amounts(&it.for_good);
            let mut evictable = self.amounts(&it.held);
            evictable.iter_mut().zip(&for_good).for_each(|(all, good)| *all -= good);
            self.ledger.add(&self.tree, *row, &for_good, false);
            self.ledger.add(&self.tree, *row, &evictable, true);
        }
    }

    /// Sums the past usage of each row and all rows above it.
    fn look_back(&mut self, snapshot: &Snapshot<'_>) {
        let Snapshot { world, now } = *snapshot;
        self.used.fill(GpuTime::ZERO);
        for (ix, row) in world.project_rows().iter().enumerate() {
            for uid in row.used.keys() {
                let used = world.used_by(ProjectIx(ix), *uid, now);
                let leaf =
                    self.leaf(PendingQueueKey { project_ix: ProjectIx(ix), uid: Some(*uid) });
                for above in self.tree.upwards(leaf) {
                    let sum = &mut self.used[above.ix()];
                    *sum = sum.saturating_add(used);
                }
            }
        }
    }

    /// The requests of the leaves of the tree, by row, then by kind.
    fn asks(&self, world: &World, holdings: &[(TreeIx, &Holding)]) -> Vec<LeafRequest> {
        let n_kinds = self.kinds.len();
        let mut asks = vec![LeafRequest::default(); n_kinds * self.tree.len()];
        for (row, it) in holdings {
            for (at, kind) in self.kinds.iter().enumerate() {
                let ask = &mut asks[row.ix() * n_kinds + at];
                ask.requested += it.held.counted_as(kind) + it.returning.counted_as(kind);
                // A project with shares of devices can use such shares.
                if in_devices(kind) && ask.requested > 0 {
                    let part = Some(ask.requested % MilliGpu::DEVICE.get()).filter(|it| *it > 0);
                    let least = it.shares.keys().next().map(|share| share.get());
                    ask.smallest = ask.smallest.into_iter().chain(part).chain(least).min();
                }
            }
        }
        for (_, key, line) in world.lines() {
            let row = self.leaf(key);
            for (at, kind) in self.kinds.iter().enumerate() {
                let Some(amount) = line.demand().of(kind) else { continue };
                let share = line.demand().smallest_share().filter(|_| in_devices(kind));
                asks[row.ix() * n_kinds + at].add(amount, share);
            }
        }
        // The request for models and pools of GPUs depends on the GPUs that a job may have.
        for (_, queue) in world.shapes().filter(|_| self.classes.are_counted) {
            let row = self.leaf(queue.line());
            let charge = self.charge(world, &queue.shape).into_iter().zip(&self.kinds).enumerate();
            for (at, (amount, _)) in charge.filter(|(_, (_, kind))| kind.is_part_of_gpus()) {
                let is_share = (1..MilliGpu::DEVICE.get()).contains(&amount);
                let share = is_share.then(|| MilliGpu::new(amount));
                let all = amount.saturating_mul(queue.n_jobs());
                asks[row.ix() * n_kinds + at].add(all, share);
            }
        }
        asks
    }

    /// Divides the capacity, wherever requests have changed.
    fn divide(&mut self, world: &World, policy: &Policy, holdings: &[(TreeIx, &Holding)]) {
        let asks = self.asks(world, holdings);
        let between_users_alone = self.between_users_alone();
        let mut divisions = std::mem::take(&mut self.divisions);
        let mut buffers = Buffers::default();
        let n_kinds = divisions.len();
        for (at, division) in divisions.iter_mut().enumerate() {
            let total = self.totals[at];
            division.set_total(&self.tree, total, world.installed().counted_as(&self.kinds[at]));
            if self.feedback(&self.kinds[at]) != Feedback::NONE {
                let all = used::always(MilliGpu::new(total), policy.use_half_life);
                let rows = self.tree.rows();
                for row in rows.filter(|row| !between_users_alone || self.is_user[row.ix()]) {
                    let used = in_millionths(self.used[row.ix()], all);
                    division.set_usage(&self.tree, row, used);
                }
            }
            for row in self.tree.rows().filter(|row| self.tree.is_leaf(*row)) {
                division.ask(&self.tree, row, asks[row.ix() * n_kinds + at]);
            }
            division.divide(&self.tree, &mut buffers);
            self.ledger.take_over(at, division.claimants());
            self.ledger.promise(at, division.installed_guarantees());
            for (row, limit) in self.tree.rows().zip(&self.bounds[at]) {
                let account = *self.ledger.account(row, at);
                self.ledger.set(row, at, Account { limit: *limit, ..account });
            }
        }
        self.divisions = divisions;
    }
}

/// The used part of all GPU-time that could have been used, in millionths.
fn in_millionths(used: GpuTime, all: GpuTime) -> u32 {
    let part = u128::from(used.get()) * 1_000_000;
    let part = part.checked_div(u128::from(all.get())).unwrap_or(0);
    u32::try_from(part).unwrap_or(u32::MAX).min(1_000_000)
}

/// A project or a user with a row of the tree.
struct Shareholder<'a> {
    /// The project; of a user, a project without guarantee and limit.
    project: Cow<'a, Project>,
    user: Option<(ProjectIx, u32)>,
}

/// The users with running or pending jobs of a project.
fn users(world: &World) -> impl Iterator<Item = Shareholder<'_>> {
    let held = world.project_rows().iter().enumerate();
    let held = held.flat_map(|(ix, it)| it.by_user.keys().map(move |uid| (ProjectIx(ix), *uid)));
    let wanted = world.shapes().filter_map(|(_, it)| Some((it.project_ix, it.shape.uid?)));
    let all: BTreeSet<(ProjectIx, u32)> = held.chain(wanted).collect();
    all.into_iter().map(|(ix, uid)| {
        let name = world.project_rows()[ix.0].name.clone();
        let project = Project { quotas: Quotas::default(), ..Project::open(name) };
        Shareholder { project: Cow::Owned(project), user: Some((ix, uid)) }
    })
}

/// The tree of the projects, which come first and are sorted by name, and their users.
/// `None` if they are no tree, which no command allows.
fn tree(holders: &[Shareholder<'_>], n_projects: usize) -> Option<Tree> {
    let members = holders.iter().map(|Shareholder { project, user }| {
        let parent = match user {
            Some(_) => Some(&project.name),
            None => project.parent.as_ref(),
        };
        Member {
            parent: parent.and_then(|name| position(&holders[..n_projects], name)),
            priority: project.priority,
            created: project.created_at.get(),
            id: (&project.name, user.map(|(_, uid)| uid)),
        }
    });
    Tree::new(&members.collect::<Vec<_>>())
}

fn position(projects: &[Shareholder<'_>], name: &ProjectName) -> Option<usize> {
    projects.binary_search_by(|it| it.project.name.cmp(name)).ok()
}
