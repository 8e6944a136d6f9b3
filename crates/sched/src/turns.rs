//! Whose turn it is: the projects in their order, and of each its jobs in theirs. First everybody
//! has what he is entitled to; only then is anything lent.

use std::collections::BTreeSet;

use gpool_model::Policy;
use gpool_world::World;

use crate::order::{Head, Heads};
use crate::projects::{Projects, Standing};
use crate::shares::Row;

/// The jobs that were not considered yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    /// By row of the tree of projects; one where nothing is shared between projects.
    heads: Vec<Heads>,
    /// By row, of those that have anything below them.
    standings: Vec<Option<Standing>>,
    /// The projects that have, of each department by its row plus one, first those at the top.
    open: Vec<BTreeSet<Standing>>,
    /// What is more than its project is entitled to.
    aside: Vec<(Leaf, Head)>,
    /// Whether it is the turn of that.
    pub is_lending: bool,
}

/// Whose jobs they are; `None` where nothing is shared between projects.
pub(crate) type Leaf = Option<Row>;

fn ix(leaf: Leaf) -> usize {
    leaf.map_or(0, Row::ix)
}

impl Turns {
    /// Begins anew with the first job of every shape. `projects` are those that have shares.
    pub fn fill(&mut self, world: &World, policy: &Policy, projects: Option<&Projects>) {
        let n_rows = projects.map_or(1, |projects| projects.tree.len());
        self.heads.iter_mut().for_each(Heads::clear);
        self.heads.resize_with(n_rows, Heads::default);
        self.aside.clear();
        self.is_lending = false;
        for (shape_ix, queue) in world.shapes() {
            let row = projects.map(|projects| projects.leaf(queue));
            self.heads[ix(row)].add(world, policy, shape_ix);
        }
        self.order(projects);
    }

    fn order(&mut self, projects: Option<&Projects>) {
        let Some(projects) = projects else { return };
        let tree = &projects.tree;
        self.standings.clear();
        self.standings.resize(tree.len(), None);
        self.open.clear();
        self.open.resize(tree.len() + 1, BTreeSet::new());
        for row in tree.rows().filter(|row| tree.is_leaf(*row)) {
            self.settle(Some(projects), Some(row));
        }
    }

    /// Who goes first.
    pub fn next(&mut self, projects: Option<&Projects>) -> Option<(Leaf, Head)> {
        let Some(projects) = projects else {
            return self.heads[0].pop().map(|head| (None, head));
        };
        let mut department = 0;
        loop {
            let row = self.open[department].first()?.row;
            if projects.tree.is_leaf(row) {
                return self.heads[row.ix()].pop().map(|head| (Some(row), head));
            }
            department = row.ix() + 1;
        }
    }

    /// The jobs of a project, to put back what has more to give.
    pub fn heads(&mut self, leaf: Leaf) -> &mut Heads {
        &mut self.heads[ix(leaf)]
    }

    /// Lets a job wait until nobody is entitled to anything more.
    pub fn set_aside(&mut self, leaf: Leaf, head: Head) {
        self.aside.push((leaf, head));
    }

    /// Puts a project and all above it where they stand now.
    pub fn settle(&mut self, projects: Option<&Projects>, leaf: Leaf) {
        let (Some(projects), Some(leaf)) = (projects, leaf) else { return };
        for row in projects.tree.upwards(leaf) {
            let is_open = match projects.tree.is_leaf(row) {
                true => !self.heads[row.ix()].is_empty(),
                false => !self.open[row.ix() + 1].is_empty(),
            };
            let standing = is_open.then(|| projects.standing(row));
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
    }

    /// Goes on with what is more than anybody is entitled to; false if there is nothing.
    pub fn lend(&mut self, projects: Option<&Projects>) -> bool {
        if self.is_lending || self.aside.is_empty() {
            return false;
        }
        self.is_lending = true;
        for (leaf, head) in std::mem::take(&mut self.aside) {
            self.heads[ix(leaf)].push_again(head);
        }
        self.order(projects);
        true
    }
}
