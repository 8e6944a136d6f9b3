//! The division of one kind over the whole tree: top projects share the capacity, and the children
//! of a department share its share. Kept between cycles; a change divides again only the levels
//! that it affects.

use gpool_model::{Amount, MilliGpu, Quota};

use super::claimant::{Claimant, Feedback};
use super::tree::{Tree, TreeIx};
use super::{Buffers, fair};

/// The rules for one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Shares are multiples of this where the requests exceed the capacity: 1000 for GPUs, 1 for
    /// kinds in any amount. Not zero.
    pub step: u64,
    /// The influence of past usage.
    pub feedback: Feedback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafRequest {
    /// Its allocations and pending requests.
    pub requested: u64,
    /// The smallest amount that one of its tasks requests, if that is less than the usual step.
    pub smallest: Option<u64>,
}

impl LeafRequest {
    /// Adds a request. `share` is the smallest share of a device in it.
    pub fn add(&mut self, amount: u64, share: Option<MilliGpu>) {
        self.requested = self.requested.saturating_add(amount);
        self.smallest = self.smallest.into_iter().chain(share.map(MilliGpu::get)).min();
    }
}

/// One kind, divided over the tree.
#[derive(Debug, Clone)]
pub struct Division {
    method: Method,
    total: u64,
    /// The capacity with that of devices that can't be used at the moment.
    installed: u64,
    // By row of the tree, all of them.
    claimants: Vec<Claimant>,
    // The part of each guarantee that the installed capacity covers.
    installed_guarantees: Vec<Amount>,
    // The guarantee of each as configured; of a department without one, the sum of its children's.
    configured_guarantees: Vec<Amount>,
    // The request of each; of a department, the claims of its children. Wide enough for every sum.
    requests: Vec<u128>,
    // Whether its children must be divided again.
    stale: Vec<bool>,
    tops_stale: bool,
}

impl Division {
    /// Returns a division without requests. `quotas` are by member of the tree.
    ///
    /// # Panics
    /// If there are not as many quotas as members, or the step is zero.
    #[must_use]
    pub fn new(method: Method, tree: &Tree, quotas: &[Quota], total: u64) -> Self {
        assert_eq!(quotas.len(), tree.len(), "one quota for each project");
        assert!(method.step > 0, "a step is not zero");
        let empty = Claimant {
            guaranteed: Amount::NOTHING,
            limit: Amount::UNLIMITED,
            weight: Quota::default().weight,
            priority: 0,
            usage: 0,
            claim: 0,
            step: method.step,
            share: 0,
            safe: Amount::NOTHING,
            safe_claim: 0,
        };
        let mut division = Self {
            method,
            total: total.min(Amount::MOST),
            installed: total.min(Amount::MOST),
            installed_guarantees: vec![Amount::NOTHING; tree.len()],
            claimants: vec![empty; tree.len()],
            configured_guarantees: vec![Amount::NOTHING; tree.len()],
            requests: vec![0; tree.len()],
            stale: vec![true; tree.len()],
            tops_stale: true,
        };
        let mut sums = vec![false; tree.len()];
        for (member, quota) in quotas.iter().enumerate() {
            let row = tree.row(member);
            let it = &mut division.claimants[row.ix()];
            (it.limit, it.weight, it.priority) = (quota.limit, quota.weight, tree.priority(row));
            division.configured_guarantees[row.ix()] = quota.guaranteed.unwrap_or(Amount::NOTHING);
            sums[row.ix()] = quota.guaranteed.is_none();
        }
        for row in tree.departments().iter().rev().filter(|row| sums[row.ix()]) {
            let children = division.configured_guarantees[tree.children(Some(*row))].iter();
            division.configured_guarantees[row.ix()] =
                children.fold(Amount::NOTHING, |sum, it| sum.plus(*it));
        }
        division.settle(tree);
        division
    }

