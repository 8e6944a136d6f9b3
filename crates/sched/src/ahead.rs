//! The board run forward: what is given back when, and the earliest time and place at which a job
//! can run.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    Attempt, Bytes, Exit, JobId, Millis, Phase, PlannedStart, Policy, Shape, Slot, StartBasis,
    Timestamp,
};
use gpool_node::seating::{Seat, seat};
use gpool_world::{ExpectedEnd, ExpectedEnds, FreedOn, JobRow, Snapshot, World};

use crate::board::Board;
use crate::keep::{Ending, Keep, Keeps, Span, Use, is_open, length};
use crate::place::{self, Found};
use crate::room::Room;
use crate::usable::unusable;

/// What is given back when. Ends are looked at as far as they are asked for, each once in a cycle.
pub(crate) struct Ahead<'a> {
    pub(crate) snapshot: Snapshot<'a>,
    coming: ExpectedEnds<'a>,
    /// Of what held something when the cycle began, the earliest first.
    seen: Vec<Seen<'a>>,
    /// Of what this cycle has decided on: what it started, and what it takes back.
    pub(crate) decided: Vec<Ending>,
    /// What it takes back: ends sooner or later than was expected before.
    leaving: BTreeSet<JobId>,
}

/// An end as it was met.
struct Seen<'a> {
    end: ExpectedEnd,
    freed: &'a [FreedOn],
}

/// When and where on one node a job can run.
pub(crate) struct Place {
    pub at: Timestamp,
    pub rank: usize,
    pub board_ix: usize,
    pub devices: Vec<usize>,
    pub basis: StartBasis,
    /// How many times the node gets what a node gets.
    pub times: u32,
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
pub(crate) struct Ask<'a> {
    pub shape: &'a Shape,
    pub policy: &'a Policy,
    pub seed: u64,
    /// The model of its request, by position, of which its devices must be; `None` is any.
    pub rank: Option<usize>,
    /// How many times it looks for what a node gets on one node.
    pub times: u32,
}

impl Ask<'_> {
    /// What it needs of a node beside devices.
    pub fn needs(&self) -> Room {
        Room::needed(&self.shape.fit).times(self.times)
    }

    pub fn length(&self) -> Option<Millis> {
        length(self.shape)
    }
}

/// What ends on one node up to some moment.
#[derive(Default)]
struct Ended {
    /// Of how many devices something is given back.
    n_devices: usize,
    /// Those of which no more is known yet.
    met: Vec<ExpectedEnd>,
    endings: Vec<Ending>,
    given: GivenBack,
}

impl Ended {
    fn add(&mut self, ending: Ending) {
        self.given.add(&ending);
        self.endings.push(ending);
    }

    /// Looks at what those give back that were met.
    fn look(&mut self, world: &World, board: &Board<'_>, board_ix: usize) {
        for end in std::mem::take(&mut self.met) {
            let here = endings(world, board, end, false).filter(|it| it.board_ix == board_ix);
            here.for_each(|ending| self.add(ending));
        }
    }
}

/// What was given back on one node up to some moment.
#[derive(Default)]
pub(crate) struct GivenBack {
    pub uses: Vec<Use>,
    pub room: Room,
}

impl GivenBack {
    pub fn add(&mut self, ending: &Ending) {
        self.uses.extend(&ending.uses);
        self.room = self.room.more(ending.room);
    }
}

impl<'a> Ahead<'a> {
    pub fn new(snapshot: &Snapshot<'a>) -> Self {
        let coming = snapshot.world.expected_ends(snapshot.now);
        Self {
            snapshot: *snapshot,
            coming,
            seen: Vec::new(),
            decided: Vec::new(),
            leaving: BTreeSet::new(),
        }
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
        let room = found.room(fit);
        self.decided.push(Ending { end, board_ix, uses, room });
    }

