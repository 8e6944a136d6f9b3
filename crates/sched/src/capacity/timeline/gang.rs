//! The earliest time at which a job of several nodes fits: all its nodes have room at once.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::Timestamp;

use super::{Known, Place, Timeline, place_then};
use crate::capacity::cluster::Capacity;
use crate::capacity::demand::Demand;
use crate::capacity::fits::{Candidate, Freed};
use crate::capacity::holds::{Departure, Holds};
use crate::capacity::task_spread::{most_times, share_out};

/// The nodes at the time that is looked at. Counts are units of the demand.
#[derive(Default)]
struct Nodes {
    back: BTreeMap<usize, Known>,
    /// Nodes without holds that have room: it only grows.
    open: BTreeMap<usize, u32>,
    n_open: u32,
    /// The same at the start.
    at_first: BTreeMap<usize, u32>,
    /// Nodes with holds, with all departures there.
    held: BTreeMap<usize, Vec<Departure>>,
}

/// Capacity and holds, for one demand.
#[derive(Clone, Copy)]
struct Ground<'a, 'b> {
    capacity: &'b Capacity<'a>,
    holds: &'b Holds<'a>,
    demand: Demand<'b>,
}

impl Ground<'_, '_> {
    /// The most units that a node may get, whatever is free there.
    fn most(&self, node_pos: usize) -> u32 {
        let node = &self.capacity.nodes[node_pos].row.node;
        self.demand.fit().most_on(node).min(self.demand.n_units())
    }
}

impl<'a> Timeline<'a> {
    /// Returns the earliest start of a job on as many nodes as it needs, on devices of one model of
    /// its request.
    pub(super) fn earliest_gang(
        &mut self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        demand: Demand<'_>,
    ) -> Option<Vec<Place>> {
        let mut best: Option<Vec<Place>> = None;
        for model in demand.models() {
            let before = best.as_ref().map(|places| places[0].at);
            let ground = Ground { capacity, holds, demand: demand.of_model(model) };
            best = self.gang_before(ground, before).or(best);
        }
        best
    }

    /// The same on one model, if it is earlier than a time.
    fn gang_before(
        &mut self,
        ground: Ground<'a, '_>,
        before: Option<Timestamp>,
    ) -> Option<Vec<Place>> {
        let mut nodes = self.nodes_at_first(ground);
        let mut decided: Vec<Departure> = self.decided.clone();
        decided.sort_by_key(|departure| departure.end);
        let mut decided = decided.into_iter().peekable();
        // By time: the number of releases that led to it. Holds recur without end, so a chain of
        // releases is followed twice.
        let mut releases = BTreeMap::<Timestamp, u32>::new();
        nodes.add_releases(ground.holds, (self.snapshot.now, 0), &mut releases);
        let mut at_seen = 0;
        loop {
            let next_seen = self.seen(at_seen).map(|(end, _)| end.at);
            let next_decided = decided.peek().map(|departure| departure.end.at);
            let next_release = releases.keys().next().copied();
            let at = next_seen.into_iter().chain(next_decided).chain(next_release).min()?;
            if before.is_some_and(|before| at >= before) {
                return None;
            }
            let is_end = next_seen == Some(at) || next_decided == Some(at);
            let n_before = releases.remove(&at).filter(|_| !is_end).unwrap_or(0);
            nodes.add_releases(ground.holds, (at, n_before), &mut releases);
            let mut touched = BTreeSet::new();
            while let Some((end, _)) = self.seen(at_seen).filter(|(end, _)| end.at == at) {
                for departure in self.given_back(ground.capacity, end) {
                    nodes.give_back(departure, &mut touched);
                }
                at_seen += 1;
            }
            while let Some(departure) = decided.next_if(|departure| departure.end.at == at) {
                nodes.give_back(departure, &mut touched);
            }
            for node_pos in touched {
                if !nodes.held.contains_key(&node_pos) {
                    nodes.open(ground, node_pos, at);
                }
            }
            if let Some(places) = self.places_at(ground, &nodes, at) {
                return Some(places);
            }
        }
    }

