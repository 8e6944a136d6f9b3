//! What each project holds and may have while a plan is made: shares are divided when a cycle
//! begins (SCHEDULING A2, preset `fair` as A′ has it), and what the plan starts counts at once.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::reason::Bound;
use gpool_model::{
    Amount, MilliGpu, Policy, Project, ProjectName, Quota, Reason, ResourceKind, Resources, Shape,
    ShareBetween,
};
use gpool_world::{ProjectIx, World};

use crate::shares::{
    Account, Ask, Buffers, Division, Feedback, Ledger, Member, Method, Row, Rules, Tree,
};

/// The projects of a cluster that shares between them.
#[derive(Debug, Clone)]
pub(crate) struct Projects {
    pub tree: Tree,
    pub ledger: Ledger,
    /// What is counted, in the order of the ledger's columns.
    kinds: Vec<ResourceKind>,
    /// How much of each kind there is.
    totals: Vec<u64>,
    /// By [`ProjectIx`].
    rows: Vec<Row>,
    /// By row.
    names: Vec<ProjectName>,
}

/// Amounts of what is counted, by kind.
pub(crate) type Amounts = Vec<u64>;

impl Projects {
    /// What the projects hold and may have. `None` where nothing is shared between projects: the
    /// policy does not, or there is but one, which has no bounds.
    pub fn of(world: &World, policy: &Policy) -> Option<Self> {
        if policy.share_between == ShareBetween::Nobody {
            return None;
        }
        // Who has jobs left and no record any more has everything unlimited, as a project has that
        // says nothing.
        let mut members: BTreeMap<&ProjectName, Project> =
            world.projects().iter().map(|(name, it)| (name, it.clone())).collect();
        for row in world.project_rows().iter().filter(|row| row.n_jobs > 0) {
            let open = || Project::open(row.name.clone());
            members.entry(&row.name).or_insert_with(open);
        }
        if members.len() == 1 && members.values().all(Project::is_open) {
            return None;
        }
        let members: Vec<Project> = members.into_values().collect();
        let tree = tree(&members)?;
        let quotas = members.iter().flat_map(|it| it.quotas.iter().map(|(kind, _)| kind.clone()));
        let kinds: BTreeSet<ResourceKind> = quotas.chain([ResourceKind::Gpu]).collect();
        let kinds: Vec<ResourceKind> = kinds.into_iter().collect();
        let mut names = vec![ProjectName::new("default"); members.len()];
        for (member, it) in members.iter().enumerate() {
            names[tree.row(member).ix()] = it.name.clone();
        }
        let row_of = |name: &ProjectName| {
            let at = members.binary_search_by(|it| it.name.cmp(name));
            tree.row(at.unwrap_or(0))
        };
        let rows: Vec<Row> = world.project_rows().iter().map(|row| row_of(&row.name)).collect();
        let totals = kinds.iter().map(|kind| world.capacity().get(kind)).collect();
        let ledger = Ledger::new(&tree, kinds.len());
        let mut projects = Self { tree, ledger, kinds, totals, rows, names };
        projects.count(world);
        projects.divide(world, &members);
        Some(projects)
    }

    /// What is held, taken over from the world.
    fn count(&mut self, world: &World) {
        for (row, held) in self.rows.iter().zip(world.project_rows()) {
            if held.held == Resources::none() {
                continue;
            }
            let amount = |of: &Resources, kind| of.get(kind);
            let for_good: Amounts =
                self.kinds.iter().map(|kind| amount(&held.held_for_good, kind)).collect();
            let all = self.kinds.iter().map(|kind| amount(&held.held, kind));
            let lent: Amounts = all.zip(&for_good).map(|(all, good)| all - good).collect();
            self.ledger.add(&self.tree, *row, &for_good, false);
            self.ledger.add(&self.tree, *row, &lent, true);
        }
    }

    fn divide(&mut self, world: &World, members: &[Project]) {
        let mut asks = vec![vec![Ask::default(); self.kinds.len()]; self.tree.len()];
        for (row, held) in self.rows.iter().zip(world.project_rows()) {
            for (at, kind) in self.kinds.iter().enumerate() {
                let ask = &mut asks[row.ix()][at];
                ask.requested += held.held.get(kind) + held.returning.get(kind);
                // What is held in parts stays of use in parts.
                let part = ask.requested % MilliGpu::DEVICE.get();
                if *kind == ResourceKind::Gpu && part > 0 {
                    ask.smallest = Some(ask.smallest.map_or(part, |least| least.min(part)));
                }
            }
        }
        for (_, queue) in world.shapes() {
            let ProjectIx(project_ix) = queue.project_ix;
            let row = self.rows[project_ix];
            for (at, amount) in self.charge(&queue.shape).into_iter().enumerate() {
                let ask = &mut asks[row.ix()][at];
                ask.requested = ask.requested.saturating_add(amount.saturating_mul(queue.n_jobs()));
                if self.kinds[at] == ResourceKind::Gpu
                    && (1..MilliGpu::DEVICE.get()).contains(&amount)
                {
                    ask.smallest = Some(ask.smallest.map_or(amount, |least| least.min(amount)));
                }
            }
        }
        let mut buffers = Buffers::default();
        for (at, kind) in self.kinds.iter().enumerate() {
            let quotas: Vec<Quota> = members.iter().map(|it| it.quota(kind)).collect();
            let step = if *kind == ResourceKind::Gpu { MilliGpu::DEVICE.get() } else { 1 };
            let method = Method { rules: Rules::Fair, step, feedback: Feedback::NONE };
            let mut division = Division::new(method, &self.tree, &quotas, self.totals[at]);
            for row in self.tree.rows().filter(|row| self.tree.is_leaf(*row)) {
                division.ask(&self.tree, row, asks[row.ix()][at]);
            }
            division.divide(&self.tree, &mut buffers);
            self.ledger.take_over(at, &division);
        }
    }

