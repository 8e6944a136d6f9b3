//! The quota, share, usage and loans of each project, for people: the numbers of a cycle.

use std::collections::BTreeMap;

use gpool_model::{Amount, Policy, ProjectName, ResourceKind, StartBasis, Timestamp};
use gpool_world::{JobRow, Snapshot};

use crate::fairshare::{Account, TreeIx};
use crate::quota_state::{GPUS, Projects, in_devices};

/// One project; amounts are thousandths of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectShare {
    pub project: ProjectName,
    /// Its covered guarantees, limit, share and usage of GPUs.
    pub account: Account,
    /// The same of GPU models and pools that any quota names.
    pub parts: Vec<(ResourceKind, Account)>,
    /// The same of all other kinds that any quota names.
    pub others: Vec<(ResourceKind, Account)>,
    /// Its usage over quota, by lender; only leaves borrow.
    pub borrows: Vec<Loan>,
    /// The part of its guarantee that others use.
    pub lends: Vec<Loan>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    /// The other project; `None` is capacity that no project is guaranteed.
    pub project: Option<ProjectName>,
    /// Thousandths of GPUs.
    pub amount: u64,
    /// Whether the lender can reclaim all of it at once.
    pub is_reclaimable: bool,
    /// When the jobs that use it end by themselves; `None` if that is unknown.
    pub ends: Option<LoanEnd>,
}

/// When a loan ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoanEnd {
    pub at: Timestamp,
    pub basis: StartBasis,
}

/// Returns all projects in the order of the tree, departments before the projects below them. Empty
/// without shares between projects.
#[must_use]
pub fn project_shares(snapshot: &Snapshot<'_>, policy: &Policy) -> Vec<ProjectShare> {
    let projects = Projects::of(snapshot, policy, None).filter(|projects| projects.are_shared);
    let Some(projects) = projects else { return Vec::new() };
    let account = |row: TreeIx| *projects.ledger.account(row, GPUS);
    let accounts_of = |row: TreeIx, is_of: fn(&ResourceKind) -> bool| {
        let all = projects.kinds.iter().zip(projects.ledger.accounts(row));
        let accounts = all.filter(|(kind, _)| is_of(kind));
        accounts.map(|(kind, account)| (kind.clone(), *account)).collect()
    };
    let share = |row: TreeIx| ProjectShare {
        project: projects.names[row.ix()].clone(),
        account: account(row),
        parts: accounts_of(row, ResourceKind::is_part_of_gpus),
        others: accounts_of(row, |kind| !in_devices(kind)),
        borrows: Vec::new(),
        lends: Vec::new(),
    };
    let mut shares: Vec<ProjectShare> = projects.tree.rows().map(share).collect();
    let leaves: Vec<TreeIx> = projects.leaves().collect();
    let safe = |row: &TreeIx| account(*row).for_good();
    // Capacity that no project is guaranteed is lent first.
    let guaranteed = leaves.iter().map(safe).fold(Amount::NOTHING, Amount::plus);
    let total = projects.totals[GPUS];
    let mut free = guaranteed.finite().map_or(0, |guaranteed| total.saturating_sub(guaranteed));
    let unused = |row: &TreeIx| {
        safe(row).finite().map_or(0, |guaranteed| guaranteed.saturating_sub(account(*row).held))
    };
    let mut lenders: Vec<(TreeIx, u64)> = leaves.iter().map(|row| (*row, unused(row))).collect();
    let ends = ends(snapshot);
    for borrower in &leaves {
        let over = safe(borrower).finite().map(|most| account(*borrower).held.saturating_sub(most));
        let mut left = over.unwrap_or(0);
        let unguaranteed = left.min(free);
        let mut loans = Vec::new();
        if unguaranteed > 0 {
            (left, free) = (left - unguaranteed, free - unguaranteed);
            loans.push((None, unguaranteed));
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
        // Loans are returned from the last to the first.
        let mut back = 0;
        for (lender, amount) in loans.into_iter().rev() {
            back += amount;
            let name = &projects.names[borrower.ix()];
            let is_reclaimable = back <= held.saturating_sub(own);
            let ends = end_of(ends.get(name).map_or(&[], Vec::as_slice), back);
            let terms = |project| Loan { project, amount, is_reclaimable, ends };
            let from = lender.map(|lender| projects.names[lender.ix()].clone());
            shares[borrower.ix()].borrows.insert(0, terms(from));
            if let Some(lender) = lender {
                shares[lender.ix()].lends.push(terms(Some(name.clone())));
            }
        }
    }
    let of_projects =
        projects.tree.rows().zip(shares).filter(|(row, _)| !projects.is_user[row.ix()]);
    of_projects.map(|(_, share)| share).collect()
}

/// The expected ends of the jobs of each project, the earliest first, with their usage.
fn ends<'a>(snapshot: &Snapshot<'a>) -> BTreeMap<&'a ProjectName, Vec<(LoanEnd, u64)>> {
    let mut by_project = BTreeMap::<_, Vec<_>>::new();
    for row in snapshot.world.holding() {
        let Some(end) = snapshot.world.expected_end(row, snapshot.now) else { continue };
        let end = LoanEnd { at: end.at, basis: end.basis };
        by_project.entry(&row.spec.project).or_default().push((end, held(row)));
    }
    by_project.values_mut().for_each(|ends| ends.sort_by_key(|(end, _)| end.at));
    by_project
}

/// When jobs with that usage have ended.
fn end_of(ends: &[(LoanEnd, u64)], amount: u64) -> Option<LoanEnd> {
    let (mut left, mut basis) = (amount, StartBasis::Limit);
    for (end, held) in ends {
        left = left.saturating_sub(*held);
        basis = if end.basis == StartBasis::Limit { basis } else { end.basis };
        if left == 0 {
            return Some(LoanEnd { at: end.at, basis });
        }
    }
    None
}

/// The usage of a job, without allocations that it is leaving.
fn held(row: &JobRow) -> u64 {
    let kept = row.job.phase.allocations().iter().filter(|it| !it.is_leaving());
    kept.map(|it| it.resources.get(&ResourceKind::Gpu)).fold(0, u64::saturating_add)
}
