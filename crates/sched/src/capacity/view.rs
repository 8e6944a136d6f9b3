//! The capacity, holds and expected departures of a plan, as searches read them.

use gpool_world::Snapshot;

use super::cluster::Capacity;
use super::demand::Demand;
use super::departures::Departure;
use super::fits::Candidate;
use super::holds::Holds;
use super::timeline::Timeline;

/// The state of the cluster, with the decisions of the plan so far.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, 'b> {
    pub snapshot: Snapshot<'a>,
    pub capacity: &'b Capacity<'a>,
    pub holds: &'b Holds<'a>,
    pub timeline: &'b Timeline<'a>,
}

impl<'a, 'b> View<'a, 'b> {
    /// Returns a node as a candidate for a demand that starts now.
    pub fn candidate(&self, demand: Demand<'b>, node_pos: usize) -> Option<Candidate<'a, 'b>> {
        let departures = || self.departures(node_pos);
        let plan = (self.capacity, self.holds);
        Candidate::new(plan, node_pos, demand, self.snapshot.now, &departures)
    }

    /// Returns the expected departures from a node, the earliest first.
    pub fn departures(&self, node_pos: usize) -> Vec<Departure> {
        self.timeline.on_node(self.capacity, node_pos)
    }
}
