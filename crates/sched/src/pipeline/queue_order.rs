//! Stage order: the projects in the order of their shares, and the jobs of each in the order of the
//! policy. Every project gets its share before any capacity is lent.

use std::collections::BTreeSet;

use gpool_model::{JobId, Policy, PoolName};
use gpool_world::{QueueHead, ShapeIx, Snapshot};

use super::prefilter::{Prefilter, Verdict};
use crate::fairshare::TreeIx;
use crate::order::Heads;
use crate::quota_state::{Leaf, Projects, SiblingRank};

/// The pools with a policy of their own, by name, and then the cluster; each with its policy.
pub(super) fn scopes(policy: &Policy) -> impl Iterator<Item = (Option<&PoolName>, &Policy)> {
    let pools = policy.pools.iter().map(|(pool, own)| (Some(pool), own));
    pools.chain([(None, policy)])
}

/// Returns the pending jobs in the order of a cycle without shares between projects: first the jobs
/// of pools with a policy of their own, pool by pool.
pub fn in_order<'a>(
    snapshot: &Snapshot<'a>,
    policy: &'a Policy,
) -> impl Iterator<Item = JobId> + 'a {
    let world = snapshot.world;
    scopes(policy).flat_map(move |(pool, policy)| {
        let mut heads = Heads::default();
        world.lines_of(pool).for_each(|(_, line)| heads.add(line));
        heads.open(|_| false);
        std::iter::from_fn(move || {
            let head = *heads.first()?.0;
            heads.advance();
            heads.push_next(world, policy, &head);
            Some(head.job())
        })
    })
}

/// The pending jobs that the cycle has not considered yet.
pub(crate) struct QueueOrder<'w> {
    /// By row of the tree of projects; one entry without shares between projects.
    heads: Vec<Heads<'w>>,
    /// Heads of lines that were considered.
    visited_heads: BTreeSet<(ShapeIx, bool)>,
    /// By row, of projects with jobs left.
    standings: Vec<Option<SiblingRank>>,
    /// The projects with jobs left, of each department by its row plus one, the top ones first.
    open: Vec<BTreeSet<SiblingRank>>,
    /// Jobs beyond the shares of their projects.
    aside: Vec<(Leaf, QueueHead)>,
    /// The projects of those that have a free place.
    borrowers: BTreeSet<usize>,
    /// Whether jobs were skipped that may start once capacity is lent.
    has_skipped: bool,
}

fn ix(leaf: Leaf) -> usize {
    leaf.map_or(0, TreeIx::ix)
}

impl<'w> QueueOrder<'w> {
    /// Queues the first job of every shape that passes the prefilter: of the jobs that the cycle's
    /// scope schedules.
    pub fn new(prefilter: &Prefilter<'_, 'w>) -> Self {
        let n_rows = prefilter.cluster.shared().map_or(1, |projects| projects.tree.len());
        let mut queue = Self {
            heads: Vec::new(),
            visited_heads: BTreeSet::new(),
            standings: vec![None; n_rows],
            open: vec![BTreeSet::new(); n_rows + 1],
            aside: Vec::new(),
            borrowers: BTreeSet::new(),
            has_skipped: false,
        };
        queue.heads.resize_with(n_rows, Heads::default);
        queue.add_lines(prefilter);
        queue.order(prefilter.cluster.shared());
        queue
    }

    fn add_lines(&mut self, prefilter: &Prefilter<'_, 'w>) {
        for (key, line) in prefilter.world().lines_of(prefilter.scope.pool) {
            let leaf = prefilter.cluster.shared().map(|projects| projects.leaf(key));
            match prefilter.of_line(leaf, line) {
                Verdict::Now => self.heads[ix(leaf)].add(line),
                Verdict::Later => self.has_skipped = true,
                Verdict::Never => {}
            }
        }
    }

    fn order(&mut self, projects: Option<&Projects>) {
        let Some(projects) = projects else { return };
        self.standings.fill(None);
        self.open.iter_mut().for_each(BTreeSet::clear);
        projects.tree.rows().rev().for_each(|row| self.update(projects, row));
    }