    /// A job is taken back in this cycle.
    pub fn take_back(&mut self, board: &Board<'_>, row: &JobRow, exit: Exit) {
        let end = self.snapshot.world.expected_end_if_taken_back(row, exit, self.snapshot.now);
        self.leaving.insert(end.job);
        self.seen.retain(|seen| seen.end.job != end.job);
        let pauses = exit == Exit::Pause;
        self.decided.extend(endings(self.snapshot.world, board, end, pauses));
    }

    /// All that is given back on one node, ever, the earliest first.
    pub fn on_node(&self, board: &Board<'_>, board_ix: usize) -> Vec<Ending> {
        let Snapshot { world, now } = self.snapshot;
        // A job with several tasks here stands in `here` with each of them, one after the other.
        let mut jobs: Vec<JobId> =
            board.nodes[board_ix].row.here.iter().map(|task| task.job).collect();
        jobs.dedup();
        let rows = jobs.into_iter().filter_map(|job| world.job(job));
        let ends = rows.filter_map(|row| world.expected_end(row, now));
        let stays = ends.filter(|end| !self.leaving.contains(&end.job));
        let endings = stays.flat_map(|end| endings(world, board, end, false));
        let mut endings: Vec<Ending> = endings.filter(|it| it.board_ix == board_ix).collect();
        endings.extend(self.decided.iter().filter(|it| it.board_ix == board_ix).cloned());
        endings.sort_by_key(|ending| ending.end);
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
    ) -> Option<(PlannedStart, Vec<(usize, Keep<'a>)>)> {
        let seed = place::seed(job, attempt);
        let ask = Ask { shape, policy, seed, rank: None, times: 1 };
        let places = match place::n_nodes(&shape.fit) {
            1 => vec![self.earliest(board, keeps, ask)?],
            _ => self.earliest_together(board, keeps, ask)?,
        };
        let at = places.first()?.at;
        let basis = places.iter().map(|place| place.basis).max()?;
        let span = Span::new(at, ask.length());
        let gpus = &shape.fit.gpus;
        let kept = places.iter().map(|place| {
            let on = &board.nodes[place.board_ix];
            let uses = place.devices.iter().map(|ix| Use::of(gpus, on, *ix)).collect();
            let room = Room::needed(&shape.fit).times(place.times);
            (place.board_ix, Keep::Start { job, uses, room, span })
        });
        let kept = kept.collect();
        let found = places.into_iter().map(|Place { board_ix, devices, times, .. }| {
            Found::new((board_ix, board.nodes[board_ix].ix), devices, gpus.share(), times)
        });
        let found: Vec<Found> = found.collect();
        let placements = match shape.fit.at.is_empty() {
            true => place::placements(&found, &shape.fit, self.snapshot.world),
            false => shape.fit.at.clone(),
        };
        Some((PlannedStart { job, at, placements, basis }, kept))
    }

    /// The earliest start on one node.
    fn earliest(&mut self, board: &Board<'a>, keeps: &Keeps<'a>, ask: Ask<'_>) -> Option<Place> {
        let kept =
            keeps.nodes(board.nodes.len()).filter(|ix| board.nodes[*ix].takes(&ask.shape.fit));
        let kept = kept.filter_map(|board_ix| self.earliest_on(board, keeps, board_ix, ask));
        let best = kept.min_by_key(Place::key);
        let found = self.earliest_elsewhere(board, keeps, ask, best.as_ref().map(Place::key));
        found.or(best)
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
        moments.into_iter().find_map(|at| self.on_kept(board, keeps, board_ix, ask, &endings, at))
    }

    /// The place on a node where something is kept, at a moment. `endings` are those of the node.
    pub(crate) fn on_kept(
        &self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        board_ix: usize,
        ask: Ask<'_>,
        endings: &[Ending],
        at: Timestamp,
    ) -> Option<Place> {
        let node = &board.nodes[board_ix];
        let ended = endings.iter().take_while(|ending| ending.end.at <= at);
        let mut back = GivenBack::default();
        ended.clone().for_each(|ending| back.add(ending));
        if ask.needs().first_short(node.free.more(back.room)).is_some() {
            return None;
        }
        let span = Span::new(at, ask.length());
        let asks = (ask.shape, ask.needs());
        let kept = keeps.kept((board_ix, node), asks, span, &|| endings.to_vec())?;
        let (rank, devices) = seats_then(board, board_ix, ask, &back.uses, &kept)?;
        let basis = basis(ended, &devices, at > self.snapshot.now);
        Some(Place { at, rank, board_ix, devices, basis, times: ask.times })
    }

    /// On the other nodes: ends are gone through in order until a job fits, or until `before`.
    fn earliest_elsewhere(
        &mut self,
        board: &Board<'a>,
        keeps: &Keeps<'a>,
        ask: Ask<'_>,
        before: Option<(Timestamp, usize, usize)>,
    ) -> Option<Place> {
        let mut decided: Vec<Ending> = self.decided.clone();
        decided.sort_by_key(|ending| ending.end);
        let mut decided = decided.into_iter().peekable();
        let world = self.snapshot.world;
        let n_least = match ask.shape.fit.gpus.share() {
            None => place::n_devices_on_node(&ask.shape.fit),
            Some(_) => 0,
        };
        let mut back = BTreeMap::<usize, Ended>::new();
        let mut at_seen = 0;
        loop {
            let next_seen = self.seen(at_seen).map(|(end, _)| end.at);
            let next_decided = decided.peek().map(|ending| ending.end.at);
            let at = next_seen.into_iter().chain(next_decided).min()?;
            if before.is_some_and(|(before, ..)| at > before) {
                return None;
            }
            // All that ends at one moment, before anybody is given it.
            let mut touched = Vec::new();
            while let Some((end, freed)) = self.seen(at_seen).filter(|(end, _)| end.at == at) {
                for (board_ix, n_devices) in freed.iter().map(|it| board.freed(*it)) {
                    let ended = back.entry(board_ix).or_default();
                    ended.n_devices += n_devices;
                    // A job with several tasks on a node is met once.
                    if ended.met.last() != Some(&end) {
                        ended.met.push(end);
                    }
                    touched.push(board_ix);
                }
                at_seen += 1;
            }
            while let Some(ending) = decided.next_if(|ending| ending.end.at == at) {
                let ended = back.entry(ending.board_ix).or_default();
                ended.n_devices += ending.uses.len();
                touched.push(ending.board_ix);
                ended.add(ending);
            }
            touched.sort_unstable();
            touched.dedup();
            let open = |ix: &usize| {
                let node = &board.nodes[*ix].row.node;
                node.takes_work() && ask.shape.fit.may_be_on(node) && !keeps.has(*ix)
            };
            let places = touched.into_iter().filter(open).filter_map(|board_ix| {
                let ended = back.get_mut(&board_ix)?;
                let node = &board.nodes[board_ix];
                if node.n_free + ended.n_devices < n_least {
                    return None;
                }
                ended.look(world, board, board_ix);
                let free = node.free.more(ended.given.room);
                if ask.needs().first_short(free).is_some() {
                    return None;
                }
                let (rank, devices) = seats_then(board, board_ix, ask, &ended.given.uses, &[])?;
                let basis = basis(ended.endings.iter(), &devices, true);
                Some(Place { at, rank, board_ix, devices, basis, times: ask.times })
            });
            if let Some(place) = first_best(places) {
                return Some(place).filter(|it| before.is_none_or(|before| it.key() < before));
            }
        }
    }

    /// Who ends as the so-manieth, and where that frees something.
    pub(crate) fn seen(&mut self, at: usize) -> Option<(ExpectedEnd, &'a [FreedOn])> {
        while self.seen.len() <= at {
            let leaving = &self.leaving;
            let (end, freed) = self.coming.find(|(end, _)| !leaving.contains(&end.job))?;
            self.seen.push(Seen { end, freed });
        }
        self.seen.get(at).map(|seen| (seen.end, seen.freed))
    }

    /// What is given back then.
    pub(crate) fn given_back(&self, board: &Board<'_>, end: ExpectedEnd) -> Vec<Ending> {
        endings(self.snapshot.world, board, end, false).collect()
    }
}

/// The best of places of one moment, by the position of their nodes: none is better than the first
/// with the model that was asked for first.
fn first_best(places: impl Iterator<Item = Place>) -> Option<Place> {
    let mut best: Option<Place> = None;
    for place in places {
        let is_first = place.rank == 0;
        if best.as_ref().is_none_or(|best| place.rank < best.rank) {
            best = Some(place);
        }
        if is_first {
            break;
        }
    }
    best
}

/// What is given back when a job ends, or stops where it is: then it keeps its memory.
fn endings<'b>(
    world: &'b World,
    board: &'b Board<'_>,
    end: ExpectedEnd,
    pauses: bool,
) -> impl Iterator<Item = Ending> + 'b {
    let row = world.job(end.job).expect("only jobs that are there hold something");
    let pauses = pauses || matches!(row.job.phase, Phase::Paused { .. });
    let keeps = if pauses { Room::booked_paused(&row.spec) } else { Room::default() };
    row.job.phase.allocations().iter().filter_map(move |allocation| {
        let board_ix = board.position(world, &allocation.node)?;
        let all = &board.nodes[board_ix].row.node.devices;
        let used = |slot: &Slot| {
            let device_ix = all.iter().position(|device| device.uuid == slot.device)?;
            let memory = slot.part.memory_of(all[device_ix].memory);
            Some(Use { device_ix, memory, is_whole: slot.part.is_alone() })
        };
        let uses = allocation.held_slots().iter().filter_map(used).collect();
        let room = Room::booked(allocation).less(keeps);
        Some(Ending { end, board_ix, uses, room })
    })
}

