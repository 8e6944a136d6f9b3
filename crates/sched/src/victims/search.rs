//! The search for the nodes of a job, one after the other, and the jobs that leave for it there.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::JobId;

use super::cost::{Cost, cost};
use super::evictable::{ByNode, Evictable, Test};
use super::evictions::{EvictionProblem, Evictions, Solution};
use super::node::VictimNode;
use crate::capacity::{
    Drawbacks, Placed, most_times, n_missing, replace_on_node, share_out, times_on,
};

/// Whether these jobs may leave together. An error names one that may not, if the others may.
pub(crate) type Judge<'j> = dyn FnMut(&[&Evictable]) -> Result<(), Option<JobId>> + 'j;

/// A demand, and the jobs that may leave for it.
#[derive(Clone, Copy)]
pub(crate) struct VictimSearch<'s, 'a, 'b> {
    pub input: EvictionProblem<'a, 'b>,
    pub evictions: &'s Evictions,
    pub all: &'s ByNode,
    pub may_go: &'s dyn Fn(&Evictable) -> bool,
    /// Whether the victims of one node are enough, apart from the room that they make.
    pub is_enough: &'s Test<'s>,
}

/// The place of the demand on one node, and the jobs that leave for it there.
struct Choice {
    cost: Cost,
    placed: Placed,
    victims: Vec<Evictable>,
}

