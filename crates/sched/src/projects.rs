//! What each project holds and may have while a plan is made: shares are divided when a cycle
//! begins (SCHEDULING A2, preset `fair` as A′ has it), and what the plan starts counts at once.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::reason::Bound;
use gpool_model::{
    Allocation, Amount, GpuTime, MilliGpu, Policy, Project, ProjectName, Quota, Reason,
    ResourceKind, Resources, ShareBetween,
};
use gpool_world::{Holding, ProjectIx, ShapeQueue, Snapshot, World};

use crate::holders::{Holder, tree, users};
use crate::preempt;
use crate::saturation::Saturation;
use crate::shares::{Account, Ask, Buffers, Division, Feedback, Ledger, Method, Row, Rules, Tree};
use crate::used;
use crate::ways::Classes;

/// The projects of a cluster that shares between them, or limits what they may have.
#[derive(Debug, Clone)]
pub(crate) struct Projects {
    pub tree: Tree,
    pub ledger: Ledger,
    /// Whether they have shares; else only their limits hold.
    pub are_shared: bool,
    /// Whether they may have more than they are guaranteed.
    lends: bool,
    /// What is counted, in the order of the ledger's columns.
    kinds: Vec<ResourceKind>,
    /// Classes of GPUs, where parts of the GPUs are counted; none where they are not.
    pub classes: Classes,
    /// How much of each kind there is.
    totals: Vec<u64>,
    /// By [`ProjectIx`].
    rows: Vec<Row>,
    /// By row, of a user that of his project.
    names: Vec<ProjectName>,
    /// Where what projects have is shared between their users: the row of each.
    users: BTreeMap<(ProjectIx, u32), Row>,
    /// By row: whether it is a user's.
    is_user: Vec<bool>,
    /// By row: GPU-time used lately, where that counts.
    used: Vec<GpuTime>,
}

/// Amounts of what is counted, by kind.
pub(crate) type Amounts = Vec<u64>;

impl Projects {
    /// What the projects hold and may have. `None` where nobody has shares or bounds: the policy
    /// says so, or there is but one project, which has none; and nothing may be preempted.
    pub fn of(snapshot: &Snapshot<'_>, policy: &Policy) -> Option<Self> {
        let world = snapshot.world;
        let are_shared = policy.shares();
        let is_limited = |it: &Project| it.quotas.iter().any(|(_, it)| !it.limit.is_unlimited());
        // Whoever has to give way is charged for no more, so that must be known.
        let preempts = preempt::happens(world, policy)
            && world.project_rows().iter().any(|row| !row.evictable.is_empty());
        if !are_shared && !preempts && !world.projects().values().any(is_limited) {
            return None;
        }
        // Who has jobs left and no record any more has everything unlimited, as a project has that
        // says nothing.
        let projects = world.projects().iter();
        let mut members: BTreeMap<&ProjectName, Cow<'_, Project>> =
            projects.map(|(name, it)| (name, Cow::Borrowed(it))).collect();
        for row in world.project_rows().iter().filter(|row| row.n_jobs > 0) {
            let open = || Cow::Owned(Project::open(row.name.clone()));
            members.entry(&row.name).or_insert_with(open);
        }
        let between_users = policy.share_between == ShareBetween::Users;
        let are_shared = are_shared
            && (between_users || members.len() > 1 || !members.values().all(|it| it.is_open()));
        if !are_shared && !preempts && !members.values().any(|it| is_limited(it)) {
            return None;
        }
        let holder = |project| Holder { project, user: None };
        let mut holders: Vec<Holder<'_>> = members.into_values().map(holder).collect();
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
        let row_of = |name: &ProjectName| {
            let at = holders[..n_projects].binary_search_by(|it| it.project.name.cmp(name));
            tree.row(at.unwrap_or(0))
        };
        let rows: Vec<Row> = world.project_rows().iter().map(|row| row_of(&row.name)).collect();
        let totals = kinds.iter().map(|kind| world.capacity().counted_as(kind)).collect();
        let classes = Classes::of(world, &kinds);
        let ledger = Ledger::new(&tree, kinds.len());
        let used = vec![GpuTime::ZERO; tree.len()];
        let lends = policy.lend;
        let mut projects = Self {
            tree,
            ledger,
            are_shared,
            lends,
            kinds,
            classes,
            totals,
            rows,
            names,
            users,
            is_user,
            used,
        };
        projects.count(world);
        if policy.asks_used() {
            projects.look_back(snapshot);
        }
        projects.divide(world, policy, &holders);
        Some(projects)
    }