/// Which devices of a node a job would get, those free now and those given back by then, without
/// those that are kept; and which model of its request they are. What will be busy then, and with
/// how much, is not known, so all that can be had count alike.
pub(crate) fn seats_then(
    board: &Board<'_>,
    board_ix: usize,
    ask: Ask<'_>,
    back: &[Use],
    kept: &[usize],
) -> Option<(usize, Vec<usize>)> {
    let node = &board.nodes[board_ix];
    let gpus = &ask.shape.fit.gpus_on_node(ask.times);
    let n_devices = usize::try_from(gpus.n_devices()).unwrap_or(usize::MAX);
    if gpus.share().is_none() && node.n_free + back.len() < n_devices {
        return None;
    }
    let is_free = |ix: usize| {
        kept.binary_search(&ix).is_err()
            && ask.shape.fit.may_have(&node.row.node, &node.row.node.devices[ix].uuid)
            && is_open(node, Use::of(gpus, node, ix), back, &[])
            && unusable(node.row, ix).is_none()
    };
    let devices = node.row.node.devices.iter().enumerate();
    let mut seats: Vec<Seat<'_>> = devices
        .map(|(ix, device)| {
            let is_free = is_free(ix);
            let room = if is_free { device.memory } else { Bytes::ZERO };
            Seat { device, is_free, is_busy: false, room }
        })
        .collect();
    if let Some(rank) = ask.rank {
        place::only_of_rank(&mut seats, gpus, rank);
    }
    let chosen = seat(&seats, gpus, ask.policy.device_strategy, ask.seed)?;
    let rank = chosen.first().and_then(|ix| gpus.rank_of(&node.row.node.devices[*ix]));
    Some((rank.unwrap_or(0), chosen))
}

/// Whether a start rests on predictions: one of those whose devices it gets, or, where it gets
/// none that is not free already, one of those who make room.
pub(crate) fn basis<'b>(
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
