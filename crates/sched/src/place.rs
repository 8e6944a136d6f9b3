//! Placing the tasks of one job: filter the nodes, score them, choose, assign devices.

use std::cmp::Reverse;

use gpool_model::plan::Fit;
use gpool_model::{
    Attempt, Bytes, GpuRequest, JobId, Millis, Placement, Policy, Shape, Share, Slot, SlotPart,
};
use gpool_node::seating::{Seat, seat};
use gpool_world::{NodeIx, World};

use crate::anywhere::{most_times, share_out};
use crate::board::{Answers, Board};
use crate::foresight::Look;
use crate::room::Room;

/// What a job gets of one node.
#[derive(Clone)]
pub(crate) struct Found {
    /// Position on the board.
    pub board_ix: usize,
    node_ix: NodeIx,
    /// Positions of devices of the node, ascending: those of all tasks that go there.
    pub devices: Vec<usize>,
    /// What is taken of each, if not all.
    share: Option<Share>,
    /// How many times the node gets what a node gets.
    pub times: u32,
}

impl Found {
    /// These devices of a node, by position, ascending, for what it gets so many times.
    pub fn new(
        (board_ix, node_ix): (usize, NodeIx),
        devices: Vec<usize>,
        share: Option<Share>,
        times: u32,
    ) -> Self {
        Self { board_ix, node_ix, devices, share, times }
    }

