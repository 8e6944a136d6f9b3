//! The board run forward: what is given back when, and the earliest time and place at which a job
//! can run.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{
    Attempt, Bytes, JobId, Millis, Placement, PlannedStart, Policy, Shape, Slot, SlotPart,
    StartBasis, Timestamp,
};
use gpool_node::seating::{Seat, seat};
use gpool_world::{ExpectedEnd, ExpectedEnds, JobRow, Snapshot, World};

use crate::board::Board;
use crate::keep::{Ending, Keep, Keeps, Span, Use, is_open, length};
use crate::place::{self, Found};
use crate::room::Room;
use crate::usable::unusable;

/// What is given back when. Ends are looked at as far as they are asked for, each once in a cycle.
pub(crate) struct Ahead<'a> {
    snapshot: Snapshot<'a>,
    coming: ExpectedEnds<'a>,
    /// Of what held something when the cycle began, the earliest first.
    seen: Vec<Ending>,
    /// Of what was started in this cycle.
    started: Vec<Ending>,
}

/// When and where a job can run.
struct Place {
    at: Timestamp,
    rank: usize,
    board_ix: usize,
    devices: Vec<usize>,
    basis: StartBasis,
}

impl Place {
    /// What is preferred is preferred whatever else is started before: earlier, then the model
    /// that was asked for first, then the lower name.
    fn key(&self) -> (Timestamp, usize, usize) {
        (self.at, self.rank, self.board_ix)
    }
}

/// A job that is looked for a place for.
#[derive(Clone, Copy)]
struct Ask<'a> {
    shape: &'a Shape,
    policy: &'a Policy,
    seed: u64,
}

impl Ask<'_> {
    fn length(&self) -> Option<Millis> {
        length(self.shape)
    }
}

/// What was given back on one node up to some moment.
#[derive(Default)]
struct GivenBack {
    uses: Vec<Use>,
    room: Room,
}

impl<'a> Ahead<'a> {
    pub fn new(snapshot: &Snapshot<'a>) -> Self {
        let coming = snapshot.world.expected_ends(snapshot.now);
        Self { snapshot: *snapshot, coming, seen: Vec::new(), started: Vec::new() }
    }

    /// A job was started in this cycle.
    pub fn start(
        &mut self,
        board: &Board<'_>,
        (job, row): (JobId, &JobRow),
        fit: &Fit,
        found: &Found,
    ) {
        let Snapshot { world, now } = self.snapshot;
        let Some(end) = world.expected_end_if_started(row, now) else { return };
        let end = ExpectedEnd { job, ..end };
        let node = &board.nodes[found.board_ix];
        let used = found.devices.iter().map(|ix| Use::of(&row.spec.gpus, node, *ix));
        let (board_ix, uses) = (found.board_ix, used.collect());
        let room = Room::needed(fit);
        self.started.push(Ending { end, board_ix, uses, room });
    }

    /// All that is given back on one node, ever, the earliest first.
    pub fn on_node(&self, board: &Board<'_>, board_ix: usize) -> Vec<Ending> {
        let Snapshot { world, now } = self.snapshot;
        let here = board.nodes[board_ix].row.here.iter();
        let ends = here.filter_map(|task| world.expected_end(world.job(task.job)?, now));
        let endings = ends.flat_map(|end| endings(world, board, end));
        let mut endings: Vec<Ending> = endings.filter(|it| it.board_ix == board_ix).collect();
        endings.extend(self.started.iter().filter(|it| it.board_ix == board_ix).cloned());
        endings.sort_by_key(|ending| ending.end);
        // A job with several tasks here stands in `here` with each of them.
        endings.dedup_by(|one, other| one.end == other.end && one.uses == other.uses);
        endings
    }

