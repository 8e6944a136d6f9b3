//! What each project may have and has at a moment, for people: the numbers by which a cycle
//! decides, and who lends to whom.

use std::collections::BTreeMap;

use gpool_model::{
    AllocationState, Amount, Policy, ProjectName, ResourceKind, StartBasis, Timestamp,
};
use gpool_world::{JobRow, Snapshot};

use crate::fairshare::{Account, Row};
use crate::quota_state::{Projects, in_devices};

/// One project at a moment; amounts are thousandths of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectShare {
    /// Which.
    pub project: ProjectName,
    /// What of its guarantee can be kept, its limit, its share in this cycle and what it holds.
    pub account: Account,
    /// The same of parts of the GPUs, of which anything is agreed with any project.
    pub parts: Vec<(ResourceKind, Account)>,
    /// The same of all else of which anything is agreed with any project.
    pub others: Vec<(ResourceKind, Account)>,
    /// What of it is on loan, by whom it is lent; only leaves borrow.
    pub borrows: Vec<Lent>,
    /// What it is guaranteed and others hold.
    pub lends: Vec<Lent>,
}

/// So much of somebody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lent {
    /// The other side; `None` is what nobody is guaranteed.
    pub project: Option<ProjectName>,
    /// How much.
    pub amount: u64,
    /// Whether all of it can be taken back when its owner asks.
    pub when_asked: bool,
    /// When it is given back by itself, because who holds it has ended; `None` if that is not
    /// known.
    pub ends: Option<LoanEnd>,
}

/// When a loan ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoanEnd {
    /// When.
    pub at: Timestamp,
    /// How that is known.
    pub basis: StartBasis,
}

/// What every project may have and has, in the order of the tree, departments before what is below
/// them. Empty where nothing is shared between projects.
#[must_use]
pub fn project_shares(snapshot: &Snapshot<'_>, policy: &Policy) -> Vec<ProjectShare> {
    let projects = Projects::of(snapshot, policy, None).filter(|projects| projects.are_shared);
    let Some(projects) = projects else { return Vec::new() };
    let gpu = projects.position(&ResourceKind::Gpu);
    let account = |row: Row| *projects.ledger.account(row, gpu);
    let accounts_of = |row: Row, is_of: fn(&ResourceKind) -> bool| {
        let all = projects.kinds().iter().zip(projects.ledger.accounts(row));
        let accounts = all.filter(|(kind, _)| is_of(kind));
        accounts.map(|(kind, account)| (kind.clone(), *account)).collect()
    };
    let is_other = |kind: &ResourceKind| !in_devices(kind);
    let share = |row: Row| ProjectShare {
        project: projects.name(row).clone(),
        account: account(row),
        parts: accounts_of(row, ResourceKind::is_part_of_gpus),
        others: accounts_of(row, is_other),
        borrows: Vec::new(),
        lends: Vec::new(),
    };
    let mut shares: Vec<ProjectShare> = projects.tree.rows().map(share).collect();
    let leaves: Vec<Row> = projects.leaves().collect();
    let safe = |row: &Row| account(*row).guaranteed;
    // What nobody is guaranteed is lent first.
    let promised = leaves.iter().map(safe).fold(Amount::NOTHING, Amount::plus);
    let total = projects.total(gpu);
    let mut free = promised.finite().map_or(0, |promised| total.saturating_sub(promised));
    let unused = |row: &Row| {
        safe(row).finite().map_or(0, |guaranteed| guaranteed.saturating_sub(account(*row).held))
    };
    let mut lenders: Vec<(Row, u64)> = leaves.iter().map(|row| (*row, unused(row))).collect();
    let ends = Ends::of(snapshot);
    for borrower in &leaves {
        let over = safe(borrower).finite().map(|most| account(*borrower).held.saturating_sub(most));
        let mut left = over.unwrap_or(0);
        let from_nobody = left.min(free);
        let mut loans = Vec::new();
        if from_nobody > 0 {
            (left, free) = (left - from_nobody, free - from_nobody);
            loans.push((None, from_nobody));
        }
        for (lender, unused) in &mut lenders {
            let amount = left.min(*unused);
            if amount == 0 {
                continue;
            }
            (left, *unused) = (left - amount, *unused - amount);
            loans.push((Some(*lender), amount));
        }
        let Account { held, held_for_good, .. } = account(*borrower);
        let own = safe(borrower).finite().unwrap_or(held).max(held_for_good);
        // Who has less on loan owes those who are named first: the last are given back first.
        let mut back = 0;
        for (lender, amount) in loans.into_iter().rev() {
            back += amount;
            let name = projects.name(*borrower);
            let when_asked = back <= held.saturating_sub(own);
            let terms =
                |project| Lent { project, amount, when_asked, ends: ends.after(name, back) };
            let from = lender.map(|lender| projects.name(lender).clone());
            shares[borrower.ix()].borrows.insert(0, terms(from));
            if let Some(lender) = lender {
                shares[lender.ix()].lends.push(terms(Some(name.clone())));
            }
        }
    }
    let of_projects = projects.tree.rows().zip(shares).filter(|(row, _)| !projects.is_user(*row));
    of_projects.map(|(_, share)| share).collect()
}

/// When the jobs of each project are expected to end, earliest first, with what they hold; those
/// of which that is not known are not among them.
struct Ends<'a> {
    by_project: BTreeMap<&'a ProjectName, Vec<(LoanEnd, u64)>>,
}

impl<'a> Ends<'a> {
    fn of(snapshot: &Snapshot<'a>) -> Self {
        let mut by_project = BTreeMap::<_, Vec<_>>::new();
        for row in snapshot.world.holding() {
            let Some(end) = snapshot.world.expected_end(row, snapshot.now) else { continue };
            let end = LoanEnd { at: end.at, basis: end.basis };
            by_project.entry(&row.spec.project).or_default().push((end, held(row)));
        }
        by_project.values_mut().for_each(|ends| ends.sort_by_key(|(end, _)| end.at));
        Self { by_project }
    }

    /// When jobs of a project that hold so much have ended.
    fn after(&self, project: &ProjectName, amount: u64) -> Option<LoanEnd> {
        let (mut left, mut basis) = (amount, StartBasis::Limit);
        for (end, held) in self.by_project.get(project).into_iter().flatten() {
            left = left.saturating_sub(*held);
            basis = if end.basis == StartBasis::Limit { basis } else { end.basis };
            if left == 0 {
                return Some(LoanEnd { at: end.at, basis });
            }
        }
        None
    }
}

/// What a job holds that is not being given up.
fn held(row: &JobRow) -> u64 {
    let leaves = |state: &AllocationState| {
        matches!(state, AllocationState::Releasing { .. } | AllocationState::Pausing)
    };
    let kept = row.job.phase.allocations().iter().filter(|it| !leaves(&it.state));
    kept.map(|it| it.resources.get(&ResourceKind::Gpu)).fold(0, u64::saturating_add)
}