    /// Computes the part of each guarantee that the capacity covers, and the claims.
    fn settle(&mut self, tree: &Tree) {
        self.scale_all(tree, self.installed);
        for (promised, it) in self.installed_guarantees.iter_mut().zip(&self.claimants) {
            *promised = it.safe;
        }
        self.scale_all(tree, self.total);
        for row in tree.rows().rev() {
            if !tree.is_leaf(row) {
                let children = self.claimants[tree.children(Some(row))].iter();
                self.requests[row.ix()] = children.map(|it| u128::from(it.claim)).sum();
                let children = self.claimants[tree.children(Some(row))].iter();
                self.claimants[row.ix()].safe_claim = children.map(|it| it.safe_claim).sum();
            }
            self.claimants[row.ix()].claim = self.claim(row);
            if tree.is_leaf(row) {
                self.claimants[row.ix()].safe_claim = self.safe_claim(row);
            }
        }
    }

    /// Computes the part of each guarantee that a capacity covers.
    fn scale_all(&mut self, tree: &Tree, capacity: u64) {
        let total = Amount::saturating_of(capacity);
        self.scale(tree, None, total, true);
        for row in tree.departments() {
            let safe = self.claimants[row.ix()].safe;
            let cap = if safe.is_unlimited() { total } else { safe };
            self.scale(tree, Some(*row), cap, safe.is_unlimited());
        }
    }

    /// Scales the guarantees of siblings down to `cap`, rounded down. If the parent's guarantee is
    /// finite, children with an unlimited one share the rest of it.
    fn scale(&mut self, tree: &Tree, parent: Option<TreeIx>, cap: Amount, unlimited: bool) {
        let rows = tree.children(parent);
        let cap = u128::from(cap.finite().unwrap_or(Amount::MOST));
        let (level, written) =
            (&mut self.claimants[rows.clone()], &self.configured_guarantees[rows]);
        let mut sum = 0_u128;
        for (it, written) in level.iter_mut().zip(written) {
            // An unlimited guarantee reaches up to the limit.
            it.guaranteed = (*written).min(it.limit);
            sum += u128::from(it.guaranteed.finite().unwrap_or(0));
        }
        let mut left = cap;
        let mut n_unlimited = 0;
        for it in &mut *level {
            it.safe = it.guaranteed;
            match it.guaranteed.finite() {
                Some(amount) => {
                    let kept = match sum > cap {
                        true => u128::from(amount) * cap / sum,
                        false => u128::from(amount),
                    };
                    it.safe =
                        Amount::saturating_of(u64::try_from(kept).expect("not above the amount"));
                    left -= kept;
                }
                None => n_unlimited += 1,
            }
        }
        if unlimited || n_unlimited == 0 {
            return;
        }
        let each =
            Amount::saturating_of(u64::try_from(left / n_unlimited).expect("not above the cap"));
        for it in level.iter_mut().filter(|it| it.guaranteed.is_unlimited()) {
            (it.safe, it.guaranteed) = (each, each);
        }
    }

    /// The claim of a project: its request up to its limit, and without weight up to its guarantee.
    /// Its department can't claim more for it either.
    fn claim(&self, row: TreeIx) -> u64 {
        let it = &self.claimants[row.ix()];
        let asked = u64::try_from(self.requests[row.ix()]).unwrap_or(u64::MAX).min(Amount::MOST);
        let claim = it.limit.cut(asked);
        match it.weight.thousandths() {
            0 => it.guaranteed.cut(claim),
            _ => claim,
        }
    }

    /// The part of a leaf's claim that it gets whatever others request.
    fn safe_claim(&self, leaf: TreeIx) -> u64 {
        let it = &self.claimants[leaf.ix()];
        let safe = it.safe.finite().unwrap_or(Amount::MOST);
        it.claim.min(safe - safe % it.step)
    }

    /// Sets the capacity, and the capacity with that of devices that can't be used at the moment.
    pub fn set_total(&mut self, tree: &Tree, total: u64, installed: u64) {
        let (total, installed) = (total.min(Amount::MOST), installed.min(Amount::MOST));
        if (self.total, self.installed) != (total, installed) {
            (self.total, self.installed) = (total, installed);
            self.settle(tree);
            self.stale.fill(true);
            self.tops_stale = true;
        }
    }

