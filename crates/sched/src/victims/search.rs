//! The nodes that a job gets, one after the other, and whose work goes for it there.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::JobId;

use crate::capacity::{Placed, most_times, n_missing, put, share_out, times_on};
use crate::pipeline::preempt::least;
use crate::victims::node::VictimNode;
use crate::victims::order::{Cost, cost};

use crate::pipeline::reclaim::{Evictions, Judge, Lent, Search};

impl Evictions {
    /// The nodes that a job gets, and whose work goes for it there beside those who go in any case;
    /// where there are several, all with devices of one model.
    pub(crate) fn nodes(
        &self,
        search: Search<'_, '_, '_>,
        gone: &[Lent],
        judge: &mut Judge<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        if search.all.is_empty() {
            return None;
        }
        let fit = &search.demand.shape.fit;
        search.demand.models().into_iter().find_map(|model| {
            let demand = search.demand.of_model(model);
            let search = Search { demand: &demand, ..search };
            let spread = self.nodes_of(search, gone.to_vec(), judge);
            let needs_nobody = spread.as_ref().is_some_and(|(_, all)| all.len() == gone.len());
            if !fit.gang.anywhere || needs_nobody {
                return spread;
            }
            // Who leaves one node for all tasks may be fewer than those who leave it for each.
            let together = self.on_one(search, gone, judge);
            let price = |(found, victims): &(Vec<Placed>, Vec<Lent>)| {
                let more: Vec<&Lent> = victims.iter().skip(gone.len()).collect();
                cost(search.ground.projects, &more, search.unit, found[0].node_pos)
            };
            together.into_iter().chain(spread).min_by(|one, other| price(one).cmp(&price(other)))
        })
    }

    /// The node on which all tasks find room at the least cost.
    fn on_one(
        &self,
        search: Search<'_, '_, '_>,
        gone: &[Lent],
        judge: &mut Judge<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let times = search.demand.n_units();
        let mut best: Option<(Cost, Placed, Vec<Lent>)> = None;
        for (node_pos, all) in search.all {
            let node = &search.ground.capacity.nodes[*node_pos].row.node;
            if times > search.demand.shape.fit.most_on(node)
                || !self.may_be_enough(search, (*node_pos, times), all)
            {
                continue;
            }
            let site = VictimNode::new(search.ground, *node_pos, search.demand.times(times), self);
            let option = site.and_then(|site| self.option(search, &site, all, gone, judge));
            let options = best.into_iter().chain(option);
            best = options.min_by(|one, other| one.0.cmp(&other.0));
        }
        let (_, found, more) = best?;
        Some((vec![found], gone.iter().cloned().chain(more).collect()))
    }

    /// The same with devices of one model of the request, or of any. Nodes are taken one after the
    /// other, the cheapest first; who goes for one of them may make another one cheaper.
    fn nodes_of(
        &self,
        search: Search<'_, '_, '_>,
        mut victims: Vec<Lent>,
        judge: &mut Judge<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let (demand, fit) = (search.demand, &search.demand.shape.fit);
        let mut found: Vec<Placed> = Vec::new();
        if demand.n_units() > 1 || !victims.is_empty() {
            let all = 0..search.ground.capacity.nodes.len();
            self.without_more(search, &victims, (all, &mut found));
            // It waits for those who leave by themselves.
            if n_missing(&found, fit) == 0 {
                found.sort_by_key(|found| found.node_pos);
                return (!victims.is_empty()).then_some((found, victims));
            }
        }
        // Where somebody may go who is furthest over its share comes first: what it costs elsewhere
        // is known to be more without a look.
        let nodes = search.all.iter().filter_map(|(node_pos, all)| {
            let first = all.iter().find(|it| (search.may_go)(it))?;
            Some((first.order.saturation, *node_pos, &all[..]))
        });
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by_key(|(saturation, node_pos, _)| (*saturation, *node_pos));
        while n_missing(&found, fit) > 0 {
            let mut best: Option<(Cost, Placed, Vec<Lent>)> = None;
            for (saturation, node_pos, all) in &nodes {
                if best.as_ref().is_some_and(|(cost, ..)| cost.is_below(*saturation)) {
                    break;
                }
                let Some(times) = once_more(search, &found, *node_pos) else { continue };
                if self.may_be_enough(search, (*node_pos, times), all) {
                    let site = VictimNode::new(search.ground, *node_pos, demand.times(times), self);
                    let option =
                        site.and_then(|site| self.option(search, &site, all, &victims, judge));
                    let options = best.into_iter().chain(option);
                    best = options.min_by(|one, other| one.0.cmp(&other.0));
                }
            }
            let (_, next, more) = best?;
            put(&mut found, next);
            // Elsewhere there is no more room than there was.
            let left: BTreeSet<usize> =
                more.iter().flat_map(|it| it.held.keys().copied()).collect();
            victims.extend(more);
            self.without_more(search, &victims, (left.into_iter(), &mut found));
        }
        found.sort_by_key(|found| found.node_pos);
        Some((found, victims))
    }

