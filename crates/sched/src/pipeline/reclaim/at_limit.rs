//! Taking back at a limit above a project: a department has all that it may have, and of that a
//! sibling has on loan what the project is entitled to. Somebody has to go for that whether or not
//! there is room.

use super::{Evictions, Ground, Lent, Search, lent, pauses_any, stays_in_the_way};
use crate::capacity::{Demand, Placed};
use crate::fairshare::{Denied, Multiplier, Reclaim, Reclaimer, Row, Victim};
use crate::victims::search::{each, first};

impl Evictions {
    /// Whose work goes so that a job of that leaf may start, and where that is then; `None` if
    /// nothing may be taken back that would lift the limit. `free` is where it has room at once.
    pub fn reclaim_at_limit(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        unit: (Row, &[u64]),
        free: Option<&[Placed]>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let (leaf, amounts) = unit;
        let project = ground.projects.project(leaf);
        let preemptible = demand.shape.preemptible;
        let reclaimer = Reclaimer { project, unit: amounts, preemptible };
        self.rules.gate(&ground.projects.ledger, &reclaimer).ok()?;
        if self.is_patient(demand) {
            return None;
        }
        let found = self.reclaim_at_limit_with((ground, demand), (leaf, reclaimer), free, true);
        if found.is_some() || !self.lent.get(&true).is_some_and(pauses_any) {
            return found;
        }
        self.reclaim_at_limit_with((ground, demand), (leaf, reclaimer), free, false)
    }

    fn reclaim_at_limit_with(
        &mut self,
        (ground, demand): (Ground<'_, '_>, &Demand<'_>),
        (leaf, reclaimer): (Row, Reclaimer<'_>),
        free: Option<&[Placed]>,
        may_pause: bool,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let Reclaimer { project, unit, preemptible } = reclaimer;
        let (limited, ..) = ground.projects.bound(leaf, unit, preemptible, &[])?;
        let by_node = self.lent.remove(&may_pause).unwrap_or_else(|| lent(&ground, may_pause));
        let unused = Reclaim::new(Multiplier::ONE);
        let mut rules = std::mem::replace(&mut self.rules, unused);
        let may_have = |gone: &[&Lent]| {
            let given: Vec<(Row, &[u64])> =
                gone.iter().map(|it| (it.leaf, &it.amounts[..])).collect();
            ground.projects.refuses_after(leaf, unit, preemptible, &given).is_none()
        };
        let mut judge = |gone: &[&Lent]| {
            if !may_have(gone) {
                return Err(None);
            }
            let pieces = gone.iter();
            let victims: Vec<Victim<'_>> =
                pieces.map(|it| Victim { project: it.project, piece: &it.amounts }).collect();
            let (tree, ledger) = (&ground.projects.tree, &ground.projects.ledger);
            rules.check(tree, ledger, &reclaimer, &victims).map_err(|denied| match denied {
                Denied::Own { victim } | Denied::TakenBack { victim } => Some(gone[victim].job),
                _ => None,
            })
        };
        let may_go = |it: &Lent| {
            it.project != project && !self.gone.contains(&it.job) && !stays_in_the_way(ground, it)
        };
        let below = |it: &Lent| ground.projects.tree.upwards(it.project).any(|row| row == limited);
        let search = Search { ground, demand, unit, all: &by_node, may_go: &may_go };
        let all = each(&by_node, &|it| may_go(it) && below(it));
        let found = match (may_have(&all), free) {
            (false, _) => None,
            (true, Some(free)) => {
                first(all, &may_have, &mut judge).map(|victims| (free.to_vec(), victims))
            }
            // Where somebody has to go for the room it is best if that is enough.
            (true, None) => self.nodes(search, &[], &mut judge).or_else(|| {
                let victims = first(all, &may_have, &mut judge)?;
                self.nodes(search, &victims, &mut judge)
            }),
        };
        self.lent.insert(may_pause, by_node);
        self.rules = rules;
        found.map(|found| self.go(found))
    }
}
