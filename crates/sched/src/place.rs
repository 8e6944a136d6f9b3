//! Placing one task: filter the nodes, score them, choose, assign devices.

use gpool_model::plan::Fit;
use gpool_model::{Attempt, JobId, Placement, Policy, Share, Slot, SlotPart};
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
    /// What is taken of each, if not all.
    share: Option<Share>,
}

impl Found {
    pub fn placement(&self, world: &World) -> Placement {
        let node = &world.nodes()[self.node_ix.0].node;
        let slots = self.devices.iter().map(|ix| {
            let device = &node.devices[*ix];
            let part = self.share.map_or(SlotPart::Whole, |share| share.slot_of(device.memory));
            Slot { index: device.index, device: device.uuid.clone(), part }
        });
        Placement { node: node.name.clone(), slots: slots.collect() }
    }
}

/// The best place for one task that is free at once: where the earliest model of the request is
/// to be had; for shares, where fewest devices are opened for them; then on the node that has the
/// fewest free devices, so that large jobs find whole nodes; then the lower name.
pub(crate) fn place(board: &Board<'_>, fit: &Fit, policy: &Policy, seed: u64) -> Option<Found> {
    let n_devices = usize::try_from(fit.gpus.n_devices()).ok()?;
    let board_ix = match fit.gpus.share() {
        None => node_for_whole(board, fit, n_devices),
        Some(share) => node_for_shares(board, fit, n_devices, share),
    }?;
    let node = &board.nodes[board_ix];
    let seats: Vec<Seat<'_>> = (node.row.node.devices.iter().enumerate())
        .map(|(ix, device)| Seat {
            device,
            is_free: node.is_free(ix),
            is_busy: node.is_busy(ix),
            room: node.room(ix),
        })
        .collect();
    let devices = seat(&seats, &fit.gpus, policy.device_strategy, seed)?;
    Some(Found { board_ix, node_ix: node.ix, devices, share: fit.gpus.share() })
}

fn node_for_whole(board: &Board<'_>, fit: &Fit, n_devices: usize) -> Option<usize> {
    let needs = Room::needed(fit);
    let answers = board.answers(&fit.gpus);
    let fits = |board_ix: usize, rank: usize| {
        let node = &board.nodes[board_ix];
        needs.first_short(node.free).is_none() && node.n_free_of(&answers, Some(rank)) >= n_devices
    };
    (0..answers.n_ranks)
        .find_map(|rank| board.with_free(n_devices).find(|board_ix| fits(*board_ix, rank)))
}

fn node_for_shares(board: &Board<'_>, fit: &Fit, n_devices: usize, share: Share) -> Option<usize> {
    let needs = Room::needed(fit);
    let answers = board.answers(&fit.gpus);
    (0..answers.n_ranks)
        .find_map(|rank| {
            let opened = |board_ix: usize| {
                let node = &board.nodes[board_ix];
                let fits = node.takes_shares() && needs.first_short(node.free).is_none();
                let n_with_room =
                    if fits { node.n_with_room(&fit.gpus, share, Some(rank)) } else { 0 };
                let n_free = node.n_free_of(&answers, Some(rank));
                (n_with_room >= n_devices)
                    .then(|| (n_devices.saturating_sub(n_with_room - n_free), board_ix))
            };
            // The first of those that open as few devices.
            board.with_free(0).filter_map(opened).min_by_key(|(n_opened, _)| *n_opened)
        })
        .map(|(_, board_ix)| board_ix)
}

/// Chance for one run of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
