//! A node on which room is to be made for work: who would have to go, and what it would get.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Allocation, AllocationState, Bytes, Exit};
use gpool_node::seating::{Seat, fits, seat};
use gpool_world::{JobRow, Snapshot};

use crate::board::NodeBoard;
use crate::evict::{Evictions, Ground, Lent, best_exit};
use crate::keep::{Ending, Span, length};
use crate::place::{self, Found, Seeker};
use crate::room::Room;
use crate::usable::unusable;

/// One node on which room is to be made.
pub(crate) struct Site<'a, 'b> {
    /// Position of the node on the board.
    pub board_ix: usize,
    node: &'b NodeBoard<'a>,
    seeker: &'b Seeker<'b>,
    /// How many times it is to get what a node gets.
    times: u32,
    rank: Option<usize>,
    /// Devices that are kept for others, or claimed already.
    closed: BTreeSet<usize>,
    /// How many are leaving each device already, with how much of its memory.
    leaving: BTreeMap<usize, (usize, i128)>,
}

impl<'a, 'b> Site<'a, 'b> {
    /// `None` if the node takes no work, or has no room for it, so many times, that is not kept.
    pub(crate) fn new(
        ground: Ground<'a, 'b>,
        (board_ix, times): (usize, u32),
        seeker: &'b Seeker<'b>,
        rank: Option<usize>,
        Evictions { claimed, freed, left, .. }: &Evictions,
    ) -> Option<Self> {
        let node = &ground.board.nodes[board_ix];
        if !node.takes(&seeker.shape.fit) {
            return None;
        }
        let span = Span::new(ground.snapshot.now, length(seeker.shape));
        let kept = match ground.keeps.has(board_ix) {
            false => Vec::new(),
            true => {
                let endings = || keeping_memory(ground, board_ix);
                let asks = (seeker.shape, seeker.needs(times));
                ground.keeps.kept((board_ix, node), asks, span, &endings)?
            }
        };
        let claimed = claimed.range((board_ix, 0)..=(board_ix, usize::MAX)).map(|(_, ix)| *ix);
        let mut others = Vec::new();
        node.close_others(&seeker.shape.fit, &mut others);
        let closed = kept.into_iter().chain(claimed).chain(others).collect();
        let mut leaving = match left.as_ref().is_none_or(|left| left.contains(&board_ix)) {
            true => leaving(ground.snapshot, node),
            false => BTreeMap::new(),
        };
        for (ix, memory) in freed.get(&board_ix).into_iter().flatten().flat_map(|it| &it.devices) {
            let (n, sum) = leaving.entry(*ix).or_default();
            *n += 1;
            *sum += i128::from(memory.get());
        }
        Some(Self { board_ix, node, seeker, times, rank, closed, leaving })
    }

    /// The least of those that has to go beside `victims`, in the order in which they go; `None`
    /// if all of them are not enough, or nobody has to.
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
        // The last one was needed. Of the others, who would go last stays first.
        for at in (0..chosen.len().saturating_sub(1)).rev() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if is_enough(&fewer) {
                chosen = fewer;
            }
        }
        Some(chosen)
    }

    /// Whether somebody leaves each of the devices of a place.
    pub(crate) fn is_left(&self, found: &Found) -> bool {
        found.devices.iter().all(|ix| self.leaving.contains_key(ix))
    }

    /// Whether the job has room on the node once these have left.
    pub(crate) fn has_room(&self, gone: &[&Lent]) -> bool {
        let gpus = self.seeker.shape.fit.gpus_on_node(self.times);
        self.seats(gone).is_some_and(|seats| fits(&seats, &gpus))
    }

    /// What the job would get of the node once these have left; `None` if it still does not fit.
    pub(crate) fn found(&self, gone: &[&Lent]) -> Option<Found> {
        let devices = self.devices(gone)?;
        let share = self.seeker.shape.fit.gpus.share();
        Some(Found::new((self.board_ix, self.node.ix), devices, share, self.times))
    }

    /// The devices that the job would get once these have left; `None` if it still does not fit.
    fn devices(&self, gone: &[&Lent]) -> Option<Vec<usize>> {
        let seats = self.seats(gone)?;
        let gpus = self.seeker.shape.fit.gpus_on_node(self.times);
        seat(&seats, &gpus, self.seeker.policy.device_strategy, self.seeker.seed)
    }

    /// The node's devices once these have left; `None` if it has too little of something else.
    fn seats(&self, gone: &[&Lent]) -> Option<Vec<Seat<'a>>> {
        let fit = &self.seeker.shape.fit;
        let here = || gone.iter().filter_map(|it| it.held.get(&self.board_ix));
        let room = here().fold(self.node.free, |room, it| room.more(it.room));
        if self.seeker.needs(self.times).first_short(room).is_some() {
            return None;
        }
        let mut freed = self.leaving.clone();
        for (ix, memory) in here().flat_map(|it| &it.devices) {
            let (n, sum) = freed.entry(*ix).or_default();
            *n += 1;
            *sum += i128::from(memory.get());
        }
        let devices = self.node.row.node.devices.iter().enumerate();
        let seats = devices.map(|(ix, device)| {
            let open = !self.closed.contains(&ix) && unusable(self.node.row, ix).is_none();
            let (n_freed, memory) = freed.get(&ix).copied().unwrap_or_default();
            let is_free = open && self.node.n_holders(ix) <= n_freed;
            let left = self.node.memory_left(ix) + memory;
            let shares = self.node.row.is_whole(ix) || self.node.row.is_shared(ix) || is_free;
            let room = match open && shares {
                true => Bytes::new(u64::try_from(left.max(0)).unwrap_or(0)),
                false => Bytes::ZERO,
            };
            Seat { device, is_free, is_busy: !is_free && self.node.is_busy(ix), room }
        });
        let mut seats: Vec<Seat<'a>> = seats.collect();
        if let Some(rank) = self.rank {
            place::only_of_rank(&mut seats, &fit.gpus, rank);
        }
        Some(seats)
    }
}

/// What is given back on a node if whoever can be paused is: he keeps his memory.
fn keeping_memory(ground: Ground<'_, '_>, board_ix: usize) -> Vec<Ending> {
    let world = ground.snapshot.world;
    let mut endings = (ground.endings)(board_ix);
    for ending in &mut endings {
        let row = world.job(ending.end.job);
        let pauses = |row: &&JobRow| best_exit(world, row, true) == Some(Exit::Pause);
        if let Some(row) = row.filter(pauses) {
            ending.room = ending.room.less(Room::booked_paused(&row.spec));
        }
    }
    endings
}

/// Who leaves the devices of a node without being told again: whoever fits once they have left
/// waits for them.
pub(crate) fn leaving(
    snapshot: &Snapshot<'_>,
    node: &NodeBoard<'_>,
) -> BTreeMap<usize, (usize, i128)> {
    let mut leaving = BTreeMap::<usize, (usize, i128)>::new();
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
            let (n, sum) = leaving.entry(ix).or_default();
            *n += 1;
            *sum += i128::from(slot.part.memory_of(all[ix].memory).get());
        }
    }
    leaving
}
