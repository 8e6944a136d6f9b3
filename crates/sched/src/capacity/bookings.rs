//! Capacity that a search gives to moved jobs, beside the bookings of the plan: counters, so that
//! many places can be tried without a copy of the capacity.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{Device, Share};

use super::cluster::Capacity;
use super::demand::n_devices_on_node;
use super::holds::Holds;
use super::host_resources::HostResources;

/// Capacity that a search gives to moved jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bookings {
    /// By position of the node: number of devices, and host resources.
    taken: BTreeMap<usize, (usize, HostResources)>,
    /// Devices with a booked share, by node and position: no device gets two.
    shared: BTreeSet<(usize, usize)>,
}

impl Bookings {
    /// Whether anything is booked on a node.
    pub fn has(&self, node_pos: usize) -> bool {
        self.taken.contains_key(&node_pos)
    }

    /// Books the first place without holds where a job of one node fits, beside the `closed` nodes:
    /// on free devices, else with the devices that other jobs give up on a node, `n_given` by
    /// position. A share goes beside other shares if it can. Returns false if there is no place.
    pub fn book(
        &mut self,
        capacity: &Capacity<'_>,
        holds: &Holds<'_>,
        fit: &Fit,
        closed: &BTreeSet<usize>,
        n_given: &BTreeMap<usize, usize>,
    ) -> bool {
        let is_open = |node_pos: usize| {
            let node = &capacity.nodes[node_pos];
            let (_, host) = self.taken.get(&node_pos).copied().unwrap_or_default();
            !closed.contains(&node_pos)
                && !holds.has(node_pos)
                && node.takes(fit)
                && HostResources::needed(fit).first_short_with(host, node.free).is_none()
        };
        let (node_pos, n_devices) = match fit.gpus.share() {
            None => {
                let n_devices = n_devices_on_node(fit);
                let ranks = capacity.ranks(&fit.gpus);
                let has_devices = |node_pos: usize, n_given: usize| {
                    let n_needed = n_devices + self.n_taken(node_pos);
                    let n_free = |rank| capacity.nodes[node_pos].n_free_of(&ranks, Some(rank));
                    (0..ranks.n_ranks).any(|rank| n_free(rank) + n_given >= n_needed)
                };
                let mut free = capacity.with_free(n_devices);
                let free = free.find(|it| is_open(*it) && has_devices(*it, 0));
                let is_enough =
                    |(it, n): &(&usize, &usize)| is_open(**it) && has_devices(**it, **n);
                let given = || n_given.iter().find(is_enough).map(|(node_pos, _)| *node_pos);
                let place = free.or_else(given);
                let Some(node_pos) = place else { return false };
                (node_pos, n_devices)
            }
            Some(share) => {
                let first = |opens: bool| {
                    let nodes = capacity.with_free(0).filter(|it| is_open(*it));
                    let on = |it| Some((it, self.device_for(capacity, fit, share, it, opens)?));
                    nodes.into_iter().find_map(on)
                };
                let beside = first(false).map(|place| (place, 0));
                let place = beside.or_else(|| Some((first(true)?, 1)));
                let Some((place, n_opened)) = place else { return false };
                self.shared.insert(place);
                (place.0, n_opened)
            }
        };
        let (n_taken, host) = self.taken.entry(node_pos).or_default();
        *n_taken += n_devices;
        *host = host.more(HostResources::needed(fit));
        true
    }

    fn n_taken(&self, node_pos: usize) -> usize {
        self.taken.get(&node_pos).map_or(0, |(n_taken, _)| *n_taken)
    }

    /// The first device of a node with room for a share: a free one, or one with other shares.
    fn device_for(
        &self,
        capacity: &Capacity<'_>,
        fit: &Fit,
        share: Share,
        node_pos: usize,
        opens: bool,
    ) -> Option<usize> {
        let node = &capacity.nodes[node_pos];
        if !node.takes_shares() || (opens && node.n_free <= self.n_taken(node_pos)) {
            return None;
        }
        let has_room = |(ix, device): &(usize, &Device)| {
            node.is_free(*ix) == opens
                && fit.gpus.rank_of(device).is_some()
                && node.device_fits(*ix, Some(share))
                && !self.shared.contains(&(node_pos, *ix))
        };
        node.row.node.devices.iter().enumerate().find(has_room).map(|(ix, _)| ix)
    }
}
