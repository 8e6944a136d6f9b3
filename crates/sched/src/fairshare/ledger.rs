//! The usage of each project by kind, beside its quota and share. The usage of a leaf counts for
//! all projects above it.

use gpool_model::Amount;

use super::claimant::Claimant;
use super::tree::{Tree, TreeIx};

/// The account of one project for one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The part of its guarantee that the present capacity covers, whatever others request: work
    /// within it is never reclaimed.
    pub guaranteed: Amount,
    /// The part of its guarantee that the installed capacity covers. GPUs that can't be used for a
    /// while do not reduce it: jobs that can't be evicted may use it wherever GPUs are left.
    pub installed_guarantee: Amount,
    pub limit: Amount,
    /// Its share in this cycle.
    pub share: Amount,
    /// Its usage, with its planned starts.
    pub held: u64,
    /// The part of `held` for planned starts, which hold nothing yet. Limits and shares count them,
    /// reclaim does not.
    pub planned: u64,
    /// The usage by jobs that can't be evicted.
    pub held_for_good: u64,
}

impl Account {
    /// No guarantee, no usage, no limit.
    pub const EMPTY: Self = Self {
        guaranteed: Amount::NOTHING,
        installed_guarantee: Amount::NOTHING,
        limit: Amount::UNLIMITED,
        share: Amount::NOTHING,
        held: 0,
        planned: 0,
        held_for_good: 0,
    };

    /// Its usage without planned starts.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.held.saturating_sub(self.planned)
    }

    /// The most that jobs may use that can't be evicted.
    #[must_use]
    pub fn for_good(&self) -> Amount {
        self.guaranteed.max(self.installed_guarantee)
    }

    /// The most that is its own: the larger of its guarantee and its share. Usage beyond it is over
    /// quota.
    #[must_use]
    pub fn own(&self) -> Amount {
        match self.guaranteed.is_unlimited() {
            true => self.limit,
            false => self.limit.min(self.guaranteed.max(self.share)),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Ledger {
    n_kinds: usize,
    // By row of the tree, then by kind.
    accounts: Vec<Account>,
}

impl Ledger {
    /// Returns empty accounts for each project and `n_kinds` kinds.
    ///
    /// # Panics
    /// At more than 64 kinds.
    #[must_use]
    pub fn new(tree: &Tree, n_kinds: usize) -> Self {
        assert!(n_kinds <= 64, "sets of kinds are kept in one word");
        Self { n_kinds, accounts: vec![Account::EMPTY; tree.len() * n_kinds] }
    }

    pub fn clear(&mut self) {
        self.accounts.fill(Account::EMPTY);
    }

    #[must_use]
    pub fn n_kinds(&self) -> usize {
        self.n_kinds
    }

    /// The account of a project for one kind.
    #[must_use]
    pub fn account(&self, row: TreeIx, kind: usize) -> &Account {
        &self.accounts(row)[kind]
    }

    /// The accounts of one project, by kind.
    #[must_use]
    pub fn accounts(&self, row: TreeIx) -> &[Account] {
        &self.accounts[row.ix() * self.n_kinds..][..self.n_kinds]
    }

    pub fn set(&mut self, row: TreeIx, kind: usize, account: Account) {
        self.accounts[row.ix() * self.n_kinds + kind] = account;
    }

    /// Takes over the result of the division of one kind.
    pub fn take_over(&mut self, kind: usize, claimants: &[Claimant]) {
        let accounts = self.accounts.iter_mut().skip(kind).step_by(self.n_kinds.max(1));
        for (it, claimant) in accounts.zip(claimants) {
            it.guaranteed = claimant.safe;
            it.limit = claimant.limit;
            it.share = Amount::saturating_of(claimant.share);
        }
    }

    /// Sets the guarantees of one kind that the installed capacity covers.
    pub fn promise(&mut self, kind: usize, promised: &[Amount]) {
        let accounts = self.accounts.iter_mut().skip(kind).step_by(self.n_kinds.max(1));
        accounts.zip(promised).for_each(|(it, promised)| it.installed_guarantee = *promised);
    }

    /// Adds usage, by kind, to a leaf and all projects above it.
    pub fn add(&mut self, tree: &Tree, leaf: TreeIx, amounts: &[u64], preemptible: bool) {
        self.change(tree, leaf, amounts, preemptible, |held, amount| held + amount);
    }

    /// Adds the usage of a planned start.
    pub fn plan(&mut self, tree: &Tree, leaf: TreeIx, amounts: &[u64], preemptible: bool) {
        self.add(tree, leaf, amounts, preemptible);
        for row in tree.upwards(leaf) {
            let accounts = &mut self.accounts[row.ix() * self.n_kinds..][..self.n_kinds];
            accounts.iter_mut().zip(amounts).for_each(|(it, amount)| it.planned += amount);
        }
    }

    /// Removes usage: undoes [`add`](Self::add).
    ///
    /// # Panics
    /// If it was not held.
    pub fn remove(&mut self, tree: &Tree, leaf: TreeIx, amounts: &[u64], preemptible: bool) {
        let less = |held: u64, amount: u64| held.checked_sub(amount).expect("it was added before");
        self.change(tree, leaf, amounts, preemptible, less);
    }

    fn change(
        &mut self,
        tree: &Tree,
        leaf: TreeIx,
        amounts: &[u64],
        preemptible: bool,
        with: impl Fn(u64, u64) -> u64,
    ) {
        for row in tree.upwards(leaf) {
            let accounts = &mut self.accounts[row.ix() * self.n_kinds..][..self.n_kinds];
            for (it, amount) in accounts.iter_mut().zip(amounts) {
                it.held = with(it.held, *amount);
                it.held_for_good = with(it.held_for_good, if preemptible { 0 } else { *amount });
            }
        }
    }
}