    /// What all tasks book that go there.
    pub fn room(&self, fit: &Fit) -> Room {
        Room::needed(fit).times(self.times)
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
        (0..fit.gang.tasks_per_node.saturating_mul(self.times)).map(move |_| {
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

/// On how many nodes a job starts; at most, if its tasks may be anywhere.
pub(crate) fn n_nodes(fit: &Fit) -> usize {
    usize::try_from(fit.gang.nodes).unwrap_or(usize::MAX)
}

/// How many times a node is among those that were found.
pub(crate) fn times_on(found: &[Found], board_ix: usize) -> u32 {
    found.iter().find(|it| it.board_ix == board_ix).map_or(0, |it| it.times)
}

/// How many times what a node gets has no place yet.
pub(crate) fn n_missing(found: &[Found], fit: &Fit) -> u32 {
    fit.gang.nodes.saturating_sub(found.iter().map(|it| it.times).sum())
}

/// Adds what was found on a node, in place of what was found there before.
pub(crate) fn put(found: &mut Vec<Found>, next: Found) {
    found.retain(|it| it.board_ix != next.board_ix);
    found.push(next);
}

/// How many devices a node is asked for by all tasks that it gets at once.
pub(crate) fn n_devices_on_node(fit: &Fit) -> usize {
    usize::try_from(fit.n_devices_on_node()).unwrap_or(usize::MAX)
}

/// Takes every device that answers with another rank for one that is not there: all tasks of a job
/// get devices of one model of its request.
pub(crate) fn only_of_rank(seats: &mut [Seat<'_>], gpus: &GpuRequest, rank: usize) {
    if gpus.models.len() < 2 {
        return;
    }
    seats.iter_mut().filter(|seat| gpus.rank_of(seat.device) != Some(rank)).for_each(close);
}

/// Takes a device for one that is not there.
fn close(seat: &mut Seat<'_>) {
    seat.is_free = false;
    seat.room = Bytes::ZERO;
}

/// Who looks for a place: what it asks, and by which rules devices are chosen.
#[derive(Clone, Copy)]
pub(crate) struct Seeker<'a> {
    pub shape: &'a Shape,
    pub policy: &'a Policy,
    pub seed: u64,
}

impl Seeker<'_> {
    /// How many times it is to have on nodes what a node gets.
    pub fn n_times(&self) -> u32 {
        self.shape.fit.gang.nodes
    }

    /// What it needs of a node beside devices, so many times.
    pub fn needs(&self, times: u32) -> Room {
        Room::needed(&self.shape.fit).times(times)
    }

    /// How many devices it needs of a node, so many times.
    pub fn n_devices(&self, times: u32) -> usize {
        n_devices_on_node(&self.shape.fit)
            .saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
    }
}

/// The best places for all tasks of a job that are free at once: where the earliest model of the
/// request is to be had for all of them; for one node, where by `look` it leaves most that is of
/// use, and of those where it has work least longer than others have there; for shares, where
/// fewest devices are opened for them; then on the nodes that have the fewest free devices, so that
/// large jobs find whole nodes; then the lower names. Tasks that may be anywhere are on as few
/// nodes as they can be. `kept` tells of a node, and of how many times it is to get what a node
/// gets, which devices are kept from such work, or that the node has no room for it. In the order
/// of nodes.
pub(crate) fn place(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    mut look: Option<&mut Look<'_>>,
    kept: &Kept<'_>,
) -> Option<Vec<Found>> {
    let fit = &seeker.shape.fit;
    let answers = board.answers(&fit.gpus);
    let mut on_nodes = |rank| {
        let room = |board_ix, times| room(board, seeker, (&answers, rank), kept, (board_ix, times));
        let once = |board_ix| room(board_ix, 1);
        match &mut look {
            Some(look) => Some(vec![most_useful(board, fit, look, once)?]),
            None if fit.gang.anywhere => fewest_nodes(board, fit, room),
            None => fewest_opened(board, fit, once),
        }
    };
    let found = |rank| Some((rank, on_nodes(rank)?));
    let (rank, mut nodes) = (0..answers.n_ranks).find_map(found)?;
    nodes.sort_unstable_by_key(|it| it.board_ix);
    let (strategy, seed) = (seeker.policy.device_strategy, seeker.seed);
    let seated = nodes.into_iter().map(|NodeFound { board_ix, kept, times }| {
        let gpus = fit.gpus_on_node(times);
        let node = &board.nodes[board_ix];
        let mut seats = node.seats(&kept);
        only_of_rank(&mut seats, &gpus, rank);
        let on_one = look.as_mut().and_then(|look| look.device_for_share(node)).and_then(|most| {
            let mut seats = seats.clone();
            let others = |(ix, seat)| (node.thousandths(ix) != most).then_some(seat);
            seats.iter_mut().enumerate().filter_map(others).for_each(close);
            seat(&seats, &gpus, strategy, seed)
        });
        let devices = on_one.or_else(|| seat(&seats, &gpus, strategy, seed))?;
        Some(Found::new((board_ix, node.ix), devices, gpus.share(), times))
    });
    seated.collect()
}

/// Of so many nodes on which a job leaves as much it is looked at who ends when.
const ALIKE_MAX: usize = 512;

/// Which devices of a node are kept, by its position and how many times it is to get what a node
/// gets; `None` if it has no room for that.
pub(crate) type Kept<'k> = dyn Fn(usize, u32) -> Option<Vec<usize>> + 'k;

/// A node, which of its devices are kept, and how many times it gets what a node gets.
struct NodeFound {
    board_ix: usize,
    kept: Vec<usize>,
    times: u32,
}

impl NodeFound {
    fn once(board_ix: usize, kept: Vec<usize>) -> Self {
        Self { board_ix, kept, times: 1 }
    }
}

/// If a node has room for all tasks that it gets, so many times, on devices of one rank: how many
/// devices have to be opened for shares of them, and which are kept.
fn room(
    board: &Board<'_>,
    seeker: &Seeker<'_>,
    (answers, rank): (&Answers, usize),
    kept: &Kept<'_>,
    (board_ix, times): (usize, u32),
) -> Option<(usize, Vec<usize>)> {
    let fit = &seeker.shape.fit;
    let (node, n_devices) = (&board.nodes[board_ix], seeker.n_devices(times));
    let share = fit.gpus.share();
    let may_have_room = match share {
        None => node.n_free_of(answers, Some(rank)) >= n_devices,
        Some(_) => node.takes_shares(),
    };
    if !may_have_room
        || !fit.may_be_on(&node.row.node)
        || seeker.needs(times).first_short(node.free).is_some()
    {
        return None;
    }
    let kept = kept(board_ix, times)?;
    let n_free = node.n_free_beside(answers, rank, &kept);
    let n_with_room = match share {
        None => n_free,
        Some(share) => node.n_with_room(&fit.gpus, share, Some(rank), &kept),
    };
    let n_opened = share.map_or(0, |_| n_devices.saturating_sub(n_with_room - n_free));
    (n_with_room >= n_devices).then_some((n_opened, kept))
}

/// How many devices of a node must be free at least.
fn n_free_least(fit: &Fit) -> usize {
    if fit.gpus.share().is_some() { 0 } else { n_devices_on_node(fit) }
}

/// The node on which a job leaves most that is of use to those who come.
fn most_useful(
    board: &Board<'_>,
    fit: &Fit,
    look: &mut Look<'_>,
    room: impl Fn(usize) -> Option<(usize, Vec<usize>)>,
) -> Option<NodeFound> {
    let mut best: Option<((i64, Reverse<usize>), NodeFound)> = None;
    for board_ix in board.with_free(n_free_least(fit)) {
        let node = &board.nodes[board_ix];
        let Some(worth) = look.at(node) else { continue };
        let is_better = |key| best.as_ref().is_none_or(|(than, _)| key > *than);
        if is_better((worth, Reverse(0))) {
            let Some((n_opened, kept)) = room(board_ix) else { continue };
            let key = (worth, Reverse(n_opened));
            if is_better(key) {
                best = Some((key, NodeFound::once(board_ix, kept)));
            }
        }
        look.compared(node);
        if look.is_enough() {
            break;
        }
    }
    let (key, found) = best?;
    Some(least_lengthened(board, fit, look, (key, found), room))
}

/// Of the nodes on which a job leaves as much the first that has work the least longer by it: of
/// nodes that become empty sooner large jobs have more. `found` is one of them.
fn least_lengthened(
    board: &Board<'_>,
    fit: &Fit,
    look: &mut Look<'_>,
    ((worth, n_opened), found): ((i64, Reverse<usize>), NodeFound),
    room: impl Fn(usize) -> Option<(usize, Vec<usize>)>,
) -> NodeFound {
    if !look.has_end() {
        return found;
    }
    let mut best = (look.lengthens(&board.nodes[found.board_ix]), found);
    let mut n_looks = 0;
    for board_ix in board.with_free(n_free_least(fit)) {
        let node = &board.nodes[board_ix];
        if best.0 == Millis::ZERO || n_looks == ALIKE_MAX {
            break;
        }
        if board_ix == best.1.board_ix || look.known(node) != Some(worth) {
            continue;
        }
        n_looks += 1;
        let lengthens = look.lengthens(node);
        if lengthens < best.0
            && let Some((_, kept)) = room(board_ix).filter(|(n, _)| *n == n_opened.0)
        {
            best = (lengthens, NodeFound::once(board_ix, kept));
        }
    }
    best.1
}

/// The first nodes of those on which as few devices as can be are opened.
fn fewest_opened(
    board: &Board<'_>,
    fit: &Fit,
    room: impl Fn(usize) -> Option<(usize, Vec<usize>)>,
) -> Option<Vec<NodeFound>> {
    let nodes = board.with_free(n_free_least(fit));
    let found = nodes
        .filter_map(|ix| room(ix).map(|(n_opened, kept)| (n_opened, NodeFound::once(ix, kept))));
    let n_nodes = n_nodes(fit);
    let mut found: Vec<(usize, NodeFound)> = match fit.gpus.share() {
        None => found.take(n_nodes).collect(),
        // For one task without a list of all nodes.
        Some(_) if n_nodes == 1 => {
            found.min_by_key(|(n_opened, _)| *n_opened).into_iter().collect()
        }
        Some(_) => found.collect(),
    };
    if found.len() < n_nodes {
        return None;
    }
    found.sort_by_key(|(n_opened, _)| *n_opened);
    found.truncate(n_nodes);
    Some(found.into_iter().map(|(_, found)| found).collect())
}

/// Nodes for tasks that may be anywhere: of those that have as much room first where as few devices
/// as can be are opened, then the first ones.
fn fewest_nodes(
    board: &Board<'_>,
    fit: &Fit,
    room: impl Fn(usize, u32) -> Option<(usize, Vec<usize>)>,
) -> Option<Vec<NodeFound>> {
    let rooms = board.with_free(n_free_least(fit)).filter_map(|ix| {
        let most = fit.most_on(&board.nodes[ix].row.node);
        let times = most_times(most, |times| room(ix, times).is_some());
        let (n_opened, _) = room(ix, times).filter(|_| times > 0)?;
        Some((n_opened, (ix, times)))
    });
    let mut rooms: Vec<(usize, (usize, u32))> = rooms.collect();
    rooms.sort_by_key(|(n_opened, _)| *n_opened);
    let rooms: Vec<(usize, u32)> = rooms.into_iter().map(|(_, room)| room).collect();
    let found = share_out(fit.gang.nodes, &rooms)?.into_iter().map(|(board_ix, times)| {
        let (_, kept) = room(board_ix, times)?;
        Some(NodeFound { board_ix, kept, times })
    });
    found.collect()
}

/// Chance for one run of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
