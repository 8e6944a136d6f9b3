//! Whose turn it is: the projects in their order, and of each its jobs in theirs. First everybody
//! has what he is entitled to; only then is anything lent.

use std::collections::BTreeSet;

use gpool_model::PoolName;
use gpool_world::{Head, Line, ShapeIx, World};

use crate::fairshare::Row;
use crate::order::Heads;
use crate::quota_state::{Projects, Standing};

/// The jobs that were not considered yet.
pub(crate) struct QueueOrder<'w> {
    world: &'w World,
    domain: Option<&'w PoolName>,
    /// By row of the tree of projects; one where nothing is shared between projects.
    heads: Vec<Heads<'w>>,
    /// Heads of lines that were considered.
    seen: BTreeSet<(ShapeIx, bool)>,
    /// By row, of those that have anything below them.
    standings: Vec<Option<Standing>>,
    /// The projects that have, of each department by its row plus one, first those at the top.
    open: Vec<BTreeSet<Standing>>,
    /// What is more than its project is entitled to.
    aside: Vec<(Leaf, Head)>,
    /// Whether anything was passed over that may be looked at when there is nothing else.
    has_passed: bool,
    /// Whether it is the turn of that.
    pub is_lending: bool,
}

/// Whose jobs they are; `None` where nothing is shared between projects.
pub(crate) type Leaf = Option<Row>;

/// Says what is of no use to look at.
pub(crate) trait Glance {
    /// Of all the heads of a line, those that are left.
    fn at_line(&self, leaf: Leaf, line: &Line, is_lending: bool) -> Look;

    /// Of one job.
    fn at(&self, leaf: Leaf, head: &Head, is_lending: bool) -> Look;
}

/// What becomes of a job when its turn would come.
pub(crate) enum Look {
    /// It is looked at.
    Now,
    /// Not before all have what they are entitled to.
    Later,
    /// Nothing can come of it.
    Never,
}

fn ix(leaf: Leaf) -> usize {
    leaf.map_or(0, Row::ix)
}

impl<'w> QueueOrder<'w> {
    /// The first job of every shape of a domain, but those of which a glance says that nothing can
    /// come: of the jobs that name that pool, which has a policy of its own, or of all others.
    /// `projects` are those that have shares.
    pub fn new(
        world: &'w World,
        domain: Option<&'w PoolName>,
        projects: Option<&Projects>,
        glance: &impl Glance,
    ) -> Self {
        let n_rows = projects.map_or(1, |projects| projects.tree.len());
        let mut turns = Self {
            world,
            domain,
            heads: Vec::new(),
            seen: BTreeSet::new(),
            standings: vec![None; n_rows],
            open: vec![BTreeSet::new(); n_rows + 1],
            aside: Vec::new(),
            has_passed: false,
            is_lending: false,
        };
        turns.heads.resize_with(n_rows, Heads::default);
        turns.line_up(projects, glance);
        turns.order(projects);
        turns
    }

    fn line_up(&mut self, projects: Option<&Projects>, glance: &impl Glance) {
        for (key, line) in self.world.lines_of(self.domain) {
            let leaf = projects.map(|projects| projects.leaf_in_line(key));
            match glance.at_line(leaf, line, self.is_lending) {
                Look::Now => self.heads[ix(leaf)].add(line),
                Look::Later => self.has_passed = true,
                Look::Never => {}
            }
        }
    }

    fn order(&mut self, projects: Option<&Projects>) {
        let Some(projects) = projects else { return };
        self.standings.fill(None);
        self.open.iter_mut().for_each(BTreeSet::clear);
        projects.tree.rows().rev().for_each(|row| self.stand(projects, row));
    }

    /// Who goes first of those that are to be looked at.
    pub fn next(
        &mut self,
        projects: Option<&Projects>,
        glance: &impl Glance,
    ) -> Option<(Leaf, Head)> {
        loop {
            let leaf = self.leaf(projects)?;
            let (is_lending, has_passed) = (self.is_lending, &mut self.has_passed);
            self.heads[ix(leaf)].open(|line| {
                let look = glance.at_line(leaf, line, is_lending);
                *has_passed |= matches!(look, Look::Later);
                !matches!(look, Look::Now)
            });
            let mut last = None;
            loop {
                let heads = &mut self.heads[ix(leaf)];
                if let Some((line_ix, line)) = heads.line().filter(|(ix, _)| last != Some(*ix)) {
                    last = Some(line_ix);
                    let look = glance.at_line(leaf, line, self.is_lending);
                    if !matches!(look, Look::Now) {
                        self.has_passed |= matches!(look, Look::Later);
                        heads.pass_line();
                        continue;
                    }
                }
                let Some((head, is_first)) = heads.first() else { break };
                let key = (head.shape_ix, head.is_escalated);
                if !is_first || !self.seen.contains(&key) {
                    match glance.at(leaf, head, self.is_lending) {
                        Look::Now => {
                            let head = *head;
                            heads.advance();
                            self.seen.extend(is_first.then_some(key));
                            return Some((leaf, head));
                        }
                        Look::Later if is_first => self.has_passed = true,
                        Look::Later => self.aside.push((leaf, *head)),
                        Look::Never => {}
                    }
                }
                heads.advance();
            }
            self.leave(projects?, leaf?);
        }
    }

    /// Whose turn it is.
    fn leaf(&self, projects: Option<&Projects>) -> Option<Leaf> {
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

    /// The jobs of a project, to put back what has more to give.
    pub fn heads(&mut self, leaf: Leaf) -> &mut Heads<'w> {
        &mut self.heads[ix(leaf)]
    }

    /// Lets a job wait until nobody is entitled to anything more.
    pub fn set_aside(&mut self, leaf: Leaf, head: Head) {
        self.aside.push((leaf, head));
    }

    /// Puts a project and all above it where they stand now.
    pub fn settle(&mut self, projects: Option<&Projects>, leaf: Leaf) {
        let (Some(projects), Some(leaf)) = (projects, leaf) else { return };
        projects.tree.upwards(leaf).for_each(|row| self.stand(projects, row));
    }

    /// Lets a project go that has nothing left, and the departments of which it was the last.
    fn leave(&mut self, projects: &Projects, leaf: Row) {
        let rows = projects.tree.upwards(leaf);
        for row in rows {
            self.stand(projects, row);
            if self.standings[row.ix()].is_some() {
                break;
            }
        }
    }

    /// Puts a project among its siblings where it stands now.
    fn stand(&mut self, projects: &Projects, row: Row) {
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

    /// Goes on with what is more than anybody is entitled to; false if there is nothing.
    pub fn lend(&mut self, projects: Option<&Projects>, glance: &impl Glance) -> bool {
        if self.is_lending || (self.aside.is_empty() && !self.has_passed) {
            return false;
        }
        self.is_lending = true;
        for (leaf, head) in std::mem::take(&mut self.aside) {
            self.heads[ix(leaf)].push_again(head);
        }
        if self.has_passed {
            self.line_up(projects, glance);
        }
        self.order(projects);
        true
    }
}