impl VictimSearch<'_, '_, '_> {
    /// Returns the nodes of a job, and the jobs that leave for it there, `gone` first, which leave
    /// in any case. A job of several nodes gets devices of one model.
    pub fn solve(&self, gone: &[Evictable], judge: &mut Judge<'_>) -> Option<Solution> {
        if self.all.is_empty() {
            return None;
        }
        let anywhere = self.input.demand.fit().gang.anywhere;
        self.input.demand.models().into_iter().find_map(|model| {
            let search = Self { input: self.input.of_model(model), ..*self };
            let spread = search.on_several(gone.to_vec(), judge);
            let needs_none = spread.as_ref().is_some_and(|it| it.victims.len() == gone.len());
            if !anywhere || needs_none {
                return spread;
            }
            // All tasks on one node may need fewer victims than each on its own.
            let together = search.on_one(gone, judge);
            let price = |it: &Solution| {
                let more: Vec<&Evictable> = it.victims.iter().skip(gone.len()).collect();
                search.cost(&more, &it.placed)
            };
            together.into_iter().chain(spread).min_by(|one, other| price(one).cmp(&price(other)))
        })
    }

    /// The node on which all tasks fit at the least cost.
    pub fn on_one(&self, gone: &[Evictable], judge: &mut Judge<'_>) -> Option<Solution> {
        let times = self.input.demand.n_units();
        let nodes = self.all.iter();
        let choices = nodes.filter_map(|(ix, all)| self.choice(*ix, times, all, gone, judge));
        let best = choices.min_by(|one, other| one.cost.cmp(&other.cost));
        let Choice { placed, victims: more, .. } = best?;
        let victims = gone.iter().cloned().chain(more).collect();
        Some(Solution { placed: vec![placed], victims })
    }

    /// The nodes for all tasks, one after the other, the cheapest first: the victims of one node
    /// may make another one cheaper.
    fn on_several(&self, mut victims: Vec<Evictable>, judge: &mut Judge<'_>) -> Option<Solution> {
        let (demand, fit) = (self.input.demand, self.input.demand.fit());
        let mut placed: Vec<Placed> = Vec::new();
        if demand.n_units() > 1 || !victims.is_empty() {
            let all = 0..self.input.view.capacity.nodes.len();
            self.input.place_without_more(self.evictions, &victims, all, &mut placed);
            if n_missing(&placed, fit) == 0 {
                placed.sort_by_key(|it| it.node_pos);
                // Without victims the job waits for jobs that are leaving already.
                return (!victims.is_empty()).then_some(Solution { placed, victims });
            }
        }
        // Nodes with victims of the projects furthest over their shares come first: the cost of
        // other nodes is higher without a search.
        let nodes = self.all.iter().filter_map(|(node_pos, all)| {
            let first = all.iter().find(|it| (self.may_go)(it))?;
            Some((first.order.saturation, *node_pos, &all[..]))
        });
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by_key(|(saturation, node_pos, _)| (*saturation, *node_pos));
        while n_missing(&placed, fit) > 0 {
            let mut best: Option<Choice> = None;
            for (saturation, node_pos, all) in &nodes {
                if best.as_ref().is_some_and(|best| best.cost.is_below(*saturation)) {
                    break;
                }
                let times = times_on(&placed, *node_pos) + 1;
                let choice = self.choice(*node_pos, times, all, &victims, judge);
                let is_better = |it: &Choice| best.as_ref().is_none_or(|best| it.cost < best.cost);
                best = choice.filter(is_better).or(best);
            }
            let best = best?;
            replace_on_node(&mut placed, best.placed);
            // Only the nodes of these victims have more room than before.
            let left = best.victims.iter().flat_map(|it| it.held.keys().copied());
            let left: BTreeSet<usize> = left.collect();
            victims.extend(best.victims);
            let left = left.into_iter();
            self.input.place_without_more(self.evictions, &victims, left, &mut placed);
        }
        placed.sort_by_key(|it| it.node_pos);
        Some(Solution { placed, victims })
    }

    fn cost(&self, victims: &[&Evictable], placed: &[Placed]) -> Cost {
        let nodes = &self.input.view.capacity.nodes;
        let drawbacks = placed.iter().map(|it| Drawbacks::of(&nodes[it.node_pos], it));
        cost(victims, self.input.charge, drawbacks.sum(), placed[0].node_pos)
    }

    /// Whether a node may have enough devices with those of all these jobs: computed from counters.
    fn may_be_enough(&self, node_pos: usize, times: u32, all: &[Evictable]) -> bool {
        let n_held: usize = all.iter().map(|it| it.n_devices_on(node_pos)).sum();
        let n_free = self.input.view.capacity.nodes[node_pos].n_free;
        self.evictions.was_vacating(node_pos)
            || self.evictions.freed.contains_key(&node_pos)
            || self.input.demand.share().is_some()
            || n_free + n_held >= self.input.demand.times(times).n_devices()
    }

    /// The cheapest jobs that leave one node beside the present victims, so that the demand fits.
    fn choice(
        &self,
        node_pos: usize,
        times: u32,
        all: &[Evictable],
        victims: &[Evictable],
        judge: &mut Judge<'_>,
    ) -> Option<Choice> {
        if times > self.input.most_on(node_pos) || !self.may_be_enough(node_pos, times, all) {
            return None;
        }
        let demand = self.input.demand.times(times);
        let node = VictimNode::new(self.input.view, demand, node_pos, self.evictions)?;
        let goes = |it: &Evictable| victims.iter().any(|victim| victim.job == it.job);
        let may_go =
            |it: &&Evictable| (self.may_go)(it) && !self.evictions.has(it.job) && !goes(it);
        let all = all.iter().filter(may_go).collect();
        let (victims, placed) = node.fewest(victims, all, self.is_enough, judge)?;
        let cost = self.cost(&victims.iter().collect::<Vec<_>>(), std::slice::from_ref(&placed));
        Some(Choice { cost, placed, victims })
    }
}

impl EvictionProblem<'_, '_> {
    /// The most units of the demand that a node may get, whatever is free there.
    pub fn most_on(&self, node_pos: usize) -> u32 {
        self.view.capacity.most_on(self.demand.fit(), node_pos)
    }

