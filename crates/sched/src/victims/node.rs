//! A node on which victims make room for a demand: which of them have to leave, and what the demand
//! gets then.

use gpool_model::{Allocation, AllocationState, Exit};
use gpool_world::{JobRow, Snapshot};

use crate::capacity::{
    Candidate, Demand, Departure, Departures, Freed, HostResources, NodeCapacity, Placed,
};
use crate::pipeline::reclaim::{Evictions, Ground, Lent, best_exit};

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
    pub(crate) fn new(
        ground: Ground<'a, 'b>,
        node_pos: usize,
        demand: Demand<'b>,
        Evictions { claimed, freed, left, .. }: &Evictions,
    ) -> Option<Self> {
        let (now, on) = (ground.snapshot.now, (node_pos, ground.capacity));
        let departures = || keeping_memory(ground, node_pos);
        let mut candidate = Candidate::new(demand, on, now, ground.holds, &departures)?;
        let claimed = claimed.range((node_pos, 0)..=(node_pos, usize::MAX));
        candidate.close(claimed.map(|(_, device_ix)| *device_ix));
        let mut leaving = match left.as_ref().is_none_or(|left| left.contains(&node_pos)) {
            true => leaving(ground.snapshot, &ground.capacity.nodes[node_pos]),
            false => Freed::default(),
        };
        for (ix, memory) in freed.get(&node_pos).into_iter().flatten().flat_map(|it| &it.devices) {
            leaving.add_device(*ix, *memory);
        }
        Some(Self { node_pos, candidate, leaving })
    }

    /// The fewest of `all` that have to leave beside `victims`, in the order in which jobs leave;
    /// `None` if all of them are not enough, or none has to.
    pub(crate) fn least<'l>(&self, victims: &[Lent], all: &[&'l Lent]) -> Option<Vec<&'l Lent>> {
        let is_enough = |chosen: &[&Lent]| {
            let gone: Vec<&Lent> = victims.iter().chain(chosen.iter().copied()).collect();
            self.has_room(&gone)
        };
        let mut chosen: Vec<&Lent> = Vec::new();
        if is_enough(&chosen) {
            return None;
        }
        let mut left = all.iter();
        while !is_enough(&chosen) {
            chosen.push(*left.next()?);
        }
        // The last one was needed. Of the others, a job later in the order stays if it can.
        for at in (0..chosen.len().saturating_sub(1)).rev() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if is_enough(&fewer) {
                chosen = fewer;
            }
        }
        Some(chosen)
    }

    /// Whether a job leaves each of the devices of a place already.
    pub(crate) fn is_left(&self, placed: &Placed) -> bool {
        placed.devices.iter().all(|ix| self.leaving.has_device(*ix))
    }

    /// Whether the demand fits once these have left.
    pub(crate) fn has_room(&self, gone: &[&Lent]) -> bool {
        self.candidate.fits(Departures::Leaving(&self.freed(gone)))
    }

    /// What the demand gets once these have left; `None` if it does not fit.
    pub(crate) fn found(&self, gone: &[&Lent]) -> Option<Placed> {
        self.candidate.place(Departures::Leaving(&self.freed(gone)))
    }

    fn freed(&self, gone: &[&Lent]) -> Freed {
        let mut freed = self.leaving.clone();
        for held in gone.iter().filter_map(|it| it.held.get(&self.node_pos)) {
            held.devices.iter().for_each(|(ix, memory)| freed.add_device(*ix, *memory));
            freed.host = freed.host.more(held.room);
        }
        freed
    }
}

/// Departures from a node if every job that can be paused is: these keep their host memory.
fn keeping_memory(ground: Ground<'_, '_>, node_pos: usize) -> Vec<Departure> {
    let world = ground.snapshot.world;
    let mut departures = (ground.departures)(node_pos);
    for departure in &mut departures {
        let row = world.job(departure.end.job);
        let pauses = |row: &&JobRow| best_exit(world, row, true) == Some(Exit::Pause);
        if let Some(row) = row.filter(pauses) {
            departure.room = departure.room.less(HostResources::booked_paused(&row.spec));
        }
    }
    departures
}

/// What jobs that are leaving a node give back. A demand that fits then waits for them.
pub(crate) fn leaving(snapshot: &Snapshot<'_>, node: &NodeCapacity<'_>) -> Freed {
    let mut leaving = Freed::default();
    let all = &node.row.node.devices;
    let rows = node.row.here.iter().filter_map(|task| Some((task, snapshot.world.job(task.job)?)));
    let leaves = |it: &&Allocation| {
        matches!(it.state, AllocationState::Releasing { .. } | AllocationState::Pausing)
    };
    for (task, row) in rows {
        let own = row.job.phase.allocations().iter().filter(|it| it.task == *task);
        for slot in own.filter(leaves).flat_map(Allocation::held_slots) {
            let Some(ix) = all.iter().position(|device| device.uuid == slot.device) else {
                continue;
            };
            leaving.add_device(ix, slot.part.memory_of(all[ix].memory));
        }
    }
    leaving
}
