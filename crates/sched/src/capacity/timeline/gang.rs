//! The earliest time at which a job of several nodes fits: all its nodes have room at once.

use std::collections::BTreeMap;

use gpool_model::Timestamp;

use super::{NodeDepartures, Passed, StartCandidate, StartSearch, Timeline};
use crate::capacity::departures::Departure;
use crate::capacity::holds::Holds;
use crate::capacity::task_spread::{most_times, share_out};

/// The nodes at one time of the search. Counts are units of the demand.
#[derive(Default)]
struct Nodes {
    /// Nodes without holds that have room: it only grows.
    open: BTreeMap<usize, u32>,
    n_open: u32,
    at_first: BTreeMap<usize, u32>,
    /// Nodes with holds, with all departures from each.
    held: BTreeMap<usize, Vec<Departure>>,
}

impl StartSearch<'_, '_> {
    /// The most units that a node may get, whatever is free there.
    pub(super) fn most(&self, node_pos: usize) -> u32 {
        self.capacity.most_on(self.demand.fit(), node_pos).min(self.demand.n_units())
    }

    /// The search for that many units on one node.
    pub(super) fn times(self, times: u32) -> Self {
        Self { demand: self.demand.times(times), ..self }
    }
}

impl<'a> Timeline<'a> {
    /// Returns the earliest start of a job on as many nodes as it needs, on devices of one model of
    /// its request.
    pub(super) fn earliest_gang(
        &mut self,
        search: StartSearch<'a, '_>,
    ) -> Option<Vec<StartCandidate>> {
        let mut best: Option<Vec<StartCandidate>> = None;
        for model in search.demand.models() {
            let before = best.as_ref().map(|places| places[0].at);
            let search = StartSearch { demand: search.demand.of_model(model), ..search };
            best = self.gang_before(search, before).or(best);
        }
        best
    }

    /// The same on one model, if it is earlier than a time.
    fn gang_before(
        &mut self,
        search: StartSearch<'a, '_>,
        before: Option<Timestamp>,
    ) -> Option<Vec<StartCandidate>> {
        let mut nodes = self.nodes_at_first(search);
        let mut passed = Passed::new(self, search.capacity.nodes.len());
        // By time: the number of releases that led to it. Holds recur without end, so a chain of
        // releases is followed twice.
        let mut releases = BTreeMap::<Timestamp, u32>::new();
        nodes.add_releases(search.holds, self.snapshot.now, 0, &mut releases);
        loop {
            let departs_at = passed.next_at(self);
            let at = departs_at.into_iter().chain(releases.keys().next().copied()).min()?;
            if before.is_some_and(|before| at >= before) {
                return None;
            }
            let is_end = departs_at == Some(at);
            let n_before = releases.remove(&at).filter(|_| !is_end).unwrap_or(0);
            nodes.add_releases(search.holds, at, n_before, &mut releases);
            let mut touched = passed.pass(self, search.capacity, at);
            touched.retain(|node_pos| !nodes.held.contains_key(node_pos));
            for node_pos in touched {
                if let Some(ended) = passed.read(self.snapshot.world, search, node_pos) {
                    nodes.open(search, node_pos, at, ended);
                }
            }
            if let Some(places) = self.places_at(search, &nodes, &passed, at) {
                return Some(places);
            }
        }
    }

    fn nodes_at_first(&self, search: StartSearch<'a, '_>) -> Nodes {
        let StartSearch { capacity, holds, demand } = search;
        let mut nodes = Nodes::default();
        let held = search.held_nodes();
        nodes.held = held.map(|node_pos| (node_pos, self.on_node(capacity, node_pos))).collect();
        for node_pos in capacity.with_free(demand.n_free_least()).filter(|ix| !holds.has(*ix)) {
            nodes.open(search, node_pos, self.snapshot.now, &NodeDepartures::default());
        }
        nodes.at_first.clone_from(&nodes.open);
        nodes
    }

    /// The places on as many nodes as are needed, the lowest names first, if they have room.
    fn places_at(
        &self,
        search: StartSearch<'a, '_>,
        nodes: &Nodes,
        passed: &Passed,
        at: Timestamp,
    ) -> Option<Vec<StartCandidate>> {
        let n_units = search.demand.n_units();
        let on_held = |node_pos: usize, times: u32| {
            let departures = nodes.held.get(&node_pos)?;
            self.on_held(search.times(times), node_pos, departures, at)
        };
        let most = nodes.held.keys().map(|ix| search.most(*ix));
        if nodes.n_open.saturating_add(most.fold(0, u32::saturating_add)) < n_units {
            return None;
        }
        let held = nodes
            .held
            .keys()
            .map(|ix| (*ix, most_times(search.most(*ix), |times| on_held(*ix, times).is_some())));
        let held: Vec<(usize, u32)> = held.collect();
        let n_held = held.iter().map(|(_, times)| *times).fold(0, u32::saturating_add);
        if nodes.n_open.saturating_add(n_held) < n_units {
            return None;
        }
        let mut fitting: Vec<(usize, u32)> = nodes.open.iter().map(|(ix, n)| (*ix, *n)).collect();
        fitting.extend(held);
        fitting.sort_unstable();
        let mut chosen = share_out(n_units, &fitting)?;
        chosen.sort_unstable();
        let place = |(node_pos, times)| match nodes.open.contains_key(&node_pos) {
            true => nodes.place(search.times(times), node_pos, at, passed.on_node(node_pos)),
            false => on_held(node_pos, times),
        };
        chosen.into_iter().map(place).collect()
    }
}

impl Nodes {
    /// Adds the times after that one at which a hold ends.
    fn add_releases(
        &self,
        holds: &Holds<'_>,
        after: Timestamp,
        n_before: u32,
        releases: &mut BTreeMap<Timestamp, u32>,
    ) {
        const MOST: u32 = 2;
        if n_before >= MOST {
            return;
        }
        for at in self.held.keys().flat_map(|node_pos| holds.releases(*node_pos, after)) {
            let n = releases.entry(at).or_insert(n_before + 1);
            *n = (*n).min(n_before + 1);
        }
    }

    /// Counts the units that fit on a node without holds once `ended` have left.
    fn open(
        &mut self,
        search: StartSearch<'_, '_>,
        node_pos: usize,
        at: Timestamp,
        ended: &NodeDepartures,
    ) {
        let most = search.most(node_pos);
        let known = self.open.get(&node_pos).copied().unwrap_or(0);
        if known == most {
            return;
        }
        let fits = |times| self.place(search.times(times), node_pos, at, ended).is_some();
        let times = most_times(most, fits);
        if times > 0 {
            self.n_open = self.n_open.saturating_add(times.saturating_sub(known));
            self.open.insert(node_pos, times);
        }
    }

    /// The place on a node without holds once `ended` have left.
    fn place(
        &self,
        search: StartSearch<'_, '_>,
        node_pos: usize,
        at: Timestamp,
        ended: &NodeDepartures,
    ) -> Option<StartCandidate> {
        let is_later = self.at_first.get(&node_pos).is_none_or(|n| *n < search.demand.times);
        search.place(node_pos, at, &Vec::new, &ended.freed, &ended.departures, is_later)
    }
}