    /// Adds places on some nodes that need no more victims than these, on the first of them; no
    /// more than are missing.
    pub fn place_without_more(
        &self,
        evictions: &Evictions,
        victims: &[Evictable],
        nodes: impl Iterator<Item = usize>,
        placed: &mut Vec<Placed>,
    ) {
        let fit = self.demand.fit();
        let gone: Vec<&Evictable> = victims.iter().collect();
        let missing = n_missing(placed, fit);
        let node = |ix, times| VictimNode::new(self.view, self.demand.times(times), ix, evictions);
        let units_on = |node_pos: usize| {
            let has = times_on(placed, node_pos);
            let most = self.most_on(node_pos).saturating_sub(has);
            let more = most_times(most.min(missing), |more| {
                node(node_pos, has + more).is_some_and(|node| node.fits(&gone))
            });
            (more > 0).then_some((node_pos, more))
        };
        let fitting = nodes.filter_map(units_on);
        let fitting: Vec<(usize, u32)> = match fit.gang.anywhere {
            true => fitting.collect(),
            false => fitting.take(usize::try_from(missing).unwrap_or(usize::MAX)).collect(),
        };
        for (node_pos, more) in share_out(missing, &fitting).unwrap_or(fitting) {
            let times = times_on(placed, node_pos) + more;
            let more = node(node_pos, times).and_then(|node| node.place(&gone));
            more.into_iter().for_each(|more| replace_on_node(placed, more));
        }
    }
}

impl VictimNode<'_, '_> {
    /// Returns the fewest of `all` that have to leave beside `victims`, and the place of the demand
    /// then; `None` if all of them are not enough, or none has to.
    pub fn fewest(
        &self,
        victims: &[Evictable],
        all: Vec<&Evictable>,
        is_enough: &Test<'_>,
        judge: &mut Judge<'_>,
    ) -> Option<(Vec<Evictable>, Placed)> {
        let fits = |more: &[&Evictable]| {
            let gone = together(victims, more);
            self.fits(&gone) && is_enough(&gone)
        };
        if fits(&[]) {
            return None;
        }
        let more = fewest_that(all, &fits, &mut |more| judge(&together(victims, more)))?;
        let gone: Vec<&Evictable> = victims.iter().chain(&more).collect();
        let placed = self.place(&gone)?;
        Some((more, placed))
    }
}

fn together<'l>(victims: &'l [Evictable], more: &[&'l Evictable]) -> Vec<&'l Evictable> {
    victims.iter().chain(more.iter().copied()).collect()
}

/// Returns all evictable jobs that pass a test, in eviction order.
pub(crate) fn in_order<'l>(
    by_node: &'l BTreeMap<usize, Vec<Evictable>>,
    test: &dyn Fn(&Evictable) -> bool,
) -> Vec<&'l Evictable> {
    let mut known = BTreeSet::<JobId>::new();
    // A job of several nodes is there for each.
    let all = by_node.values().flatten().filter(|it| test(it) && known.insert(it.job));
    let mut all: Vec<&Evictable> = all.collect();
    all.sort_unstable_by_key(|it| it.order);
    all
}

/// Returns the fewest jobs, in the order of `all`, that pass a test and may leave.
pub(crate) fn fewest_that(
    mut all: Vec<&Evictable>,
    test: &Test<'_>,
    judge: &mut Judge<'_>,
) -> Option<Vec<Evictable>> {
    // A job that may not leave after all is left out, and the others are tried again.
    while let Some(victims) = fewest(&all, test) {
        match judge(&victims) {
            Ok(()) => return Some(victims.into_iter().cloned().collect()),
            Err(Some(job)) if victims.iter().any(|it| it.job == job) => {
                all.retain(|it| it.job != job);
            }
            Err(_) => return None,
        }
    }
    None
}

/// The fewest jobs, in the order of `all`, that pass a test; `None` if all of them do not.
fn fewest<'l>(all: &[&'l Evictable], test: &Test<'_>) -> Option<Vec<&'l Evictable>> {
    let n_first = (1..=all.len()).find(|n| test(&all[..*n]))?;
    let mut chosen = all[..n_first].to_vec();
    // The last one is needed. Of the others, a job later in the order stays if it can.
    for at in (0..chosen.len() - 1).rev() {
        let stays = chosen.remove(at);
        if !test(&chosen) {
            chosen.insert(at, stays);
        }
    }
    Some(chosen)
}
