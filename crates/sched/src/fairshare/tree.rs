//! The tree of projects, laid out in rows: parents before children, siblings side by side in the
//! order of the division. Quotas, shares and usage are stored elsewhere, by row. Rows never leave
//! memory; they mean nothing in another process.

use std::cmp::Reverse;
use std::ops::Range;

/// The position of a project in one [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeIx(u32);

impl TreeIx {
    /// Returns the position as an index.
    #[must_use]
    pub const fn ix(self) -> usize {
        self.0 as usize
    }

    fn at(ix: usize) -> Self {
        Self(u32::try_from(ix).expect("there are fewer than 2^32 projects"))
    }
}

/// One project, as input of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<K> {
    /// The index of its parent in the same list; `None` for a top project.
    pub parent: Option<usize>,
    /// Higher priorities come first in the division of the rest.
    pub priority: i32,
    /// Its creation time, in any unit: older projects come first among equals.
    pub created: u64,
    /// Settles every tie. No two siblings have the same.
    pub id: K,
}

#[derive(Debug, Clone, Copy)]
struct TreeNode {
    parent: Option<TreeIx>,
    first: u32,
    end: u32,
    priority: i32,
}

#[derive(Debug, Clone, Default)]
pub struct Tree {
    // Invariant: parents before children; the children of one are side by side, sorted by priority
    // from high to low, then age, then id.
    places: Vec<TreeNode>,
    row_of: Vec<TreeIx>,
    // Projects with children, in the order of rows.
    departments: Vec<TreeIx>,
    n_tops: usize,
}

impl Tree {
    /// Lays out the members, which may come in any order. `None` if they are no tree: a parent is
    /// missing, or a member is below itself.
    #[must_use]
    pub fn new<K: Ord>(members: &[Member<K>]) -> Option<Self> {
        if members.iter().any(|it| it.parent.is_some_and(|parent| parent >= members.len())) {
            return None;
        }
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&ix| {
            let it = &members[ix];
            (it.parent, Reverse(it.priority), it.created, &it.id)
        });
        let children = |parent: Option<usize>| {
            let first = order.partition_point(|&ix| members[ix].parent < parent);
            let end = order.partition_point(|&ix| members[ix].parent <= parent);
            &order[first..end]
        };
        let mut tree = Self { n_tops: children(None).len(), ..Self::default() };
        let mut laid = Vec::with_capacity(members.len());
        let place = |tree: &mut Self, laid: &mut Vec<usize>, ixs: &[usize], parent| {
            for &ix in ixs {
                laid.push(ix);
                let priority = members[ix].priority;
                tree.places.push(TreeNode { parent, first: 0, end: 0, priority });
            }
        };
        place(&mut tree, &mut laid, children(None), None);
        let mut next = 0;
        while next < laid.len() {
            let below = children(Some(laid[next]));
            let first = laid.len();
            if !below.is_empty() {
                place(&mut tree, &mut laid, below, Some(TreeIx::at(next)));
                tree.departments.push(TreeIx::at(next));
                tree.places[next].first = TreeIx::at(first).0;
                tree.places[next].end = TreeIx::at(laid.len()).0;
            }
            next += 1;
        }
        tree.row_of = vec![TreeIx(0); members.len()];
        for (row, &ix) in laid.iter().enumerate() {
            tree.row_of[ix] = TreeIx::at(row);
        }
        // A member of a cycle, or below one, can't be reached from the top.
        (laid.len() == members.len()).then_some(tree)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there is no project.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Every row, parents before children.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = TreeIx> + use<> {
        (0..self.len()).map(TreeIx::at)
    }

    /// Returns the row of a member by its index in the input.
    #[must_use]
    pub fn row(&self, member: usize) -> TreeIx {
        self.row_of[member]
    }

    #[must_use]
    pub fn parent(&self, row: TreeIx) -> Option<TreeIx> {
        self.places[row.ix()].parent
    }

    /// The rows below a department, or of the top projects.
    #[must_use]
    pub fn children(&self, parent: Option<TreeIx>) -> Range<usize> {
        match parent {
            Some(row) => {
                let place = self.places[row.ix()];
                place.first as usize..place.end as usize
            }
            None => 0..self.n_tops,
        }
    }

    /// Whether a project has no children.
    #[must_use]
    pub fn is_leaf(&self, row: TreeIx) -> bool {
        self.children(Some(row)).is_empty()
    }

    /// Its priority among its siblings.
    #[must_use]
    pub fn priority(&self, row: TreeIx) -> i32 {
        self.places[row.ix()].priority
    }

    /// Projects with children, parents before children.
    #[must_use]
    pub fn departments(&self) -> &[TreeIx] {
        &self.departments
    }

    /// A project and all projects above it, from it upwards.
    pub fn upwards(&self, row: TreeIx) -> impl Iterator<Item = TreeIx> + '_ {
        std::iter::successors(Some(row), |row| self.parent(*row))
    }

    /// Returns the siblings at which the paths of two projects to the top part; `None` if one is
    /// above the other, or they are the same.
    #[must_use]
    pub fn parting(&self, one: TreeIx, two: TreeIx) -> Option<(TreeIx, TreeIx)> {
        let path = |row: TreeIx| {
            let mut path: Vec<TreeIx> = self.upwards(row).collect();
            path.reverse();
            path
        };
        path(one).into_iter().zip(path(two)).find(|(one, two)| one != two)
    }
}
