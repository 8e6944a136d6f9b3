//! Placing one task: filter the nodes, score them, choose, assign devices.

use gpool_model::{Attempt, JobId, Placement, Policy, Shape, Share, Slot, SlotPart};
use gpool_node::seating::seat;
use gpool_world::{NodeIx, World};

use crate::board::{Answers, Board};
use crate::room::Room;

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
    /// These devices of a node, by position, ascending.
    pub fn new(
        board_ix: usize,
        node_ix: NodeIx,
        devices: Vec<usize>,
        share: Option<Share>,
    ) -> Self {
        Self { board_ix, node_ix, devices, share }
    }

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

/// Who looks for a place: what it asks, and by which rules devices are chosen.
pub(crate) struct Seeker<'a> {
    pub shape: &'a Shape,
    pub policy: &'a Policy,
    pub seed: u64,
}

/// The best place for one task that is free at once: where the earliest model of the request is
/// to be had; for shares, where fewest devices are opened for them; then on the node that has the
/// fewest free devices, so that large jobs find whole nodes; then the lower name. `kept` tells of a
/// node which devices are kept from such work, or that the node has no room for it.
pub(crate) fn place(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    kept: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Option<Found> {
    let gpus = &seeker.shape.fit.gpus;
    let answers = board.answers(gpus);
    let mut ranks = 0..answers.n_ranks;
    let (board_ix, kept) = match gpus.share() {
        None => ranks.find_map(|rank| node_for_whole(board, seeker, &answers, rank, kept)),
        Some(share) => {
            ranks.find_map(|rank| node_for_shares(board, seeker, &answers, (rank, share), kept))
        }
    }?;
    let node = &board.nodes[board_ix];
    let strategy = seeker.policy.device_strategy;
    let devices = seat(&node.seats(&kept), gpus, strategy, seeker.seed)?;
    Some(Found { board_ix, node_ix: node.ix, devices, share: gpus.share() })
}

/// A node, and which of its devices are kept.
type NodeFound = (usize, Vec<usize>);

fn node_for_whole(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    answers: &Answers,
    rank: usize,
    kept: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Option<NodeFound> {
    let needs = Room::needed(&seeker.shape.fit);
    let n_devices = usize::try_from(seeker.shape.fit.gpus.n_devices()).ok()?;
    board.with_free(n_devices).find_map(|board_ix| {
        let node = &board.nodes[board_ix];
        if !seeker.shape.fit.may_be_on(&node.row.node)
            || needs.first_short(node.free).is_some()
            || node.n_free_of(answers, Some(rank)) < n_devices
        {
            return None;
        }
        let kept = kept(board_ix)?;
        (node.n_free_beside(answers, rank, &kept) >= n_devices).then_some((board_ix, kept))
    })
}

fn node_for_shares(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    answers: &Answers,
    (rank, share): (usize, Share),
    kept: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Option<NodeFound> {
    let gpus = &seeker.shape.fit.gpus;
    let needs = Room::needed(&seeker.shape.fit);
    let n_devices = usize::try_from(gpus.n_devices()).ok()?;
    let opened = |board_ix: usize| {
        let node = &board.nodes[board_ix];
        if !seeker.shape.fit.may_be_on(&node.row.node)
            || !node.takes_shares()
            || needs.first_short(node.free).is_some()
        {
            return None;
        }
        let kept = kept(board_ix)?;
        let n_with_room = node.n_with_room(gpus, share, Some(rank), &kept);
        let n_free = node.n_free_beside(answers, rank, &kept);
        (n_with_room >= n_devices)
            .then(|| (n_devices.saturating_sub(n_with_room - n_free), board_ix, kept))
    };
    // The first of those that open as few devices.
    let best = board.with_free(0).filter_map(opened).min_by_key(|(n_opened, ..)| *n_opened);
    best.map(|(_, board_ix, kept)| (board_ix, kept))
}

/// Chance for one run of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
