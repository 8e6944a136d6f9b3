//! Placing the tasks of one job: filter the nodes, score them, choose, assign devices.

use gpool_model::plan::Fit;
use gpool_model::{
    Attempt, Bytes, GpuRequest, JobId, Placement, Policy, Shape, Share, Slot, SlotPart,
};
use gpool_node::seating::{Seat, seat};
use gpool_world::{NodeIx, World};

use crate::board::{Answers, Board};
use crate::room::Room;

/// What a job gets of one node.
pub(crate) struct Found {
    /// Position on the board.
    pub board_ix: usize,
    node_ix: NodeIx,
    /// Positions of devices of the node, ascending: those of all tasks that go there.
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

    /// One of each task that goes there.
    fn placements<'a>(&'a self, fit: &Fit, world: &'a World) -> impl Iterator<Item = Placement> {
        let node = &world.nodes()[self.node_ix.0].node;
        let n_each = usize::try_from(fit.gpus.n_devices()).unwrap_or(usize::MAX);
        let slot = |ix: &usize| {
            let device = &node.devices[*ix];
            let whole = || SlotPart::all_of(device);
            let part = self.share.map_or_else(whole, |share| share.slot_of(device.memory));
            Slot { index: device.index, device: device.uuid.clone(), part }
        };
        let mut left = &self.devices[..];
        (0..fit.gang.tasks_per_node).map(move |_| {
            let (own, rest) = left.split_at(n_each.min(left.len()));
            left = rest;
            Placement { node: node.name.clone(), slots: own.iter().map(slot).collect() }
        })
    }
}

/// One of each task, by rank: those of the first node first.
pub(crate) fn placements(found: &[Found], fit: &Fit, world: &World) -> Vec<Placement> {
    found.iter().flat_map(|found| found.placements(fit, world)).collect()
}

/// On how many nodes a job starts.
pub(crate) fn n_nodes(fit: &Fit) -> usize {
    usize::try_from(fit.gang.nodes).unwrap_or(usize::MAX)
}

/// How many devices a node is asked for by all tasks that it gets.
pub(crate) fn n_devices_on_node(fit: &Fit) -> usize {
    usize::try_from(fit.n_devices_on_node()).unwrap_or(usize::MAX)
}

/// Takes every device that answers with another rank for one that is not there: all tasks of a job
/// get devices of one model of its request.
pub(crate) fn only_of_rank(seats: &mut [Seat<'_>], gpus: &GpuRequest, rank: usize) {
    if gpus.models.len() < 2 {
        return;
    }
    for seat in seats.iter_mut().filter(|seat| gpus.rank_of(seat.device) != Some(rank)) {
        seat.is_free = false;
        seat.room = Bytes::ZERO;
    }
}

/// Who looks for a place: what it asks, and by which rules devices are chosen.
pub(crate) struct Seeker<'a> {
    pub shape: &'a Shape,
    pub policy: &'a Policy,
    pub seed: u64,
}

/// The best places for all tasks of a job that are free at once: where the earliest model of the
/// request is to be had for all of them; for shares, where fewest devices are opened for them; then
/// on the nodes that have the fewest free devices, so that large jobs find whole nodes; then the
/// lower names. `kept` tells of a node which devices are kept from such work, or that the node has
/// no room for it. In the order of nodes.
pub(crate) fn place(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    kept: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Option<Vec<Found>> {
    let fit = &seeker.shape.fit;
    let answers = board.answers(&fit.gpus);
    let on_nodes = |rank| match fit.gpus.share() {
        None => nodes_for_whole(board, seeker, &answers, rank, kept),
        Some(share) => nodes_for_shares(board, seeker, &answers, (rank, share), kept),
    };
    let found = |rank| Some((rank, on_nodes(rank)?));
    let (rank, mut nodes) = (0..answers.n_ranks).find_map(found)?;
    nodes.sort_unstable_by_key(|(board_ix, _)| *board_ix);
    let gpus = fit.gpus_on_node();
    let (strategy, seed) = (seeker.policy.device_strategy, seeker.seed);
    let seated = nodes.into_iter().map(|(board_ix, kept)| {
        let node = &board.nodes[board_ix];
        let mut seats = node.seats(&kept);
        only_of_rank(&mut seats, &gpus, rank);
        let devices = seat(&seats, &gpus, strategy, seed)?;
        Some(Found { board_ix, node_ix: node.ix, devices, share: gpus.share() })
    });
    seated.collect()
}

/// A node, and which of its devices are kept.
type NodeFound = (usize, Vec<usize>);

fn nodes_for_whole(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    answers: &Answers,
    rank: usize,
    kept: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Option<Vec<NodeFound>> {
    let fit = &seeker.shape.fit;
    let (needs, n_devices) = (Room::needed(fit), n_devices_on_node(fit));
    let found = board.with_free(n_devices).filter_map(|board_ix| {
        let node = &board.nodes[board_ix];
        if !seeker.shape.fit.may_be_on(&node.row.node)
            || needs.first_short(node.free).is_some()
            || node.n_free_of(answers, Some(rank)) < n_devices
        {
            return None;
        }
        let kept = kept(board_ix)?;
        (node.n_free_beside(answers, rank, &kept) >= n_devices).then_some((board_ix, kept))
    });
    let found: Vec<NodeFound> = found.take(n_nodes(fit)).collect();
    (found.len() == n_nodes(fit)).then_some(found)
}

fn nodes_for_shares(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    answers: &Answers,
    (rank, share): (usize, Share),
    kept: &dyn Fn(usize) -> Option<Vec<usize>>,
) -> Option<Vec<NodeFound>> {
    let fit = &seeker.shape.fit;
    let (needs, n_devices) = (Room::needed(fit), n_devices_on_node(fit));
    let opened = |board_ix: usize| {
        let node = &board.nodes[board_ix];
        if !seeker.shape.fit.may_be_on(&node.row.node)
            || !node.takes_shares()
            || needs.first_short(node.free).is_some()
        {
            return None;
        }
        let kept = kept(board_ix)?;
        let n_with_room = node.n_with_room(&fit.gpus, share, Some(rank), &kept);
        let n_free = node.n_free_beside(answers, rank, &kept);
        (n_with_room >= n_devices)
            .then(|| (n_devices.saturating_sub(n_with_room - n_free), board_ix, kept))
    };
    let all = board.with_free(0).filter_map(opened);
    // The first of those that open as few devices; for one task without a list of all nodes.
    if n_nodes(fit) == 1 {
        let best = all.min_by_key(|(n_opened, ..)| *n_opened);
        return best.map(|(_, board_ix, kept)| vec![(board_ix, kept)]);
    }
    let mut found: Vec<(usize, usize, Vec<usize>)> = all.collect();
    if found.len() < n_nodes(fit) {
        return None;
    }
    found.sort_by_key(|(n_opened, ..)| *n_opened);
    found.truncate(n_nodes(fit));
    Some(found.into_iter().map(|(_, board_ix, kept)| (board_ix, kept)).collect())
}

/// Chance for one run of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
