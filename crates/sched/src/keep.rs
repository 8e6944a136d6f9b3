//! What is kept for somebody from a moment on: planned starts, reservations, maintenance windows.
//! One mechanism for all three: who comes later, or is not admitted, may use what is kept only
//! while it is not yet, or no longer, kept.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{
    Bytes, GpuRequest, JobId, Millis, Policy, Reason, Reservation, Shape, Timestamp,
};
use gpool_world::{ExpectedEnd, Snapshot};

use crate::board::{Board, NodeBoard};
use crate::room::Room;

/// A stretch of time; without an end it is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

impl Span {
    pub fn new(from: Timestamp, length: Option<Millis>) -> Self {
        Self { from, until: length.map(|length| from.after(length)) }
    }

    fn meets(self, other: Self) -> bool {
        let before = |one: Self, other: Self| one.until.is_some_and(|until| until <= other.from);
        !before(self, other) && !before(other, self)
    }
}

/// For how long work of that shape takes what it is given; `None` without a time limit, which is
/// taken for ever.
pub(crate) fn length(shape: &Shape) -> Option<Millis> {
    shape.takes
}

/// Something that is kept on one node.
#[derive(Debug, Clone)]
pub(crate) enum Keep<'a> {
    /// For a job that is to start.
    Start { job: JobId, uses: Vec<Use>, room: Room, span: Span },
    /// For whom a reservation admits; `None` is the whole node.
    Reserved { by: &'a Reservation, devices: Option<Vec<usize>> },
}

impl Keep<'_> {
    /// The stretch in which it keeps anything from what runs in `span`, if the two meet. Nobody
    /// plans to start on what is kept for others, even after it: whom it is for would be held to
    /// be gone by then, and without a time limit could never use it.
    fn conflict(&self, span: Span, now: Timestamp) -> Option<Span> {
        let kept = match self {
            Self::Start { span, .. } => *span,
            Self::Reserved { by, .. } if span.from > now && !by.is_maintenance() => {
                Span { from: by.occurrence(now)?.from, until: None }
            }
            Self::Reserved { by, .. } => {
                let window = by.occurrence(span.from)?;
                Span { from: window.from, until: window.until }
            }
        };
        kept.meets(span).then_some(kept)
    }

    fn admits(&self, shape: &Shape) -> bool {
        match self {
            Self::Start { .. } => false,
            Self::Reserved { by, .. } => by.whom.admits(shape),
        }
    }

    /// When it no longer keeps anything, at or after a moment.
    fn until(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Start { span, .. } => span.until,
            Self::Reserved { by, .. } => by.occurrence(at)?.until,
        }
    }

    /// Why a job waits that it keeps out from now on.
    fn reason(&self, node: &NodeBoard<'_>, shape: &Shape, now: Timestamp) -> Reason {
        match self {
            Self::Start { job, span, .. } => {
                Reason::WouldDelay { job: *job, planned_at: span.from }
            }
            Self::Reserved { by, devices } => {
                let (reservation, node_name) = (by.name.clone(), node.name().clone());
                let window = by.occurrence(now).unwrap_or(by.window);
                let (from, until) = (window.from, window.until);
                if by.is_maintenance() {
                    return Reason::MaintenanceSoon { reservation, node: node_name, from, until };
                }
                let gpus = &shape.fit.gpus;
                let asked = |ix: &usize| gpus.rank_of(&node.row.node.devices[*ix]).is_some();
                let all = 0..node.row.node.devices.len();
                let n_devices = match devices {
                    _ if gpus.n_devices() == 0 => 0,
                    Some(devices) => devices.iter().filter(|ix| asked(ix)).count(),
                    None => all.filter(asked).count(),
                };
                let n_devices = u32::try_from(n_devices).unwrap_or(u32::MAX);
                let node = node_name;
                Reason::ReservedForOther { reservation, node, n_devices, from, until }
            }
        }
    }
}

/// What somebody has of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    pub device_ix: usize,
    /// How much of its memory; all of it where the device is used whole.
    pub memory: Bytes,
    pub is_whole: bool,
}

impl Use {
    /// What a task of that request has of a device of a node.
    pub fn of(gpus: &GpuRequest, node: &NodeBoard<'_>, device_ix: usize) -> Self {
        let memory = node.row.node.devices[device_ix].memory;
        match gpus.share() {
            None => Self { device_ix, memory, is_whole: true },
            Some(share) => Self { device_ix, memory: share.memory_of(memory), is_whole: false },
        }
    }
}

/// What is given back on a node, and when.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub end: ExpectedEnd,
    pub board_ix: usize,
    pub uses: Vec<Use>,
    pub room: Room,
}