    /// The earliest start of a job that fits nowhere at once, and what is kept for it until then.
    pub fn plan(
        &mut self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        shape: &Shape,
        (job, attempt): (JobId, Attempt),
        policy: &Policy,
    ) -> Option<(PlannedStart, usize, Keep<'a>)> {
        let seed = place::seed(job, attempt);
        let ask = Ask { shape, policy, seed };
        let may_be_on = |ix: &usize| {
            let node = &board.nodes[*ix].row.node;
            node.takes_work() && shape.fit.may_be_on(node)
        };
        let kept = keeps.nodes().filter(may_be_on);
        let kept = kept.filter_map(|board_ix| self.earliest_on(board, keeps, board_ix, ask));
        let best = kept.min_by_key(Place::key);
        let found = self.earliest_elsewhere(board, keeps, ask, best.as_ref().map(Place::key));
        let place = found.or(best)?;
        let node = &board.nodes[place.board_ix].row.node;
        let share = shape.fit.gpus.share();
        let slots = place.devices.iter().map(|ix| {
            let device = &node.devices[*ix];
            let part = share.map_or(SlotPart::Whole, |share| share.slot_of(device.memory));
            Slot { index: device.index, device: device.uuid.clone(), part }
        });
        let placement = Placement { node: node.name.clone(), slots: slots.collect() };
        let planned =
            PlannedStart { job, at: place.at, placements: vec![placement], basis: place.basis };
        let span = Span::new(place.at, ask.length());
        let on = &board.nodes[place.board_ix];
        let uses = place.devices.iter().map(|ix| Use::of(&shape.fit.gpus, on, *ix)).collect();
        let room = Room::needed(&shape.fit);
        Some((planned, place.board_ix, Keep::Start { job, uses, room, span }))
    }

    /// On a node where something is kept: every moment at which more becomes free is tried.
    fn earliest_on(
        &self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        board_ix: usize,
        ask: Ask<'_>,
    ) -> Option<Place> {
        let now = self.snapshot.now;
        let node = &board.nodes[board_ix];
        let endings = self.on_node(board, board_ix);
        let mut moments: Vec<Timestamp> = endings.iter().map(|ending| ending.end.at).collect();
        moments.push(now);
        // What recurs may come between; twice is looked behind it.
        for _ in 0..2 {
            let more = moments.iter().flat_map(|at| keeps.releases(board_ix, *at));
            let more: Vec<Timestamp> = more.collect();
            moments.extend(more);
            moments.sort_unstable();
            moments.dedup();
        }
        moments.into_iter().find_map(|at| {
            let ended = endings.iter().take_while(|ending| ending.end.at <= at);
            let mut back = GivenBack::default();
            for ending in ended.clone() {
                back.uses.extend(&ending.uses);
                back.room = back.room.more(ending.room);
            }
            if Room::needed(&ask.shape.fit).first_short(node.free.more(back.room)).is_some() {
                return None;
            }
            let span = Span::new(at, ask.length());
            let kept = keeps.kept((board_ix, node), ask.shape, span, &|| endings.clone())?;
            let (rank, devices) = seats_then(board, board_ix, ask, &back.uses, &kept)?;
            let basis = basis(ended, &devices, at > now);
            Some(Place { at, rank, board_ix, devices, basis })
        })
    }

    /// On the other nodes: ends are gone through in order until a job fits, or until `before`.
    fn earliest_elsewhere(
        &mut self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        ask: Ask<'_>,
        before: Option<(Timestamp, usize, usize)>,
    ) -> Option<Place> {
        let mut started: Vec<Ending> = self.started.clone();
        started.sort_by_key(|ending| ending.end);
        let mut started = started.into_iter().peekable();
        let mut back = BTreeMap::<usize, (GivenBack, Vec<Ending>)>::new();
        let mut at_seen = 0;
        loop {
            let next_seen = self.seen(board, at_seen).map(|ending| ending.end.at);
            let next_started = started.peek().map(|ending| ending.end.at);
            let at = next_seen.into_iter().chain(next_started).min()?;
            if before.is_some_and(|(before, ..)| at > before) {
                return None;
            }
            // All that ends at one moment, before anybody is given it.
            let mut touched = Vec::new();
            let mut give_back = |ending: Ending| {
                let (given, endings) = back.entry(ending.board_ix).or_default();
                given.uses.extend(&ending.uses);
                given.room = given.room.more(ending.room);
                touched.push(ending.board_ix);
                endings.push(ending);
            };
            while let Some(ending) = self.seen(board, at_seen).filter(|it| it.end.at == at) {
                give_back(ending.clone());
                at_seen += 1;
            }
            while let Some(ending) = started.next_if(|ending| ending.end.at == at) {
                give_back(ending);
            }
            touched.sort_unstable();
            touched.dedup();
            let open = |ix: &usize| {
                let node = &board.nodes[*ix].row.node;
                node.takes_work() && ask.shape.fit.may_be_on(node) && !keeps.has(*ix)
            };
            let places = touched.into_iter().filter(open).filter_map(|board_ix| {
                let (given, endings) = &back[&board_ix];
                let free = board.nodes[board_ix].free.more(given.room);
                if Room::needed(&ask.shape.fit).first_short(free).is_some() {
                    return None;
                }
                let (rank, devices) = seats_then(board, board_ix, ask, &given.uses, &[])?;
                let basis = basis(endings.iter(), &devices, true);
                Some(Place { at, rank, board_ix, devices, basis })
            });
            if let Some(place) = places.min_by_key(Place::key) {
                return Some(place).filter(|it| before.is_none_or(|before| it.key() < before));
            }
        }
    }