    /// Whether a node may have as many devices as are asked for, with those of all who are looked
    /// at: told without a look at who else has them.
    fn may_be_enough(
        &self,
        search: Search<'_, '_, '_>,
        (node_pos, times): (usize, u32),
        all: &[Lent],
    ) -> bool {
        let fit = &search.demand.shape.fit;
        let here = all.iter().filter_map(|it| it.held.get(&node_pos));
        let n_held: usize = here.map(|it| it.devices.len()).sum();
        let leaves = self.left.as_ref().is_none_or(|left| left.contains(&node_pos))
            || self.freed.contains_key(&node_pos);
        let n_free = search.ground.capacity.nodes[node_pos].n_free;
        leaves
            || fit.gpus.share().is_some()
            || n_free + n_held >= search.demand.times(times).n_devices()
    }

    /// Adds what some nodes have room for where nobody has to go but those who go already, or leave
    /// by themselves; no more than is missing, on the lowest names.
    fn without_more(
        &self,
        search: Search<'_, '_, '_>,
        victims: &[Lent],
        (nodes, found): (impl Iterator<Item = usize>, &mut Vec<Placed>),
    ) {
        let Search { ground, demand, .. } = search;
        let fit = &demand.shape.fit;
        let gone: Vec<&Lent> = victims.iter().collect();
        let site = |node_pos: usize, times: u32| {
            VictimNode::new(ground, node_pos, demand.times(times), self)
        };
        let missing = n_missing(found, fit);
        let room = |node_pos: usize| {
            let has = times_on(found, node_pos);
            let most = fit.most_on(&ground.capacity.nodes[node_pos].row.node).saturating_sub(has);
            let more = most_times(most.min(missing), |more| {
                site(node_pos, has + more).is_some_and(|site| site.has_room(&gone))
            });
            (more > 0).then_some((node_pos, more))
        };
        let rooms = nodes.filter_map(room);
        let rooms: Vec<(usize, u32)> = match fit.gang.anywhere {
            true => rooms.collect(),
            false => rooms.take(usize::try_from(missing).unwrap_or(usize::MAX)).collect(),
        };
        for (node_pos, more) in share_out(missing, &rooms).unwrap_or(rooms) {
            let times = times_on(found, node_pos) + more;
            let more = site(node_pos, times).and_then(|site| site.found(&gone));
            more.into_iter().for_each(|more| put(found, more));
        }
    }

    /// Who else goes so that a job finds room on one node, beside those who go already.
    fn option(
        &self,
        search: Search<'_, '_, '_>,
        site: &VictimNode<'_, '_>,
        all: &[Lent],
        victims: &[Lent],
        judge: &mut Judge<'_>,
    ) -> Option<(Cost, Placed, Vec<Lent>)> {
        let goes = |it: &Lent| victims.iter().any(|victim| victim.job == it.job);
        let may_go = |it: &&Lent| (search.may_go)(it) && !self.gone.contains(&it.job) && !goes(it);
        let mut all: Vec<&Lent> = all.iter().filter(may_go).collect();
        // What may not go after all is left out, and the rest tried again.
        while let Some(more) = site.least(victims, &all) {
            let gone: Vec<&Lent> = victims.iter().chain(more.iter().copied()).collect();
            match judge(&gone) {
                Ok(()) => {
                    let found = site.found(&gone)?;
                    let cost = cost(search.ground.projects, &more, search.unit, found.node_pos);
                    return Some((cost, found, more.into_iter().cloned().collect()));
                }
                Err(Some(job)) if more.iter().any(|it| it.job == job) => {
                    all.retain(|it| it.job != job);
                }
                Err(_) => return None,
            }
        }
        None
    }
}

/// How many times a node would get what a node gets if it got that once more; `None` if that is
/// more than it may have.
pub(crate) fn once_more(
    search: Search<'_, '_, '_>,
    found: &[Placed],
    node_pos: usize,
) -> Option<u32> {
    let times = times_on(found, node_pos) + 1;
    let most = search.demand.shape.fit.most_on(&search.ground.capacity.nodes[node_pos].row.node);
    (times <= most).then_some(times)
}

/// Those of all nodes of whom that is true, who goes first first.
pub(crate) fn each<'l>(
    by_node: &'l BTreeMap<usize, Vec<Lent>>,
    test: &dyn Fn(&Lent) -> bool,
) -> Vec<&'l Lent> {
    let mut known = BTreeSet::<JobId>::new();
    // Who holds something of several nodes is there for each.
    let all = by_node.values().flatten().filter(|it| test(it) && known.insert(it.job));
    let mut all: Vec<&Lent> = all.collect();
    all.sort_unstable_by_key(|it| it.order);
    all
}

/// Those who go first, and no more of them than it takes.
pub(crate) fn first(
    mut all: Vec<&Lent>,
    may_have: &dyn Fn(&[&Lent]) -> bool,
    judge: &mut Judge<'_>,
) -> Option<Vec<Lent>> {
    while let Some((victims, ())) = least(&all, &|gone| may_have(gone).then_some(())) {
        match judge(&victims) {
            Ok(()) => return Some(victims.into_iter().cloned().collect()),
            Err(Some(job)) => all.retain(|it| it.job != job),
            Err(None) => return None,
        }
    }
    None
}
