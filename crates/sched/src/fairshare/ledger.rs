//! What each project holds of each kind, beside what it may hold. What a leaf holds, all above it
//! hold too.

use gpool_model::Amount;

use super::claimant::Claimant;
use super::tree::{Row, Tree};

/// One project and one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// What can be kept of what it is guaranteed.
    pub guaranteed: Amount,
    /// What it never exceeds.
    pub limit: Amount,
    /// What it may have in this cycle.
    pub share: Amount,
    /// What it holds.
    pub held: u64,
    /// The part of it that can't be taken back.
    pub held_for_good: u64,
}

impl Account {
    /// Nothing promised, nothing held, no limit.
    pub const EMPTY: Self = Self {
        guaranteed: Amount::NOTHING,
        limit: Amount::UNLIMITED,
        share: Amount::NOTHING,
        held: 0,
        held_for_good: 0,
    };

    /// Up to where what it holds is its own: its guarantee or its share, whichever is more; beyond,
    /// it is on loan.
    #[must_use]
    pub fn own(&self) -> Amount {
        match self.guaranteed.is_unlimited() {
            true => self.limit,
            false => self.limit.min(self.guaranteed.max(self.share)),
        }
    }
}

/// What all projects hold and may hold.
#[derive(Debug, Clone)]
pub struct Ledger {
    n_kinds: usize,
    // By row of the tree, then by kind.
    accounts: Vec<Account>,
}

impl Ledger {
    /// Empty accounts for each project and so many kinds.
    ///
    /// # Panics
    /// At more than 64 kinds.
    #[must_use]
    pub fn new(tree: &Tree, n_kinds: usize) -> Self {
        assert!(n_kinds <= 64, "sets of kinds are kept in one word");
        Self { n_kinds, accounts: vec![Account::EMPTY; tree.len() * n_kinds] }
    }

    /// Empties all accounts.
    pub fn clear(&mut self) {
        self.accounts.fill(Account::EMPTY);
    }

    /// How many kinds are counted.
    #[must_use]
    pub fn n_kinds(&self) -> usize {
        self.n_kinds
    }

    /// How many projects there are.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.accounts.len() / self.n_kinds.max(1)
    }

    /// One account.
    #[must_use]
    pub fn account(&self, row: Row, kind: usize) -> &Account {
        &self.accounts(row)[kind]
    }

    /// The accounts of one project, by kind.
    #[must_use]
    pub fn accounts(&self, row: Row) -> &[Account] {
        &self.accounts[row.ix() * self.n_kinds..][..self.n_kinds]
    }

    /// Replaces one account.
    pub fn set(&mut self, row: Row, kind: usize, account: Account) {
        self.accounts[row.ix() * self.n_kinds + kind] = account;
    }

    /// Takes over what came out of the division of one kind.
    pub fn take_over(&mut self, kind: usize, claimants: &[Claimant]) {
        let accounts = self.accounts.iter_mut().skip(kind).step_by(self.n_kinds.max(1));
        for (it, claimant) in accounts.zip(claimants) {
            it.guaranteed = claimant.safe;
            it.limit = claimant.limit;
            it.share = Amount::counted(claimant.share);
        }
    }

    /// Something starts: a leaf and all above it hold it. `amounts` are by kind.
    pub fn add(&mut self, tree: &Tree, leaf: Row, amounts: &[u64], preemptible: bool) {
        for row in tree.upwards(leaf) {
            let accounts = &mut self.accounts[row.ix() * self.n_kinds..][..self.n_kinds];
            for (it, amount) in accounts.iter_mut().zip(amounts) {
                it.held += amount;
                it.held_for_good += if preemptible { 0 } else { *amount };
            }
        }
    }

    /// Something ends: what [`add`](Self::add) did is undone.
    ///
    /// # Panics
    /// If it was not held.
    pub fn remove(&mut self, tree: &Tree, leaf: Row, amounts: &[u64], preemptible: bool) {
        let less = |held: u64, amount: u64| held.checked_sub(amount).expect("what ends was held");
        for row in tree.upwards(leaf) {
            let accounts = &mut self.accounts[row.ix() * self.n_kinds..][..self.n_kinds];
            for (it, amount) in accounts.iter_mut().zip(amounts) {
                it.held = less(it.held, *amount);
                let for_good = if preemptible { 0 } else { *amount };
                it.held_for_good = less(it.held_for_good, for_good);
            }
        }
    }
}