    fn nodes_at_first(&self, ground: Ground<'a, '_>) -> Nodes {
        let Ground { capacity, holds, demand } = ground;
        let mut nodes = Nodes::default();
        let held = holds.nodes(capacity.nodes.len());
        let held = held.filter(|node_pos| capacity.nodes[*node_pos].takes(demand.fit()));
        nodes.held = held.map(|node_pos| (node_pos, self.on_node(capacity, node_pos))).collect();
        for node_pos in capacity.with_free(demand.n_free_least()).filter(|ix| !holds.has(*ix)) {
            nodes.open(ground, node_pos, self.snapshot.now);
        }
        nodes.at_first.clone_from(&nodes.open);
        nodes
    }

    /// The places on as many nodes as are needed, the lowest names first, if they have room.
    fn places_at(
        &self,
        ground: Ground<'a, '_>,
        nodes: &Nodes,
        at: Timestamp,
    ) -> Option<Vec<Place>> {
        let Ground { capacity, holds, demand } = ground;
        let n_units = demand.n_units();
        let on_held = |node_pos: usize, times: u32| {
            let departures = nodes.held.get(&node_pos)?;
            self.on_held(capacity, holds, node_pos, demand.times(times), departures, at)
        };
        let most = |node_pos: usize| demand.fit().most_on(&capacity.nodes[node_pos].row.node);
        let n_held_most = nodes.held.keys().map(|ix| most(*ix)).fold(0, u32::saturating_add);
        if nodes.n_open.saturating_add(n_held_most) < n_units {
            return None;
        }
        let held = nodes
            .held
            .keys()
            .map(|ix| (*ix, most_times(ground.most(*ix), |times| on_held(*ix, times).is_some())));
        let held: Vec<(usize, u32)> = held.collect();
        let n_held = held.iter().map(|(_, times)| *times).fold(0, u32::saturating_add);
        if nodes.n_open.saturating_add(n_held) < n_units {
            return None;
        }
        let mut rooms: Vec<(usize, u32)> = nodes.open.iter().map(|(ix, n)| (*ix, *n)).collect();
        rooms.extend(held);
        rooms.sort_unstable();
        let mut chosen = share_out(n_units, &rooms)?;
        chosen.sort_unstable();
        let place = |(node_pos, times)| match nodes.open.contains_key(&node_pos) {
            true => nodes.place(ground, node_pos, times, at),
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
        (after, n_before): (Timestamp, u32),
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

    fn give_back(&mut self, departure: Departure, touched: &mut BTreeSet<usize>) {
        touched.insert(departure.node_pos);
        self.back.entry(departure.node_pos).or_default().add(departure);
    }

    /// Counts the units that fit on a node without holds.
    fn open(&mut self, ground: Ground<'_, '_>, node_pos: usize, at: Timestamp) {
        let most = ground.most(node_pos);
        let known = self.open.get(&node_pos).copied().unwrap_or(0);
        if known == most {
            return;
        }
        let times = most_times(most, |times| self.place(ground, node_pos, times, at).is_some());
        if times > 0 {
            self.n_open = self.n_open.saturating_add(times.saturating_sub(known));
            self.open.insert(node_pos, times);
        }
    }

    /// The place on a node without holds.
    fn place(
        &self,
        ground: Ground<'_, '_>,
        node_pos: usize,
        times: u32,
        at: Timestamp,
    ) -> Option<Place> {
        let Ground { capacity, holds, demand } = ground;
        let demand = demand.times(times);
        let nothing = Freed::default();
        let back = self.back.get(&node_pos);
        let (freed, departures) =
            back.map_or((&nothing, &[][..]), |known| (&known.freed, &known.departures));
        if !capacity.nodes[node_pos].may_fit(&demand, freed) {
            return None;
        }
        let candidate = Candidate::new(demand, (node_pos, capacity), at, holds, &Vec::new)?;
        let waits = self.at_first.get(&node_pos).is_none_or(|n| *n < times);
        place_then(capacity, &candidate, (freed, departures.iter()), (at, waits))
    }
}
