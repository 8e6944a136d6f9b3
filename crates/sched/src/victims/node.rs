//! A node on which victims make room for a demand: whether it fits there once they have left, and
//! on which devices.

use gpool_model::Exit;
use gpool_world::{JobRow, Snapshot};

use super::evictable::Evictable;
use super::evictions::{EvictionProblem, Evictions};
use crate::capacity::{
    Candidate, Demand, Departure, Departures, Freed, HostResources, NodeCapacity, NodeHoldings,
    Placed, View,
};

/// One node on which victims make room.
pub(crate) struct VictimNode<'a, 'b> {
    /// Position of the node in the capacity.
    pub node_pos: usize,
    candidate: Candidate<'a, 'b>,
    /// What jobs that are leaving already give back.
    leaving: Freed,
}

impl<'a, 'b> VictimNode<'a, 'b> {
    /// Returns `None` if the node takes no work, or holds exclude the demand from it.
    pub fn new(
        view: View<'a, 'b>,
        demand: Demand<'b>,
        node_pos: usize,
        evictions: &Evictions,
    ) -> Option<Self> {
        let departures = || keeping_memory(&view, node_pos);
        let mut candidate = Candidate::new(
            (view.capacity, view.holds),
            node_pos,
            demand,
            view.snapshot.now,
            &departures,
        )?;
        candidate.close(evictions.claimed_on(node_pos));
        let mut leaving = match evictions.was_vacating(node_pos) {
            true => leaving(&view.snapshot, &view.capacity.nodes[node_pos]),
            false => Freed::default(),
        };
        leaving.add_uses(evictions.freed.get(&node_pos).map_or(&[], Vec::as_slice));
        Some(Self { node_pos, candidate, leaving })
    }

    /// Whether a job is leaving each of the devices of a place already.
    fn is_left(&self, placed: &Placed) -> bool {
        placed.devices.iter().all(|ix| self.leaving.of(*ix).0 > 0)
    }

    /// Whether the demand fits once these have left.
    pub fn fits(&self, gone: &[&Evictable]) -> bool {
        self.candidate.fits(Departures::Leaving(&self.freed(gone)))
    }

    /// Returns the place of the demand once these have left; `None` if it does not fit.
    pub fn place(&self, gone: &[&Evictable]) -> Option<Placed> {
        self.candidate.place(Departures::Leaving(&self.freed(gone)))
    }

    fn freed(&self, gone: &[&Evictable]) -> Freed {
        let mut freed = self.leaving.clone();
        gone.iter().filter_map(|it| it.held.get(&self.node_pos)).for_each(|it| freed.add(it));
        freed
    }
}

impl Evictions {
    /// Returns the place of a job of one node on devices that jobs are leaving already. No job that
    /// fits at once can take these in between.
    pub fn place_on_leaving(&self, input: &EvictionProblem<'_, '_>) -> Option<Placed> {
        if !input.demand.is_of_one_node() {
            return None;
        }
        let nodes = self.vacating_nodes();
        let mut nodes = nodes.filter_map(|ix| VictimNode::new(input.view, input.demand, ix, self));
        nodes.find_map(|node| node.place(&[]).filter(|placed| node.is_left(placed)))
    }
}

/// Departures from a node if every job that can be paused is: these keep their host memory.
fn keeping_memory(view: &View<'_, '_>, node_pos: usize) -> Vec<Departure> {
    let world = view.snapshot.world;
    let node = &view.capacity.nodes[node_pos].row.node;
    let mut departures = view.departures(node_pos);
    for departure in &mut departures {
        let row = world.job(departure.end.job);
        let pauses = |row: &&JobRow| world.best_exit(row, true) == Some(Exit::Pause);
        if let Some(row) = row.filter(pauses)
            && let mut here = row.job.phase.allocations().iter()
            // All tasks of a job on a node are alike.
            && let Some(allocation) = here.find(|it| it.node == node.name)
        {
            let kept = HostResources::booked_paused(node, &row.spec, allocation);
            departure.held.host = departure.held.host.less(kept);
        }
    }
    departures
}

/// Returns the devices that jobs which are leaving a node give back. A demand that fits then waits
/// for them.
pub(crate) fn leaving(snapshot: &Snapshot<'_>, node: &NodeCapacity<'_>) -> Freed {
    let mut held = NodeHoldings::default();
    for task in &node.row.here {
        let own = snapshot.world.job(task.job).map_or(&[][..], |row| row.job.phase.allocations());
        for allocation in own.iter().filter(|it| it.task == *task && it.is_leaving()) {
            held.add(allocation, &node.row.node, None);
        }
    }
    let mut leaving = Freed::default();
    leaving.add_uses(&held.uses);
    leaving
}
