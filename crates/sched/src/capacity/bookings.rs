//! Capacity that a search gives to moved jobs, beside the bookings of the plan. Only the nodes with
//! such jobs are copied, so that many places can be tried.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::JobId;

use super::demand::Demand;
use super::departures::Freed;
use super::fits::{Candidate, Departures};
use super::node::NodeCapacity;
use super::view::View;

/// The nodes with capacity that a search gives to moved jobs, by position.
#[derive(Clone, Default)]
pub(crate) struct Bookings<'a> {
    nodes: BTreeMap<usize, NodeCapacity<'a>>,
}

impl<'a> Bookings<'a> {
    /// Whether anything is booked on a node.
    pub fn has(&self, node_pos: usize) -> bool {
        self.nodes.contains_key(&node_pos)
    }

    /// Books the first place without holds where a job of one node fits, beside the `closed` nodes:
    /// on free devices, else with the devices that other jobs give up, by node. A share goes beside
    /// other shares if it can. Returns false if there is no place.
    pub fn book(
        &mut self,
        view: &View<'a, '_>,
        job: JobId,
        demand: Demand<'_>,
        closed: &BTreeSet<usize>,
        freeable: &BTreeMap<usize, Freed>,
    ) -> bool {
        let View { capacity, holds, .. } = view;
        let ranks = capacity.ranks(&demand.fit().gpus);
        let none = Freed::default();
        let place = |node_pos: usize, freed: &Freed, opens: Option<bool>| {
            let node = self.nodes.get(&node_pos).unwrap_or(&capacity.nodes[node_pos]);
            let is_open = !closed.contains(&node_pos)
                && !holds.has(node_pos)
                && (freed.n_uses() > 0 || node.may_fit_now(&demand, &ranks));
            if !is_open {
                return None;
            }
            let candidate = Candidate::without_holds(node, node_pos, demand)?;
            let may_have = |ix| opens.is_none_or(|opens| node.is_free(ix) == opens);
            candidate.place_where(Departures::Leaving(freed), &may_have)
        };
        let on_free = |opens| {
            let mut nodes = capacity.with_free(demand.n_free_least());
            nodes.find_map(|node_pos| place(node_pos, &none, opens))
        };
        let found = match demand.share() {
            Some(_) => on_free(Some(false)).or_else(|| on_free(Some(true))),
            None => on_free(None)
                .or_else(|| freeable.iter().find_map(|(ix, freed)| place(*ix, freed, None))),
        };
        let Some(placed) = found else { return false };
        let copy = || capacity.nodes[placed.node_pos].clone();
        self.nodes.entry(placed.node_pos).or_insert_with(copy).book(job, &placed, demand.fit());
        true
    }
}
