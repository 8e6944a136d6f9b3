//! The quota, share and usage of each project while a plan is made. Shares are divided when a cycle
//! begins (scheduling.md A2, preset `fair` as A′ has it), and the starts of the plan count at once.

mod build;
pub(crate) mod resource_flavors;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::reason::Bound;
use gpool_model::{Amount, GpuTime, Policy, Project, ProjectName, Reason, ResourceKind, Resources};
use gpool_world::{JobRow, PendingQueueKey, ProjectIx, World};

use crate::fairshare::{Account, Division, Ledger, Ratio, Tree, TreeIx};
use resource_flavors::Classes;

/// The row of the project or user of a job; `None` without shares between projects.
pub(crate) type Leaf = Option<TreeIx>;

/// The projects of a cluster with shares between projects, or with limits.
#[derive(Debug, Clone)]
pub(crate) struct Projects {
    pub tree: Tree,
    pub ledger: Ledger,
    /// Whether they have shares; else only their limits count.
    pub are_shared: bool,
    /// Whether they may borrow beyond their guarantees.
    lends: bool,
    /// The counted kinds, in the order of the ledger; GPUs are the first.
    pub kinds: Vec<ResourceKind>,
    /// Classes of GPUs, if quotas name models or pools.
    pub classes: Classes,
    /// The capacity by kind.
    pub totals: Vec<u64>,
    /// By [`ProjectIx`].
    pub rows: Vec<TreeIx>,
    /// By row, of a user the name of the project.
    pub names: Vec<ProjectName>,
    /// The rows of users, with shares between users.
    users: BTreeMap<(ProjectIx, u32), TreeIx>,
    /// By row: whether it is a user.
    pub is_user: Vec<bool>,
    /// By row: decayed GPU-time, where that counts.
    used: Vec<GpuTime>,
    /// By row, of a user: task slots of jobs without GPUs.
    plain: Vec<u64>,
    /// The records and the policy that this was made from.
    records: Arc<BTreeMap<ProjectName, Project>>,
    policy: Policy,
    /// By [`ProjectIx`]: the name, and whether the project has a record.
    recorded: Vec<(ProjectName, bool)>,
    /// Whether it depends on the records and the policy alone.
    are_kept: bool,
    /// Whether these are the projects and quotas of the cycle before.
    pub is_same: bool,
    /// By kind.
    divisions: Vec<Division>,
    /// By kind, then by row: the limits of projects for kinds without any guarantee.
    bounds: Vec<Vec<Amount>>,
}

/// The position of GPUs among the counted kinds.
pub(crate) const GPUS: usize = 0;

/// Amounts by counted kind.
pub(crate) type Amounts = Vec<u64>;

impl Projects {
    /// The project or user that is charged for the jobs of a line.
    pub fn leaf(&self, PendingQueueKey { project_ix, uid }: PendingQueueKey) -> TreeIx {
        let user = uid.and_then(|uid| self.users.get(&(project_ix, uid)));
        user.copied().unwrap_or(self.rows[project_ix.0])
    }

    /// The project of a row, which may be its user.
    pub fn project(&self, row: TreeIx) -> TreeIx {
        let parent = self.tree.parent(row).filter(|_| self.is_user[row.ix()]);
        parent.unwrap_or(row)
    }

