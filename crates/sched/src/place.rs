//! Placing one task: filter the nodes, score them, choose, assign devices.

use gpool_model::plan::Fit;
use gpool_model::{Attempt, JobId, Placement, Policy, Slot, SlotPart};
use gpool_node::seating::{Seat, seat};
use gpool_world::{NodeIx, World};

use crate::board::{Board, NodeBoard, beside_devices};

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
    let needs = beside_devices(fit);
    let fits =
        |node: &NodeBoard<'_>| node.row.node.connected && needs.first_short(&node.free).is_none();
    let mut candidates: Vec<usize> =
        (0..board.nodes.len()).filter(|ix| fits(&board.nodes[*ix])).collect();
    // Stable, and the board is in the order of names.
    candidates.sort_by_cached_key(|ix| {
        let node = &board.nodes[*ix];
        (first_rank(node, fit), node.n_free())
    });
    candidates.into_iter().find_map(|board_ix| {
        let node = &board.nodes[board_ix];
        let seats: Vec<Seat<'_>> = (node.row.node.devices.iter().enumerate())
            .map(|(ix, device)| Seat {
                device,
                is_free: node.is_free[ix],
                is_busy: node.is_busy[ix],
            })
            .collect();
        let devices = seat(&seats, &fit.gpus, policy.device_strategy, seed)?;
        Some(Found { board_ix, node_ix: node.ix, devices })
    })
}

/// The earliest model of the request of which a node has enough devices free.
fn first_rank(node: &NodeBoard<'_>, fit: &Fit) -> usize {
    let devices = || node.row.node.devices.iter().zip(&node.is_free);
    let n_free = |rank: usize| {
        devices().filter(|(device, free)| **free && fit.gpus.rank_of(device) == Some(rank)).count()
    };
    let n_ranks = fit.gpus.models.len();
    let enough = |rank: &usize| n_free(*rank) as u64 >= u64::from(fit.gpus.n_devices());
    (0..n_ranks).find(enough).unwrap_or(n_ranks)
}

/// Chance for one run of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