    /// Sets the past usage of a project, in millionths of the capacity.
    pub fn set_usage(&mut self, tree: &Tree, row: TreeIx, usage: u32) {
        if self.claimants[row.ix()].usage != usage {
            self.claimants[row.ix()].usage = usage;
            self.mark(tree.parent(row));
        }
    }

    /// Sets the request of a leaf, and updates all projects above it.
    ///
    /// # Panics
    /// If the row is no leaf.
    pub fn ask(&mut self, tree: &Tree, leaf: TreeIx, ask: LeafRequest) {
        assert!(tree.is_leaf(leaf), "only leaves request");
        let usual = self.method.step;
        let step = ask.smallest.map_or(usual, |smallest| smallest.clamp(1, usual));
        let mut finer = self.claimants[leaf.ix()].step != step;
        self.claimants[leaf.ix()].step = step;
        let mut asked = u128::from(ask.requested);
        let mut kept = None;
        let mut row = leaf;
        loop {
            let before = self.claimants[row.ix()];
            self.requests[row.ix()] = asked;
            self.claimants[row.ix()].claim = self.claim(row);
            self.claimants[row.ix()].safe_claim = kept.unwrap_or_else(|| self.safe_claim(row));
            let now = self.claimants[row.ix()];
            let (old, new) = (u128::from(before.claim), u128::from(now.claim));
            let above = tree.parent(row);
            if finer || now != before {
                self.mark(above);
            } else if old == new {
                return;
            }
            let Some(above) = above else { return };
            asked = self.requests[above.ix()] + new - old;
            kept = Some(self.claimants[above.ix()].safe_claim + now.safe_claim - before.safe_claim);
            finer = finer && self.step_anew(tree, above);
            row = above;
        }
    }

    /// Sets the step of a department: the finest of its children's. Returns whether it changed.
    fn step_anew(&mut self, tree: &Tree, row: TreeIx) -> bool {
        let children = self.claimants[tree.children(Some(row))].iter();
        let step = children.map(|it| it.step).min().unwrap_or(self.method.step);
        let changed = self.claimants[row.ix()].step != step;
        self.claimants[row.ix()].step = step;
        changed
    }

    fn mark(&mut self, parent: Option<TreeIx>) {
        match parent {
            Some(row) => self.stale[row.ix()] = true,
            None => self.tops_stale = true,
        }
    }

    /// Divides again wherever something changed.
    pub fn divide(&mut self, tree: &Tree, buffers: &mut Buffers) {
        if std::mem::take(&mut self.tops_stale) {
            self.divide_below(tree, None, self.total, buffers);
        }
        for row in tree.departments() {
            if std::mem::take(&mut self.stale[row.ix()]) {
                self.divide_below(tree, Some(*row), self.claimants[row.ix()].share, buffers);
            }
        }
    }

    fn divide_below(
        &mut self,
        tree: &Tree,
        parent: Option<TreeIx>,
        total: u64,
        buffers: &mut Buffers,
    ) {
        let rows = tree.children(parent);
        let level = &mut self.claimants[rows.clone()];
        let mut before = std::mem::take(&mut buffers.before);
        before.clear();
        before.extend(level.iter().map(|it| it.share));
        fair::divide(level, total, self.method.feedback, buffers);
        for ((it, before), row) in level.iter().zip(&before).zip(rows) {
            self.stale[row] |= it.share != *before;
        }
        buffers.before = before;
    }

    /// Returns the projects with their shares, by row.
    #[must_use]
    pub fn claimants(&self) -> &[Claimant] {
        &self.claimants
    }

    /// Returns the part of each guarantee that the installed capacity covers, by row.
    #[must_use]
    pub fn installed_guarantees(&self) -> &[Amount] {
        &self.installed_guarantees
    }

    /// Returns the capacity.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }
}