    /// The projects without projects below them.
    pub fn leaves(&self) -> impl Iterator<Item = TreeIx> + '_ {
        let projects = self.tree.rows().filter(|row| !self.is_user[row.ix()]);
        projects.filter(|row| {
            let mut below = self.tree.children(Some(*row));
            below.next().is_none_or(|first| self.is_user[first])
        })
    }

    /// Returns why a quota refuses a job whatever is free, once evictable jobs of these projects
    /// have given up these amounts: it would exceed a limit of its project, or of one above it; or
    /// it would exceed the guarantee, and can't be evicted or may not borrow (scheduling.md A7).
    pub fn refuses(
        &self,
        leaf: TreeIx,
        amounts: &[u64],
        preemptible: bool,
        releases: &[(TreeIx, &[u64])],
    ) -> Option<Reason> {
        let (row, at, (bound, held, most)) = self.bound(leaf, amounts, preemptible, releases)?;
        let (project, kind) = (self.names[row.ix()].clone(), self.kinds[at].clone());
        Some(Reason::QuotaProject { project, kind, bound, held, asked: amounts[at], most })
    }

    /// Returns the bound that a job would exceed, if there is one: the project, the kind, and the
    /// usage with the most that is allowed.
    pub fn bound(
        &self,
        leaf: TreeIx,
        amounts: &[u64],
        preemptible: bool,
        releases: &[(TreeIx, &[u64])],
    ) -> Option<(TreeIx, usize, (Bound, u64, u64))> {
        for row in self.tree.upwards(self.project(leaf)) {
            // Another project that gives up something makes room in its own bounds only.
            let given =
                releases.iter().filter(|(leaf, _)| self.tree.upwards(*leaf).any(|it| it == row));
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
                let more = guarantee.map(|(bound, held)| (bound, held, account.for_good()));
                for (bound, held, most) in bounds.into_iter().chain(more) {
                    if let Some(most) = most.finite().filter(|most| held + asked > *most) {
                        return Some((row, at, (bound, held, most)));
                    }
                }
            }
        }
        None
    }

    /// Whether a job is within the share of its project, and a limit above that project keeps it
    /// waiting: jobs below that limit may have to leave for it.
    pub fn is_limited_above(&self, leaf: TreeIx, amounts: &[u64], preemptible: bool) -> bool {
        let bound = self.bound(leaf, amounts, preemptible, &[]);
        let is_above = |(row, _, (bound, ..)): (TreeIx, usize, (Bound, u64, u64))| {
            row != self.project(leaf) && bound == Bound::Limit
        };
        self.are_shared && bound.is_some_and(is_above) && self.is_entitled(leaf, amounts)
    }

    /// The amounts of resources, by kind.
    pub fn amounts(&self, resources: &Resources) -> Amounts {
        self.kinds.iter().map(|kind| resources.counted_as(kind)).collect()
    }

    /// The charge of a job that has allocations, by kind.
    pub fn amounts_of(&self, world: &World, row: &JobRow) -> Amounts {
        let mut sum = vec![0; self.kinds.len()];
        for allocation in row.job.phase.allocations() {
            let amounts = match self.classes.are_counted {
                true => self.amounts(&world.booked(allocation)),
                false => self.amounts(&allocation.resources),
            };
            sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        sum
    }

    /// How far a project is over its own quota without its planned starts, if it is.
    pub fn over_own(&self, row: TreeIx) -> Option<Ratio> {
        let accounts = self.ledger.accounts(row);
        let is_over = accounts.iter().any(|account| !account.own().allows(account.present()));
        is_over.then(|| self.saturation(row, Account::present, 1))
    }

    /// The dominant share of a project: its usage in proportion to its own quota, multiplied, of
    /// the kind where that is largest.
    fn saturation(&self, row: TreeIx, usage: fn(&Account) -> u64, times: u64) -> Ratio {
        let of = |(account, total): (&Account, &u64)| {
            let own = account.own().finite().unwrap_or(*total).saturating_mul(times);
            let held = u128::from(usage(account));
            // Without quota it is above all ratios of 64-bit numbers.
            Ratio::new(held, u128::from(own)).unwrap_or(Ratio::whole(held << 64))
        };
        let all = self.ledger.accounts(row).iter().zip(&self.totals).map(of);
        all.max().unwrap_or(Ratio::whole(0))
    }

    /// Whether a job would stay within the share of its project. Users of a project have no bound
    /// of their own, only an order. Otherwise small jobs within the shares of some users would
    /// start before a larger job of another user gets its turn, and keep that job waiting.
    pub fn is_entitled(&self, leaf: TreeIx, amounts: &[u64]) -> bool {
        self.borrows_no_more(leaf, amounts, &[])
    }

    /// Whether a project borrows no more than before once jobs of it have given up these amounts.
    pub fn borrows_no_more(
        &self,
        leaf: TreeIx,
        amounts: &[u64],
        releases: &[(TreeIx, &[u64])],
    ) -> bool {
        let accounts = self.ledger.accounts(self.project(leaf));
        amounts.iter().zip(accounts).enumerate().all(|(at, (asked, account))| {
            let freed = releases.iter().map(|(_, amounts)| amounts[at]).sum::<u64>();
            *asked <= freed || account.own().allows((account.held + asked).saturating_sub(freed))
        })
    }

    /// Counts the task slots of a job that was started.
    pub fn take_slots(&mut self, leaf: TreeIx, fit: &Fit) {
        if fit.gpus.is_none() && fit.at.is_empty() {
            self.plain[leaf.ix()] += u64::from(fit.gang.n_tasks());
        }
    }

    /// Returns the place of a project among its siblings, or of a user in its project; the least
    /// comes first. It ignores the user's next job, because a cycle knows that job only after it
    /// has examined earlier ones. A user with an escalated first job counts with
    /// [`ESCALATED_TIMES`] the share.
    pub fn standing(&self, row: TreeIx, is_escalated: bool) -> SiblingRank {
        let is_used_up = |it: &Account| it.for_good().finite().is_some_and(|most| it.held >= most);
        // A model or pool of GPUs without a guarantee has no guarantee to use up.
        let counts = |(it, kind): &(&Account, &ResourceKind)| {
            it.guaranteed > Amount::NOTHING || !kind.is_part_of_gpus()
        };
        let accounts = self.ledger.accounts(row).iter().zip(&self.kinds).filter(counts);
        let beyond_guarantee = accounts.map(|(it, _)| it).any(is_used_up);
        let is_escalated_user = is_escalated && self.is_user[row.ix()];
        let times = if is_escalated_user { ESCALATED_TIMES } else { 1 };
        let saturation = self.saturation(row, |account| account.held, times);
        let priority = Reverse(self.tree.priority(row));
        let used = self.used[row.ix()];
        let plain = if self.is_user[row.ix()] { self.plain[row.ix()] } else { 0 };
        SiblingRank { beyond_guarantee, priority, saturation, used, plain, row }
    }
}

/// The factor on the share of a user with an escalated job. Without a bound the backlog of
/// one user would keep all others waiting once it is old.
///
/// Source: the variants in docs/developing/evaluation.md, "Fair share between users".
const ESCALATED_TIMES: u64 = 4;

/// Whether a kind is counted in devices, or parts of one.
pub(crate) fn in_devices(kind: &ResourceKind) -> bool {
    *kind == ResourceKind::Gpu || kind.is_part_of_gpus()
}

/// The place of a project among its siblings: projects within their guarantees come first, then
/// higher priorities, then lower dominant shares, then less past usage where that counts, then
/// older projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SiblingRank {
    beyond_guarantee: bool,
    priority: Reverse<i32>,
    saturation: Ratio,
    used: GpuTime,
    /// Task slots of jobs without GPUs: these decide between users that are equal otherwise.
    plain: u64,
    // Rows are in the order of age.
    pub row: TreeIx,
}
