//! What each project may have and has at a moment, for people: the numbers by which a cycle
//! decides, and who lends to whom.

use gpool_model::{Amount, Policy, ProjectName, ResourceKind};
use gpool_world::Snapshot;

use crate::projects::Projects;
use crate::shares::{Account, Row};

/// One project at a moment; amounts are thousandths of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectShare {
    /// Which.
    pub project: ProjectName,
    /// What of its guarantee can be kept, its limit, its share in this cycle and what it holds.
    pub account: Account,
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
}

/// What every project may have and has, in the order of the tree, departments before what is below
/// them. Empty where nothing is shared between projects.
#[must_use]
pub fn project_shares(snapshot: &Snapshot<'_>, policy: &Policy) -> Vec<ProjectShare> {
    let projects = Projects::of(snapshot, policy).filter(|projects| projects.are_shared);
    let Some(projects) = projects else { return Vec::new() };
    let gpu = projects.position(&ResourceKind::Gpu);
    let account = |row: Row| *projects.ledger.account(row, gpu);
    let share = |row: Row| ProjectShare {
        project: projects.name(row).clone(),
        account: account(row),
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
    for borrower in &leaves {
        let over = safe(borrower).finite().map(|most| account(*borrower).held.saturating_sub(most));
        let mut left = over.unwrap_or(0);
        let from_nobody = left.min(free);
        if from_nobody > 0 {
            (left, free) = (left - from_nobody, free - from_nobody);
            shares[borrower.ix()].borrows.push(Lent { project: None, amount: from_nobody });
        }
        for (lender, unused) in &mut lenders {
            let amount = left.min(*unused);
            if amount == 0 {
                continue;
            }
            (left, *unused) = (left - amount, *unused - amount);
            let (to, from) = (projects.name(*borrower).clone(), projects.name(*lender).clone());
            shares[borrower.ix()].borrows.push(Lent { project: Some(from), amount });
            shares[lender.ix()].lends.push(Lent { project: Some(to), amount });
        }
    }
    let of_projects = projects.tree.rows().zip(shares).filter(|(row, _)| !projects.is_user(*row));
    of_projects.map(|(_, share)| share).collect()
}