    /// Takes the next job out of the queue.
    pub fn next(&mut self, prefilter: &Prefilter<'_, '_>) -> Option<(Leaf, QueueHead)> {
        let projects = prefilter.cluster.shared();
        loop {
            let leaf = self.first_leaf(projects)?;
            let has_skipped = &mut self.has_skipped;
            self.heads[ix(leaf)].open(|line| {
                let verdict = prefilter.of_line(leaf, line);
                *has_skipped |= matches!(verdict, Verdict::Later);
                !matches!(verdict, Verdict::Now)
            });
            if let Some(head) = self.next_of(leaf, prefilter) {
                return Some((leaf, head));
            }
            self.settle(Some(projects?), leaf);
        }
    }

    /// Takes the next job of a project out of the queue; `None` if it has none left.
    fn next_of(&mut self, leaf: Leaf, prefilter: &Prefilter<'_, '_>) -> Option<QueueHead> {
        let mut last = None;
        loop {
            let heads = &mut self.heads[ix(leaf)];
            if let Some((line_ix, line)) = heads.line().filter(|(ix, _)| last != Some(*ix)) {
                last = Some(line_ix);
                let verdict = prefilter.of_line(leaf, line);
                if !matches!(verdict, Verdict::Now) {
                    self.has_skipped |= matches!(verdict, Verdict::Later);
                    heads.skip_line();
                    continue;
                }
            }
            let (head, is_first) = heads.first()?;
            let key = (head.shape_ix, head.is_escalated);
            if !is_first || !self.visited_heads.contains(&key) {
                match prefilter.of_job(leaf, head) {
                    Verdict::Now => {
                        let head = *head;
                        heads.advance();
                        self.visited_heads.extend(is_first.then_some(key));
                        return Some(head);
                    }
                    Verdict::Later if is_first => self.has_skipped = true,
                    Verdict::Later => self.aside.push((leaf, *head)),
                    Verdict::Never => {}
                }
            }
            heads.advance();
        }
    }

    /// The first project, from the top of the tree down; `None` if no jobs are left.
    fn first_leaf(&self, projects: Option<&Projects>) -> Option<Leaf> {
        let Some(projects) = projects else {
            return (!self.heads[0].is_empty()).then_some(None);
        };
        let mut department = 0;
        loop {
            let row = self.open[department].first()?.row;
            if projects.tree.is_leaf(row) {
                return Some(Some(row));
            }
            department = row.ix() + 1;
        }
    }

    /// The queued jobs of a project.
    pub fn heads(&mut self, leaf: Leaf) -> &mut Heads<'w> {
        &mut self.heads[ix(leaf)]
    }

    /// Whether a job of the project that was set aside has a free place.
    pub fn has_borrower(&self, leaf: Leaf) -> bool {
        self.borrowers.contains(&ix(leaf))
    }

    /// Lets a job wait until every project has its share; `has_place` if it has a free place that
    /// it may borrow then.
    pub fn set_aside(&mut self, leaf: Leaf, head: QueueHead, has_place: bool) {
        self.aside.push((leaf, head));
        self.borrowers.extend(has_place.then_some(ix(leaf)));
    }

    /// Updates the place of a project, and of all above it, in the order.
    pub fn settle(&mut self, projects: Option<&Projects>, leaf: Leaf) {
        let (Some(projects), Some(leaf)) = (projects, leaf) else { return };
        projects.tree.upwards(leaf).for_each(|row| self.update(projects, row));
    }

    /// Updates the place of a project among its siblings.
    fn update(&mut self, projects: &Projects, row: TreeIx) {
        let is_open = match projects.tree.is_leaf(row) {
            true => !self.heads[row.ix()].is_empty(),
            false => !self.open[row.ix() + 1].is_empty(),
        };
        let is_escalated = self.heads[row.ix()].next_is_escalated();
        let standing = is_open.then(|| projects.standing(row, is_escalated));
        let before = std::mem::replace(&mut self.standings[row.ix()], standing);
        if before != standing {
            let department = projects.tree.parent(row).map_or(0, |parent| parent.ix() + 1);
            let open = &mut self.open[department];
            if let Some(before) = before {
                open.remove(&before);
            }
            open.extend(standing);
        }
    }

    /// Queues the jobs beyond the shares of their projects, once capacity is lent. Returns false if
    /// there are none.
    pub fn lend(&mut self, prefilter: &Prefilter<'_, 'w>) -> bool {
        if self.aside.is_empty() && !self.has_skipped {
            return false;
        }
        for (leaf, head) in std::mem::take(&mut self.aside) {
            self.heads[ix(leaf)].push_again(head);
        }
        if self.has_skipped {
            self.add_lines(prefilter);
        }
        self.order(prefilter.cluster.shared());
        true
    }
}