    /// What is given back as the so-manieth.
    fn seen(&mut self, board: &Board<'_>, at: usize) -> Option<&Ending> {
        while self.seen.len() <= at {
            let end = self.coming.next()?;
            self.seen.extend(endings(self.snapshot.world, board, end));
        }
        self.seen.get(at)
    }
}

/// What is given back when a job ends.
fn endings<'b>(
    world: &'b World,
    board: &'b Board<'_>,
    end: ExpectedEnd,
) -> impl Iterator<Item = Ending> + 'b {
    let row = world.job(end.job).expect("only jobs that are there hold something");
    row.job.phase.allocations().iter().filter_map(move |allocation| {
        let board_ix = board.position(world, &allocation.node)?;
        let all = &board.nodes[board_ix].row.node.devices;
        let used = |slot: &Slot| {
            let device_ix = all.iter().position(|device| device.uuid == slot.device)?;
            let memory = slot.part.memory_of(all[device_ix].memory);
            Some(Use { device_ix, memory, is_whole: slot.part == SlotPart::Whole })
        };
        let uses = allocation.slots.iter().filter_map(used).collect();
        Some(Ending { end, board_ix, uses, room: Room::booked(&allocation.resources) })
    })
}

/// Which devices of a node a job would get, those free now and those given back by then, without
/// those that are kept; and which model of its request they are. What will be busy then, and with
/// how much, is not known, so all that can be had count alike.
fn seats_then(
    board: &Board<'_>,
    board_ix: usize,
    ask: Ask<'_>,
    back: &[Use],
    kept: &[usize],
) -> Option<(usize, Vec<usize>)> {
    let node = &board.nodes[board_ix];
    let gpus = &ask.shape.fit.gpus;
    let n_devices = usize::try_from(gpus.n_devices()).ok()?;
    if gpus.share().is_none() && node.n_free + back.len() < n_devices {
        return None;
    }
    let is_free = |ix: usize| {
        kept.binary_search(&ix).is_err()
            && is_open(node, Use::of(gpus, node, ix), back, &[])
            && unusable(node.row, ix).is_none()
    };
    let devices = node.row.node.devices.iter().enumerate();
    let seats: Vec<Seat<'_>> = devices
        .map(|(ix, device)| {
            let is_free = is_free(ix);
            let room = if is_free { device.memory } else { Bytes::ZERO };
            Seat { device, is_free, is_busy: false, room }
        })
        .collect();
    let chosen = seat(&seats, gpus, ask.policy.device_strategy, ask.seed)?;
    let rank = chosen.first().and_then(|ix| gpus.rank_of(&node.row.node.devices[*ix]));
    Some((rank.unwrap_or(0), chosen))
}

/// Whether a start rests on predictions: one of those whose devices it gets, or, where it gets
/// none that is not free already, one of those who make room.
fn basis<'b>(
    ended: impl Iterator<Item = &'b Ending> + Clone,
    devices: &[usize],
    waits: bool,
) -> StartBasis {
    let gives = |ending: &&Ending| ending.uses.iter().any(|it| devices.contains(&it.device_ix));
    let givers = ended.clone().filter(gives);
    let worst = |endings: &mut dyn Iterator<Item = &'b Ending>| {
        endings.map(|ending| ending.end.basis).max()
    };
    let of_devices = worst(&mut givers.into_iter());
    let of_room = || waits.then(|| worst(&mut ended.into_iter())).flatten();
    of_devices.or_else(of_room).unwrap_or(StartBasis::Limit)
}