    /// What is held by whom, of the leaves of the tree.
    fn holdings<'a>(
        &'a self,
        world: &'a World,
    ) -> impl Iterator<Item = (Row, &'a Holding)> + use<'a> {
        let between_users = !self.users.is_empty();
        let all = world.project_rows().iter().enumerate();
        all.flat_map(move |(ix, it)| {
            let whole = (!between_users).then_some((self.rows[ix], &it.sum));
            let of_user = move |(uid, held): (&u32, &'a Holding)| {
                Some((*self.users.get(&(ProjectIx(ix), *uid))?, held))
            };
            whole.into_iter().chain(it.by_user.iter().filter_map(of_user))
        })
    }

    /// What is held, taken over from the world.
    fn count(&mut self, world: &World) {
        let mut counted = Vec::new();
        for (row, it) in self.holdings(world).filter(|(_, it)| it.held != Resources::none()) {
            let for_good = self.amounts(&it.for_good);
            let all = self.amounts(&it.held).into_iter();
            let lent: Amounts = all.zip(&for_good).map(|(all, good)| all - good).collect();
            counted.push((row, for_good, lent));
        }
        for (row, for_good, lent) in counted {
            self.ledger.add(&self.tree, row, &for_good, false);
            self.ledger.add(&self.tree, row, &lent, true);
        }
    }

    /// What was used lately, by whoever has a row, and all above him.
    fn look_back(&mut self, snapshot: &Snapshot<'_>) {
        let Snapshot { world, now } = *snapshot;
        for (ix, row) in world.project_rows().iter().enumerate() {
            for uid in row.used.keys() {
                let used = world.used_by(ProjectIx(ix), *uid, now);
                for above in self.tree.upwards(self.leaf_of(ProjectIx(ix), *uid)) {
                    let sum = &mut self.used[above.ix()];
                    *sum = sum.saturating_add(used);
                }
            }
        }
    }

    fn divide(&mut self, world: &World, policy: &Policy, holders: &[Holder<'_>]) {
        let mut asks = vec![vec![Ask::default(); self.kinds.len()]; self.tree.len()];
        for (row, it) in self.holdings(world) {
            for (at, kind) in self.kinds.iter().enumerate() {
                let ask = &mut asks[row.ix()][at];
                ask.requested += it.held.counted_as(kind) + it.returning.counted_as(kind);
                // What is held in shares stays of use in shares, as many as there are.
                if in_devices(kind) && ask.requested > 0 {
                    let part = Some(ask.requested % MilliGpu::DEVICE.get()).filter(|it| *it > 0);
                    let least = it.shares.keys().next().map(|share| share.get());
                    ask.smallest = ask.smallest.into_iter().chain(part).chain(least).min();
                }
            }
        }
        for (_, queue) in world.shapes() {
            let row = self.leaf(queue);
            for (at, amount) in self.charge(world, &queue.shape).into_iter().enumerate() {
                let ask = &mut asks[row.ix()][at];
                ask.requested = ask.requested.saturating_add(amount.saturating_mul(queue.n_jobs()));
                if in_devices(&self.kinds[at]) && (1..MilliGpu::DEVICE.get()).contains(&amount) {
                    ask.smallest = Some(ask.smallest.map_or(amount, |least| least.min(amount)));
                }
            }
        }
        let mut buffers = Buffers::default();
        for (at, kind) in self.kinds.iter().enumerate() {
            // Where nobody is promised any, all may have all of it, up to their limits.
            let is_promised = world.promises(kind);
            let left = match is_promised && kind.is_part_of_gpus() {
                true => world.left_of_part(kind),
                false => BTreeMap::new(),
            };
            let left = |it: &Holder<'_>| {
                let left = left.get(&it.project.name).filter(|_| it.user.is_none())?;
                Some(Amount::counted(*left))
            };
            let quota = |it: &Holder<'_>| match it.project.quota(kind) {
                quota if is_promised => {
                    Quota { guaranteed: quota.guaranteed.or_else(|| left(it)), ..quota }
                }
                quota => {
                    Quota { guaranteed: Some(Amount::UNLIMITED), limit: Amount::UNLIMITED, ..quota }
                }
            };
            let quotas: Vec<Quota> = holders.iter().map(quota).collect();
            let step = if in_devices(kind) { MilliGpu::DEVICE.get() } else { 1 };
            // Between users it always counts, between projects by the weight.
            let of_users = policy.share_between == ShareBetween::Users && policy.use_weight == 0;
            let feedback = match *kind == ResourceKind::Gpu {
                true if of_users => Feedback::ONE,
                true => Feedback::from_thousandths(policy.use_weight).unwrap_or(Feedback::NONE),
                false => Feedback::NONE,
            };
            let method = Method { rules: Rules::Fair, step, feedback };
            let mut division = Division::new(method, &self.tree, &quotas, self.totals[at]);
            if feedback != Feedback::NONE {
                let all =
                    gpool_model::used::always(MilliGpu::new(self.totals[at]), policy.use_half_life);
                for row in self.tree.rows().filter(|row| !of_users || self.is_user[row.ix()]) {
                    let used = used::in_millionths(self.used[row.ix()], all);
                    division.set_usage(&self.tree, row, used);
                }
            }
            for row in self.tree.rows().filter(|row| self.tree.is_leaf(*row)) {
                division.ask(&self.tree, row, asks[row.ix()][at]);
            }
            division.divide(&self.tree, &mut buffers);
            self.ledger.take_over(at, &division);
            for (member, it) in holders.iter().enumerate().filter(|_| !is_promised) {
                let row = self.tree.row(member);
                let limit = it.project.quota(kind).limit;
                self.ledger.set(row, at, Account { limit, ..*self.ledger.account(row, at) });
            }
        }
    }

    /// Who is charged for the jobs of a shape.
    pub fn leaf(&self, queue: &ShapeQueue) -> Row {
        let user = queue.shape.uid.and_then(|uid| self.users.get(&(queue.project_ix, uid)));
        user.copied().unwrap_or(self.rows[queue.project_ix.0])
    }

    /// Who is charged for a job of a project, by whose it is.
    pub fn leaf_of(&self, project_ix: ProjectIx, uid: u32) -> Row {
        self.users.get(&(project_ix, uid)).copied().unwrap_or(self.rows[project_ix.0])
    }

    /// The project of which a row is, or whose user.
    pub fn project(&self, row: Row) -> Row {
        let parent = self.tree.parent(row).filter(|_| self.is_user[row.ix()]);
        parent.unwrap_or(row)
    }

    /// The projects that take jobs.
    pub fn leaves(&self) -> impl Iterator<Item = Row> + '_ {
        let projects = self.tree.rows().filter(|row| !self.is_user[row.ix()]);
        projects.filter(|row| {
            let mut below = self.tree.children(Some(*row));
            below.next().is_none_or(|first| self.is_user[first])
        })
    }

    /// Whether a row is a user's.
    pub fn is_user(&self, row: Row) -> bool {
        self.is_user[row.ix()]
    }

    /// Why a job may not start whatever is free: a limit of its project, or of one above it; or it
    /// could never be taken back, or nothing is lent, and would be more than is guaranteed
    /// (SCHEDULING A7).
    pub fn refuses(&self, leaf: Row, amounts: &[u64], preemptible: bool) -> Option<Reason> {
        self.refuses_after(leaf, amounts, preemptible, &[])
    }

    /// The same once others, of these projects and which can be taken back, have given up so much.
    pub fn refuses_after(
        &self,
        leaf: Row,
        amounts: &[u64],
        preemptible: bool,
        given: &[(Row, &[u64])],
    ) -> Option<Reason> {
        for row in self.tree.upwards(self.project(leaf)) {
            // What another project gives up makes room in nobody's bounds but its own.
            let given =
                given.iter().filter(|(leaf, _)| self.tree.upwards(*leaf).any(|it| it == row));
            let given: Vec<&[u64]> = given.map(|(_, amounts)| *amounts).collect();
            for (at, asked) in amounts.iter().enumerate().filter(|(_, asked)| **asked > 0) {
                let account = self.ledger.account(row, at);
                let freed = given.iter().map(|amounts| amounts[at]).sum::<u64>();
                let all_held = account.held.saturating_sub(freed);
                let bounds = [(Bound::Limit, all_held, account.limit)];
                let guarantee = match (self.lends, preemptible) {
                    _ if !self.are_shared => None,
                    (false, _) => Some((Bound::GuaranteedOnly, all_held)),
                    (true, false) => Some((Bound::Guaranteed, account.held_for_good)),
                    (true, true) => None,
                };
                let more = guarantee.map(|(bound, held)| (bound, held, account.guaranteed));
                for (bound, held, most) in bounds.into_iter().chain(more) {
                    if let Some(most) = most.finite().filter(|most| held + asked > *most) {
                        let project = self.names[row.ix()].clone();
                        let kind = self.kinds[at].clone();
                        let asked = *asked;
                        return Some(Reason::QuotaProject {
                            project,
                            kind,
                            bound,
                            held,
                            asked,
                            most,
                        });
                    }
                }
            }
        }
        None
    }

    /// What a project is called.
    pub fn name(&self, row: Row) -> &ProjectName {
        &self.names[row.ix()]
    }

    /// How much there is of a kind, by its position.
    pub fn total(&self, kind: usize) -> u64 {
        self.totals[kind]
    }

    /// The rows, by [`ProjectIx`].
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What is counted.
    pub fn kinds(&self) -> &[ResourceKind] {
        &self.kinds
    }

    /// How many kinds are counted.
    pub fn n_kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Where a kind stands among those that are counted; GPUs always are.
    pub fn position(&self, kind: &ResourceKind) -> usize {
        self.kinds.iter().position(|it| it == kind).unwrap_or(0)
    }

    /// What resources count for.
    pub fn amounts(&self, resources: &Resources) -> Amounts {
        self.kinds.iter().map(|kind| resources.counted_as(kind)).collect()
    }

    /// What a task is charged for that holds something.
    pub fn amounts_held(&self, world: &World, allocation: &Allocation) -> Amounts {
        match self.classes.are_counted() {
            true => self.amounts(&world.booked(allocation)),
            false => self.amounts(&allocation.resources),
        }
    }

    /// What a project can keep of what it is guaranteed, by kind.
    pub fn guaranteed(&self, row: Row) -> Vec<Amount> {
        self.ledger.accounts(row).iter().map(|account| account.guaranteed).collect()
    }

    /// How far a project is over what is its own, if it is.
    pub fn over_own(&self, row: Row) -> Option<Saturation> {
        let accounts = self.ledger.accounts(row);
        let is_over = accounts.iter().any(|account| !account.own().allows(account.held));
        is_over.then(|| self.saturation(row))
    }

    fn saturation(&self, row: Row) -> Saturation {
        let of = |(account, total): (&Account, &u64)| Saturation {
            held: account.held,
            own: account.own().finite().unwrap_or(*total),
        };
        let all = self.ledger.accounts(row).iter().zip(&self.totals).map(of);
        all.max().unwrap_or(Saturation { held: 0, own: 1 })
    }

    /// Something is given up, for others.
    pub fn remove(&mut self, leaf: Row, amounts: &[u64]) {
        self.ledger.remove(&self.tree, leaf, amounts, true);
    }

    /// Whether a job would stay within what its project may have in this cycle.
    pub fn is_entitled(&self, leaf: Row, amounts: &[u64]) -> bool {
        amounts.iter().enumerate().all(|(at, asked)| {
            let account = self.ledger.account(leaf, at);
            *asked == 0 || account.own().allows(account.held + asked)
        })
    }

    /// Whether a project has no more on loan than before once others of it have given up so much.
    pub fn borrows_no_more(&self, leaf: Row, amounts: &[u64], given: &[(Row, &[u64])]) -> bool {
        amounts.iter().enumerate().all(|(at, asked)| {
            let freed = given.iter().map(|(_, amounts)| amounts[at]).sum::<u64>();
            let account = self.ledger.account(self.project(leaf), at);
            *asked <= freed || account.own().allows((account.held + asked).saturating_sub(freed))
        })
    }

    /// Something starts, or is to.
    pub fn add(&mut self, leaf: Row, amounts: &[u64], preemptible: bool) {
        self.ledger.add(&self.tree, leaf, amounts, preemptible);
    }

    /// Where a project stands among its siblings; the least goes first. It does not depend on what
    /// it would start next: what a cycle knows of that depends on what it looked at before.
    pub fn standing(&self, row: Row) -> Standing {
        let is_used_up = |it: &Account| it.guaranteed.finite().is_some_and(|most| it.held >= most);
        // Of a part of the GPUs of which it is guaranteed nothing it has nothing to use up.
        let counts = |(it, kind): &(&Account, &ResourceKind)| {
            it.guaranteed > Amount::NOTHING || !kind.is_part_of_gpus()
        };
        let accounts = self.ledger.accounts(row).iter().zip(&self.kinds).filter(counts);
        let beyond_guarantee = accounts.map(|(it, _)| it).any(is_used_up);
        let saturation = self.saturation(row);
        let priority = Reverse(self.tree.priority(row));
        let used = self.used[row.ix()];
        Standing { beyond_guarantee, priority, saturation, used, row }
    }
}

/// Whether a kind is given out in devices, or parts of one.
fn in_devices(kind: &ResourceKind) -> bool {
    *kind == ResourceKind::Gpu || kind.is_part_of_gpus()
}

/// How a project compares with its siblings: who has guarantees left goes first, then
/// the higher priority, then who has least of what is its own, then who used least lately where
/// that counts, then the older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    beyond_guarantee: bool,
    priority: Reverse<i32>,
    saturation: Saturation,
    used: GpuTime,
    // Rows stand in the order of age.
    pub row: Row,
}
