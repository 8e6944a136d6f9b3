//! Divides one resource kind over the tree of projects by KAI's rules.

use gpool_model::{Amount, Quota};
use gpool_sched::fairshare::{Claimant, Feedback, Row, Tree};

use super::level::{Buffers, divide};

/// One resource kind, divided over the tree.
#[derive(Debug, Clone)]
pub struct Division {
    step: u64,
    feedback: Feedback,
    total: u64,
    // By row of the tree.
    claimants: Vec<Claimant>,
    // Requested by each leaf and by all leaves below a department. Wide enough for every sum.
    requested: Vec<u128>,
}

impl Division {
    /// Returns a division without requests. `quotas` are by member, as the tree was made; shares
    /// are cut to multiples of `step`.
    ///
    /// # Panics
    /// If the number of quotas differs from the number of projects, or `step` is zero.
    #[must_use]
    pub fn new(step: u64, feedback: Feedback, tree: &Tree, quotas: &[Quota], total: u64) -> Self {
        assert_eq!(quotas.len(), tree.len(), "one quota for each project");
        assert!(step > 0, "a step is not nothing");
        let mut rows: Vec<usize> = vec![0; tree.len()];
        for member in 0..quotas.len() {
            rows[tree.row(member).ix()] = member;
        }
        let claimant = |row: Row| {
            let quota = quotas[rows[row.ix()]];
            let guaranteed = quota.guaranteed.unwrap_or(Amount::NOTHING);
            Claimant {
                guaranteed,
                limit: quota.limit,
                weight: quota.weight,
                priority: tree.priority(row),
                usage: 0,
                claim: 0,
                step,
                share: 0,
                safe: guaranteed,
                kept: 0,
            }
        };
        Self {
            step,
            feedback,
            total: total.min(Amount::MOST),
            claimants: tree.rows().map(claimant).collect(),
            requested: vec![0; tree.len()],
        }
    }

    /// Sets recent usage of a project, in millionths of the capacity.
    pub fn set_usage(&mut self, row: Row, usage: u32) {
        self.claimants[row.ix()].usage = usage;
    }

    /// Adds a request to a leaf and all projects above it.
    pub fn request(&mut self, tree: &Tree, leaf: Row, amount: u64) {
        for row in tree.upwards(leaf) {
            let requested = &mut self.requested[row.ix()];
            *requested += u128::from(amount);
            let it = &mut self.claimants[row.ix()];
            let most = u64::try_from(*requested).unwrap_or(u64::MAX).min(Amount::MOST);
            it.claim = it.limit.cut(most);
        }
    }

    /// Divides the total among the top projects, and each department's share among its children.
    pub fn divide(&mut self, tree: &Tree) {
        let mut buffers = Buffers::default();
        let (step, feedback) = (self.step, self.feedback);
        let tops = &mut self.claimants[tree.children(None)];
        divide(tops, self.total, step, feedback, &mut buffers);
        for row in tree.departments() {
            let share = self.claimants[row.ix()].share;
            let children = &mut self.claimants[tree.children(Some(*row))];
            divide(children, share, step, feedback, &mut buffers);
        }
    }

    /// The share of each project and the inputs to it, by row.
    #[must_use]
    pub fn claimants(&self) -> &[Claimant] {
        &self.claimants
    }
}