/// Whether a device can be used so once that was given back, for all that is not kept.
pub(crate) fn is_open(node: &NodeBoard<'_>, wanted: Use, back: &[Use], held: &[Use]) -> bool {
    let of_device = |uses: &[Use]| -> Vec<Use> {
        uses.iter().copied().filter(|it| it.device_ix == wanted.device_ix).collect()
    };
    let (back, held) = (of_device(back), of_device(held));
    if wanted.is_whole {
        return held.is_empty() && node.n_holders(wanted.device_ix) <= back.len();
    }
    let sum = |uses: &[Use]| uses.iter().map(|it| i128::from(it.memory.get())).sum::<i128>();
    let left = node.memory_left(wanted.device_ix) + sum(&back) - sum(&held);
    held.iter().all(|it| !it.is_whole) && i128::from(wanted.memory.get()) <= left
}

/// All that is kept, by position of its node on the board.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keeps<'a> {
    by_node: BTreeMap<usize, Vec<Keep<'a>>>,
    /// By reservation: who it admits is asked of each shape.
    reservations: Vec<&'a Reservation>,
    /// Devices are for those for whom they are reserved.
    reserved_only: bool,
    now: Timestamp,
}

impl<'a> Keeps<'a> {
    /// The reservations that are not over.
    pub fn of(snapshot: &Snapshot<'a>, policy: &Policy, board: &Board<'a>) -> Self {
        let reserved_only = policy.reserved_only;
        let mut keeps = Self { now: snapshot.now, reserved_only, ..Self::default() };
        for by in snapshot.world.reservations().values() {
            if by.is_over(snapshot.now) {
                continue;
            }
            keeps.reservations.push(by);
            for node in by.what.nodes.iter().chain(by.what.devices.keys()) {
                let Some(board_ix) = board.position(snapshot.world, node) else { continue };
                let devices = (!by.what.has_node(node)).then(|| {
                    let all = board.nodes[board_ix].row.node.devices.iter().enumerate();
                    let kept = all.filter(|(_, device)| by.what.has_device(node, &device.uuid));
                    kept.map(|(ix, _)| ix).collect()
                });
                keeps.add(board_ix, Keep::Reserved { by, devices });
            }
        }
        keeps
    }

    pub fn add(&mut self, board_ix: usize, keep: Keep<'a>) {
        self.by_node.entry(board_ix).or_default().push(keep);
    }

