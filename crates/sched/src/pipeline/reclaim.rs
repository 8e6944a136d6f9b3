//! Stage reclaim: jobs over quota leave for a job that its project is entitled to (scheduling.md
//! A10 as A′2 has it). Evicts the fewest over-quota jobs that free enough devices on the nodes of
//! the job, from the projects furthest over their shares. The freed devices are claimed at once.
//!
//! A job may also be within its project's share while a limit above the project keeps it waiting:
//! a department has reached its limit, and a sibling project has borrowed what the job is entitled
//! to. Then jobs below that limit leave, whether the job has room or not.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::Amount;
use gpool_world::{JobRow, ProjectIx};

use crate::capacity::Placed;
use crate::fairshare::{Denied, Reclaimer, TreeIx, Victim, check, gate, mark_loans};
use crate::quota_state::Amounts;
use crate::victims::{
    ByNode, Evictable, EvictionProblem, Evictions, RoomAnswer, Solution, VictimSearch,
    add_on_nodes, fewest_that, in_order, leaving, pauses_any,
};

/// The jobs that may be reclaimed in a cycle, computed when a job first asks for them.
#[derive(Default)]
pub(crate) struct Reclaiming {
    /// Jobs over quota, if jobs may be paused and if not.
    borrowing: BTreeMap<bool, ByNode>,
}

/// The project above that has reached its limit, and the place of the job if it has room now.
type Limited<'f> = (TreeIx, Option<&'f Solution>);

impl Reclaiming {
    /// Searches jobs to reclaim, so that a job fits.
    pub fn reclaim(
        &mut self,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
    ) -> RoomAnswer {
        if !may_reclaim(&input, evictions) {
            return RoomAnswer::Nothing;
        }
        if let Some(placed) = evictions.place_on_leaving(&input) {
            if is_evicted(&input, &placed) {
                let solution = Solution { placed: vec![placed], victims: Vec::new() };
                return RoomAnswer::Start(evictions.commit(solution));
            }
            evictions.wait_for(&input.demand, &placed);
            return RoomAnswer::Leaving;
        }
        self.solve(input, evictions, None).into()
    }

    /// Searches jobs to reclaim, so that a limit above the project no longer keeps a job waiting.
    /// `free` is its place if it has room now.
    pub fn reclaim_at_limit(
        &mut self,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
        free: Option<&Solution>,
    ) -> RoomAnswer {
        if !may_reclaim(&input, evictions) {
            return RoomAnswer::Nothing;
        }
        let preemptible = input.demand.shape.preemptible;
        match input.projects.bound(input.leaf, input.charge, preemptible, &[]) {
            Some((by, ..)) => self.solve(input, evictions, Some((by, free))).into(),
            None => RoomAnswer::Nothing,
        }
    }

    /// A paused job keeps its host memory. If that is short, the search is repeated without pauses.
    fn solve(
        &mut self,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
        limited: Option<Limited<'_>>,
    ) -> Option<Solution> {
        let found = self.solve_with(input, evictions, limited, true);
        if found.is_some() || !self.borrowing.get(&true).is_some_and(pauses_any) {
            return found;
        }
        self.solve_with(input, evictions, limited, false)
    }

