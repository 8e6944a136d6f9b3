//! Placing one task: filter the nodes, score them, choose, assign devices.

use gpool_model::plan::Fit;
use gpool_model::{Attempt, JobId, Placement, Policy, Slot, SlotPart};
use gpool_node::seating::{Seat, seat};
use gpool_world::{NodeIx, World};

use crate::board::{Board, Room};

/// A place that was found on the board.
pub(crate) struct Found {
    /// Position on the board.
    pub board_ix: usize,
    node_ix: NodeIx,
    /// Positions of devices of the node, ascending.
    pub devices: Vec<usize>,
}

impl Found {
    pub fn placement(&self, world: &World) -> Placement {
        let node = &world.nodes()[self.node_ix.0].node;
        let slots = self.devices.iter().map(|ix| {
            let device = &node.devices[*ix];
            Slot { index: device.index, device: device.uuid.clone(), part: SlotPart::Whole }
        });
        Placement { node: node.name.clone(), slots: slots.collect() }
    }
}

/// The best place for one task that is free at once: where the earliest model of the request is
/// to be had; then on the node that has the fewest free devices, so that large jobs find whole
/// nodes; then the lower name.
pub(crate) fn place(board: &Board<'_>, fit: &Fit, policy: &Policy, seed: u64) -> Option<Found> {
    let needs = Room::needed(fit);
    let n_devices = usize::try_from(fit.gpus.n_devices()).ok()?;
    let answers = board.answers(&fit.gpus);
    let fits = |board_ix: usize, rank: usize| {
        let node = &board.nodes[board_ix];
        needs.first_short(node.free).is_none() && node.n_free_of(&answers, Some(rank)) >= n_devices
    };
    let board_ix = (0..answers.n_ranks)
        .find_map(|rank| board.with_free(n_devices).find(|board_ix| fits(*board_ix, rank)))?;
    let node = &board.nodes[board_ix];
    let seats: Vec<Seat<'_>> = (node.row.node.devices.iter().enumerate())
        .map(|(ix, device)| Seat { device, is_free: node.is_free(ix), is_busy: node.is_busy(ix) })
        .collect();
    let devices = seat(&seats, &fit.gpus, policy.device_strategy, seed)?;
    Some(Found { board_ix, node_ix: node.ix, devices })
}

/// Chance for one run of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