    /// Who is charged for jobs of a shape.
    pub fn row(&self, project_ix: ProjectIx) -> Row {
        self.rows[project_ix.0]
    }

    /// What one job of a shape counts for.
    pub fn charge(&self, shape: &Shape) -> Amounts {
        let fit = &shape.fit;
        let amount = |kind: &ResourceKind| match kind {
            ResourceKind::Gpu => fit.gpus.size().get(),
            ResourceKind::Cpu => fit.cpus.get(),
            ResourceKind::Memory => fit.memory.get(),
            ResourceKind::Tasks => 1,
            ResourceKind::GpuModel(_)
            | ResourceKind::GpuMemory
            | ResourceKind::MigProfile(_)
            | ResourceKind::PauseMemory => 0,
        };
        self.kinds.iter().map(amount).collect()
    }

    /// Why a job may not start whatever is free: a limit of its project, or of one above it; or it
    /// could never be taken back, and would be more than is guaranteed (SCHEDULING A7).
    pub fn refuses(&self, leaf: Row, amounts: &[u64], preemptible: bool) -> Option<Reason> {
        for row in self.tree.upwards(leaf) {
            for (at, asked) in amounts.iter().enumerate().filter(|(_, asked)| **asked > 0) {
                let account = self.ledger.account(row, at);
                let guaranteed = (Bound::Guaranteed, account.held_for_good, account.guaranteed);
                let bounds = [(Bound::Limit, account.held, account.limit)];
                let more = (!preemptible).then_some(guaranteed);
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
        self.kinds.iter().map(|kind| resources.get(kind)).collect()
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

    /// Something starts, or is to.
    pub fn add(&mut self, leaf: Row, amounts: &[u64], preemptible: bool) {
        self.ledger.add(&self.tree, leaf, amounts, preemptible);
    }

    /// Where a project stands among its siblings; the least goes first. It does not depend on what
    /// it would start next: what a cycle knows of that depends on what it looked at before.
    pub fn standing(&self, row: Row) -> Standing {
        let is_used_up = |it: &Account| it.guaranteed.finite().is_some_and(|most| it.held >= most);
        let beyond_guarantee = self.ledger.accounts(row).iter().any(is_used_up);
        let saturation = self.saturation(row);
        let priority = Reverse(self.tree.priority(row));
        Standing { beyond_guarantee, priority, saturation, row }
    }
}

/// The tree of the projects, which are sorted by name. `None` if they make none, which no command
/// brings about.
fn tree(members: &[Project]) -> Option<Tree> {
    let position = |name: &ProjectName| members.binary_search_by(|it| it.name.cmp(name)).ok();
    let member = |it: &Project| Member {
        parent: it.parent.as_ref().and_then(position),
        priority: it.priority,
        created: it.created_at.get(),
        id: it.name.clone(),
    };
    Tree::new(&members.iter().map(member).collect::<Vec<_>>()).ok()
}

/// How a project compares with its siblings: who has guarantees left goes first, then
/// the higher priority, then who has least of what is its own, then the older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    beyond_guarantee: bool,
    priority: Reverse<i32>,
    saturation: Saturation,
    // Rows stand in the order of age.
    pub row: Row,
}

/// What is held in proportion to what is one's own; the largest of all kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saturation {
    held: u64,
    own: u64,
}

impl Ord for Saturation {
    fn cmp(&self, other: &Self) -> Ordering {
        // Who holds of what it may have nothing of comes last, and who holds nothing first.
        let product = |held: u64, own: u64| u128::from(held) * u128::from(own);
        let infinite = |it: &Self| it.own == 0 && it.held > 0;
        match (infinite(self), infinite(other)) {
            (true, true) => self.held.cmp(&other.held),
            (false, false) => {
                product(self.held, other.own.max(1)).cmp(&product(other.held, self.own.max(1)))
            }
            (one, two) => one.cmp(&two),
        }
    }
}

impl PartialOrd for Saturation {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Saturation {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Saturation {}