    fn solve_with(
        &mut self,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
        limited: Option<Limited<'_>>,
        may_pause: bool,
    ) -> Option<Solution> {
        let of = || borrowing_jobs(&input, may_pause);
        let all = &*self.borrowing.entry(may_pause).or_insert_with(of);
        let (projects, reclaimer) = (input.projects, reclaimer(&input));
        let may_have = |gone: &[&Evictable]| input.has_quota_after(gone, true);
        let mut judge = |gone: &[&Evictable]| {
            if limited.is_some() && !may_have(gone) {
                return Err(None);
            }
            let victims = gone.iter().map(|it| Victim { project: it.project, piece: &it.amounts });
            let victims: Vec<Victim<'_>> = victims.collect();
            let checked = check(&projects.tree, &projects.ledger, &reclaimer, &victims);
            checked.map_err(|denied| match denied {
                Denied::Own { victim } | Denied::TakenBack { victim } => Some(gone[victim].job),
                _ => None,
            })
        };
        let may_go = |it: &Evictable| {
            it.project != reclaimer.project
                && !evictions.has(it.job)
                && !it.delays_planned_start(&input.view)
        };
        let search = VictimSearch { input, evictions, all, may_go: &may_go, is_enough: &|_| true };
        let found = match limited {
            None => search.solve(&[], &mut judge),
            Some((by, free)) => {
                let is_below =
                    |it: &Evictable| projects.tree.upwards(it.project).any(|it| it == by);
                let below = in_order(all, &|it| may_go(it) && is_below(it));
                match (may_have(&below), free) {
                    (false, _) => None,
                    (true, Some(free)) => {
                        let victims = fewest_that(below, &may_have, &mut judge);
                        victims.map(|victims| Solution { placed: free.placed.clone(), victims })
                    }
                    // Victims that make room may be enough for the limit too.
                    (true, None) => search.solve(&[], &mut judge).or_else(|| {
                        let victims = fewest_that(below, &may_have, &mut judge)?;
                        let found = search.solve(&victims, &mut judge)?;
                        Some(found.without_needless(&may_have))
                    }),
                }
            }
        };
        found.map(|found| evictions.commit(found))
    }
}

fn may_reclaim(input: &EvictionProblem<'_, '_>, evictions: &Evictions) -> bool {
    gate(&input.projects.ledger, &reclaimer(input)).is_ok()
        && !evictions.backoff.applies_to(input.demand.shape)
}

/// The project that reclaims: users of one project do not reclaim from each other.
fn reclaimer<'b>(input: &EvictionProblem<'_, 'b>) -> Reclaimer<'b> {
    let project = input.projects.project(input.leaf);
    Reclaimer { project, unit: input.charge, preemptible: input.demand.shape.preemptible }
}

/// Whether all jobs on the devices of a place leave because of this plan.
fn is_evicted(input: &EvictionProblem<'_, '_>, placed: &Placed) -> bool {
    let leaving = leaving(&input.view.snapshot, &input.view.capacity.nodes[placed.node_pos]);
    !placed.devices.is_empty() && placed.devices.iter().all(|ix| leaving.of(*ix).0 == 0)
}

/// All jobs over quota that may end.
fn borrowing_jobs(input: &EvictionProblem<'_, '_>, may_pause: bool) -> ByNode {
    let EvictionProblem { view, projects, .. } = input;
    let (world, now) = (view.snapshot.world, view.snapshot.now);
    let mut by_node = ByNode::new();
    for (ix, (project, of)) in world.project_rows().iter().zip(&projects.rows).enumerate() {
        let over = projects.over_own(*of);
        let (Some(saturation), false) = (over, project.evictable.is_empty()) else { continue };
        let mut rows: Vec<&JobRow> =
            project.evictable.iter().filter_map(|id| world.job(*id)).collect();
        // Jobs keep their place in this order: higher priorities, then older jobs. Jobs that can't
        // be evicted are counted before.
        rows.sort_by_key(|row| (Reverse(row.job.priority), row.spec.submitted_at, row.job.id));
        let amounts: Vec<Amounts> =
            rows.iter().map(|row| projects.amounts_of(world, row)).collect();
        let kept = projects.amounts(&project.sum.for_good);
        let pieces = amounts.iter().map(|it| &it[..]);
        let guaranteed: Vec<Amount> =
            projects.ledger.accounts(*of).iter().map(|account| account.guaranteed).collect();
        let marks = mark_loans(&guaranteed, pieces, kept);
        let mut above = world.upwards(&project.name);
        let safe_for = above.find_map(|it| it.min_runtime.reclaim).unwrap_or_default();
        let borrowed = rows.into_iter().zip(&amounts).zip(&marks).filter(|(_, mark)| **mark);
        for ((row, amounts), _) in borrowed {
            let job = Evictable::of(view, projects, (row, ProjectIx(ix)), amounts, may_pause);
            if let Some(mut job) = job.filter(|it| it.has_run(safe_for, now)) {
                job.order.saturation = Reverse(saturation);
                add_on_nodes(&mut by_node, job);
            }
        }
    }
    by_node.values_mut().for_each(|all| all.sort_unstable_by_key(|it| it.order));
    by_node
}