    /// Those of so many nodes on which anything is kept.
    pub fn nodes(&self, n_nodes: usize) -> impl Iterator<Item = usize> + '_ {
        let all = if self.reserved_only { 0..n_nodes } else { 0..0 };
        let some = self.by_node.keys().copied().filter(|_| !self.reserved_only);
        all.chain(some)
    }

    /// Whether anything is kept for whom reservations admit.
    pub fn are_reserved(&self) -> bool {
        self.reserved_only || !self.reservations.is_empty()
    }

    pub fn has(&self, board_ix: usize) -> bool {
        self.reserved_only || self.by_node.contains_key(&board_ix)
    }

    /// When starts are planned on a node.
    pub fn starts(&self, board_ix: usize) -> impl Iterator<Item = Timestamp> {
        let here = self.by_node.get(&board_ix).into_iter().flatten();
        here.filter_map(|keep| match keep {
            Keep::Start { span, .. } => Some(span.from),
            Keep::Reserved { .. } => None,
        })
    }

    /// The devices of a node, by position, that are reserved for work of a shape at a moment.
    fn own(
        &self,
        (board_ix, node): (usize, &NodeBoard<'_>),
        shape: &Shape,
        at: Timestamp,
    ) -> BTreeSet<usize> {
        let here = self.by_node.get(&board_ix).into_iter().flatten();
        let own = here.filter_map(|keep| match keep {
            Keep::Reserved { by, devices } => {
                let window = by.occurrence(at)?;
                let is_own = !by.is_maintenance() && window.from <= at && by.whom.admits(shape);
                let all = || (0..node.row.node.devices.len()).collect();
                is_own.then(|| devices.clone().unwrap_or_else(all))
            }
            Keep::Start { .. } => None,
        });
        own.flatten().collect()
    }

    /// Why a job waits where only what is reserved is given out: how much that is.
    pub fn not_reserved(&self, board: &Board<'_>, shape: &Shape) -> Option<Reason> {
        if !self.reserved_only || shape.fit.gpus.is_none() {
            return None;
        }
        let asked = |node: &NodeBoard<'_>, ix: &usize| {
            shape.fit.gpus.rank_of(&node.row.node.devices[*ix]).is_some()
        };
        let nodes = board.nodes.iter().enumerate().map(|(board_ix, node)| {
            let own = self.own((board_ix, node), shape, self.now);
            own.into_iter().filter(|ix| asked(node, ix)).count()
        });
        let reserved = u64::try_from(nodes.sum::<usize>()).unwrap_or(u64::MAX);
        Some(Reason::NotReserved { reserved })
    }

    /// Which reservations admit work of a shape, by position: what one shape can use of what is
    /// kept, another of the same list can.
    pub fn access(&self, shape: &Shape) -> Vec<usize> {
        let all = self.reservations.iter().enumerate();
        all.filter(|(_, by)| by.whom.admits(shape)).map(|(at, _)| at).collect()
    }

    /// Moments after `from` at which something is kept no longer, or is given to whom it is for.
    pub fn releases(&self, board_ix: usize, from: Timestamp) -> Vec<Timestamp> {
        let here = self.by_node.get(&board_ix).into_iter().flatten();
        let given = |keep: &Keep<'_>| match keep {
            Keep::Reserved { by, .. } if self.reserved_only => Some(by.occurrence(from)?.from),
            Keep::Reserved { .. } | Keep::Start { .. } => None,
        };
        let all = here.flat_map(|keep| keep.until(from).into_iter().chain(given(keep)));
        all.filter(|at| *at > from).collect()
    }

    /// Which devices of a node, by position, are kept from work of that shape in that stretch of
    /// time; `None` if the node has no room then for what that needs beside devices. `endings` are
    /// those of the node.
    pub fn kept(
        &self,
        node: (usize, &NodeBoard<'_>),
        (shape, needs): (&Shape, Room),
        span: Span,
        endings: &dyn Fn() -> Vec<Ending>,
    ) -> Option<Vec<usize>> {
        let (board_ix, node) = node;
        let mut kept = Vec::new();
        let mut starts = Vec::new();
        for keep in self.by_node.get(&board_ix).into_iter().flatten() {
            let Some(conflict) = keep.conflict(span, self.now).filter(|_| !keep.admits(shape))
            else {
                continue;
            };
            match keep {
                Keep::Reserved { devices: None, .. } => return None,
                Keep::Reserved { devices: Some(devices), .. } => kept.extend(devices),
                Keep::Start { uses, room, .. } => starts.push(Start { uses, room, of: conflict }),
            }
        }
        if self.reserved_only {
            let own = self.own((board_ix, node), shape, span.from);
            kept.extend((0..node.row.node.devices.len()).filter(|ix| !own.contains(ix)));
        }
        if !starts.is_empty() {
            kept.extend(kept_by_starts(node, (shape, needs), span, &starts, &endings())?);
        }
        kept.sort_unstable();
        kept.dedup();
        Some(kept)
    }

    /// Why a job waits that would have a place on that node but for what is kept there: the first
    /// that begins of those that keep it out.
    pub fn reason(
        &self,
        node: (usize, &NodeBoard<'_>),
        shape: &Shape,
        now: Timestamp,
    ) -> Option<Reason> {
        let (board_ix, node) = node;
        let span = Span::new(now, length(shape));
        let here = self.by_node.get(&board_ix).into_iter().flatten();
        let conflicts = here.filter(|keep| !keep.admits(shape));
        let conflicts = conflicts.filter_map(|keep| Some((keep.conflict(span, now)?.from, keep)));
        let (_, first) = conflicts.min_by_key(|(from, _)| *from)?;
        Some(first.reason(node, shape, now))
    }
}

/// What one planned start keeps on a node.
struct Start<'a> {
    uses: &'a [Use],
    room: &'a Room,
    of: Span,
}

/// Which devices planned starts keep from work of that shape; `None` if they keep the room.
fn kept_by_starts(
    node: &NodeBoard<'_>,
    (shape, needs): (&Shape, Room),
    span: Span,
    starts: &[Start<'_>],
    endings: &[Ending],
) -> Option<Vec<usize>> {
    let mut kept = Vec::new();
    // What is free only falls where something that is kept begins.
    let begins = starts.iter().map(|start| start.of.from.max(span.from));
    for at in begins.chain([span.from]) {
        let ended = || endings.iter().filter(|ending| ending.end.at <= at);
        let holds = |start: &&Start<'_>| {
            start.of.from <= at && start.of.until.is_none_or(|until| at < until)
        };
        let held = || starts.iter().filter(holds);
        let free = ended().fold(node.free, |sum, ending| sum.more(ending.room));
        let room = held().fold(Room::default(), |sum, start| sum.more(*start.room));
        if needs.first_short_with(room, free).is_some() {
            return None;
        }
        let back: Vec<Use> = ended().flat_map(|ending| ending.uses.iter().copied()).collect();
        let held: Vec<Use> = held().flat_map(|start| start.uses.iter().copied()).collect();
        let of_starts: BTreeSet<usize> = held.iter().map(|it| it.device_ix).collect();
        let closed = |ix: &usize| !is_open(node, Use::of(&shape.fit.gpus, node, *ix), &back, &held);
        kept.extend(of_starts.into_iter().filter(closed));
    }
    Some(kept)
}
