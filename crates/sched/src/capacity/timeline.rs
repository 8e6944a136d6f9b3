//! The availability timeline: which capacity departures free when, and the earliest time and place
//! at which a demand fits.

mod gang;
mod parts;

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use gpool_model::{Exit, JobId, Phase, PlannedStart, Shape, StartBasis, Timestamp};
use gpool_world::{ExpectedEnd, ExpectedEnds, FreedOn, JobRow, NodeIx, Snapshot, World};

use super::cluster::Capacity;
use super::demand::Demand;
use super::departures::{Departure, DeviceUse, Freed, NodeHoldings};
use super::fits::{Candidate, Departures};
use super::holds::{Hold, Holds};
use super::host_resources::HostResources;
use super::placed::Placed;

/// Expected departures. They are read only as far as they are needed, each once in a cycle.
#[derive(Clone)]
pub(crate) struct Timeline<'a> {
    snapshot: Snapshot<'a>,
    coming: ExpectedEnds<'a>,
    /// Departures of jobs that held something when the cycle began, the earliest first.
    fetched_ends: Vec<(ExpectedEnd, &'a [FreedOn])>,
    /// Departures that this cycle decided: of jobs that it started or evicted.
    decided: Vec<Departure>,
    /// Evicted jobs: they leave at another time than was expected.
    leaving: BTreeSet<JobId>,
}

/// The earliest start of a job, with the capacity to hold for it.
pub(crate) struct Planned<'a> {
    pub start: PlannedStart,
    /// By position of the node.
    pub holds: Vec<(usize, Hold<'a>)>,
}

/// A search for the earliest start: the demand, and the capacity and holds of the present plan.
#[derive(Clone, Copy)]
struct StartSearch<'a, 'b> {
    capacity: &'b Capacity<'a>,
    holds: &'b Holds<'a>,
    demand: Demand<'b>,
}

/// When and where on one node a job can run.
struct StartCandidate {
    at: Timestamp,
    /// The model of the request, by position.
    rank: usize,
    basis: StartBasis,
    placed: Placed,
}

impl StartCandidate {
    /// Earlier first, then the model that the request names first, then the lower node name.
    fn key(&self) -> (Timestamp, usize, usize) {
        (self.at, self.rank, self.placed.node_pos)
    }
}

/// Departures from one node up to some time, and the capacity that they free together.
#[derive(Default)]
struct NodeDepartures {
    /// Number of devices that they free a part of.
    n_devices: usize,
    /// Departures that are not computed yet.
    unread: Vec<ExpectedEnd>,
    departures: Vec<Departure>,
    freed: Freed,
}

impl NodeDepartures {
    fn add(&mut self, departure: Departure) {
        self.freed.add(&departure.held);
        self.departures.push(departure);
    }
}

/// The departures that a search has passed on its way forward in time.
struct Passed {
    n_seen: usize,
    decided: Peekable<IntoIter<Departure>>,
    /// The first has no departures.
    ended: Vec<NodeDepartures>,
    /// By position of the node: the position in `ended`. Most searches pass departures from few of
    /// many nodes.
    by_node: Vec<usize>,
}

impl Passed {
    fn new(timeline: &Timeline<'_>, n_nodes: usize) -> Self {
        let mut decided = timeline.decided.clone();
        decided.sort_by_key(|departure| departure.end);
        let (ended, by_node) = (Vec::from([NodeDepartures::default()]), vec![0; n_nodes]);
        Self { n_seen: 0, decided: decided.into_iter().peekable(), ended, by_node }
    }

    /// The passed departures from a node.
    fn on_node(&self, node_pos: usize) -> &NodeDepartures {
        &self.ended[self.by_node[node_pos]]
    }

    fn on_node_mut(&mut self, node_pos: usize) -> &mut NodeDepartures {
        let ix = &mut self.by_node[node_pos];
        if *ix == 0 {
            *ix = self.ended.len();
            self.ended.push(NodeDepartures::default());
        }
        &mut self.ended[*ix]
    }

    /// Computes what the passed departures free on a node; `None` if it has too few devices then.
    fn read(
        &mut self,
        world: &World,
        search: StartSearch<'_, '_>,
        node_pos: usize,
    ) -> Option<&NodeDepartures> {
        let (capacity, ended) = (search.capacity, self.on_node_mut(node_pos));
        if capacity.nodes[node_pos].n_free + ended.n_devices < search.demand.n_free_least() {
            return None;
        }
        for end in std::mem::take(&mut ended.unread) {
            departures(world, capacity, end, false, Some(node_pos)).for_each(|it| ended.add(it));
        }
        Some(ended)
    }

    /// The time of the next departure.
    fn next_at(&mut self, timeline: &mut Timeline<'_>) -> Option<Timestamp> {
        let seen = timeline.nth_end(self.n_seen).map(|(end, _)| end.at);
        let decided = self.decided.peek().map(|departure| departure.end.at);
        seen.into_iter().chain(decided).min()
    }

    /// Passes all departures at one time. Returns the nodes that jobs leave, by position,
    /// ascending.
    fn pass(
        &mut self,
        timeline: &mut Timeline<'_>,
        capacity: &Capacity<'_>,
        at: Timestamp,
    ) -> Vec<usize> {
        let mut touched = Vec::new();
        while let Some((end, freed)) = timeline.nth_end(self.n_seen).filter(|(end, _)| end.at == at)
        {
            for FreedOn { node: NodeIx(ix), n_devices } in freed {
                let node_pos = capacity.by_ix[*ix];
                let ended = self.on_node_mut(node_pos);
                ended.n_devices += n_devices;
                // A job with several tasks on a node is read once.
                if ended.unread.last() != Some(&end) {
                    ended.unread.push(end);
                }
                touched.push(node_pos);
            }
            self.n_seen += 1;
        }
        while let Some(departure) = self.decided.next_if(|departure| departure.end.at == at) {
            touched.push(departure.node_pos);
            let ended = self.on_node_mut(departure.node_pos);
            ended.n_devices += departure.held.uses.len();
            ended.add(departure);
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }
}

impl<'a> Timeline<'a> {
    pub fn new(snapshot: &Snapshot<'a>) -> Self {
        Self {
            snapshot: *snapshot,
            coming: snapshot.world.expected_ends(snapshot.now),
            fetched_ends: Vec::new(),
            decided: Vec::new(),
            leaving: BTreeSet::new(),
        }
    }

    /// Adds the departure of a job that this cycle started. `row` stands for it in the queue.
    pub fn start(
        &mut self,
        capacity: &Capacity<'_>,
        job: JobId,
        row: &JobRow,
        shape: &Shape,
        placed: &Placed,
    ) {
        let Snapshot { world, now } = self.snapshot;
        let Some(end) = world.expected_end_if_started(row, now) else { return };
        let end = ExpectedEnd { job, ..end };
        let held = held(capacity, job, shape, placed);
        self.decided.push(Departure { end, node_pos: placed.node_pos, held });
    }

    /// Adds the departure of what a paused job keeps on its nodes: it has that until it ends, if
    /// this cycle starts it. If it `resumes` at once, the capacity already has the memory that held
    /// its GPU memory.
    pub fn start_paused(&mut self, capacity: &Capacity<'_>, row: &JobRow, resumes: bool) {
        let Snapshot { world, now } = self.snapshot;
        let Some(end) = world.expected_end_if_started(row, now) else { return };
        let end = ExpectedEnd { job: row.job.id, ..end };
        let departures = row.job.phase.allocations().iter().filter_map(|allocation| {
            let node_pos = capacity.position(world, &allocation.node)?;
            let mut held =
                NodeHoldings { host: HostResources::booked(allocation), ..NodeHoldings::default() };
            if resumes {
                held.host = held.host.less(HostResources::until_resumed(allocation));
            }
            Some(Departure { end, node_pos, held })
        });
        self.decided.extend(departures);
    }

    /// Changes the departure of a job that this cycle evicts.
    pub fn evict(&mut self, capacity: &Capacity<'_>, row: &JobRow, exit: Exit) {
        let world = self.snapshot.world;
        let end = world.expected_end_if_taken_back(row, exit, self.snapshot.now);
        self.leaving.insert(end.job);
        self.fetched_ends.retain(|(seen, _)| seen.job != end.job);
        // The capacity already lacks the memory that a pause needs.
        let given = |mut it: Departure| {
            it.held.host = it.held.host.less(it.held.host.below_zero());
            it
        };
        let pauses = exit == Exit::Pause;
        self.decided.extend(departures(world, capacity, end, pauses, None).map(given));
    }

    /// All departures from one node, the earliest first.
    pub fn on_node(&self, capacity: &Capacity<'_>, node_pos: usize) -> Vec<Departure> {
        let Snapshot { world, now } = self.snapshot;
        let rows = capacity.nodes[node_pos].jobs().filter_map(|job| world.job(job));
        let ends = rows.filter_map(|row| world.expected_end(row, now));
        let stays = ends.filter(|end| !self.leaving.contains(&end.job));
        let mut departures: Vec<Departure> =
            stays.flat_map(|end| departures(world, capacity, end, false, Some(node_pos))).collect();
        departures.extend(self.decided.iter().filter(|it| it.node_pos == node_pos).cloned());
        departures.sort_by_key(|departure| departure.end);
        departures
    }

    /// Returns the earliest start of a job that fits nowhere now.
    pub fn plan(
        &mut self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        demand: Demand<'_>,
        job: JobId,
    ) -> Option<Planned<'a>> {
        let shape = demand.shape;
        let search = StartSearch { capacity, holds, demand };
        let places = match demand.is_of_one_node() {
            true => vec![self.earliest(search)?],
            false => self.earliest_gang(search)?,
        };
        let at = places.first()?.at;
        let basis = places.iter().map(|place| place.basis).max()?;
        let run = demand.run(at);
        let placed: Vec<Placed> = places.into_iter().map(|place| place.placed).collect();
        let hold = |it: &Placed| {
            (it.node_pos, Hold::Start { job, held: held(capacity, job, shape, it), run })
        };
        let holds = placed.iter().map(hold).collect();
        let placements = match shape.fit.at.is_empty() {
            true => capacity.placements(&placed, &shape.fit),
            false => shape.fit.at.clone(),
        };
        Some(Planned { start: PlannedStart { job, at, placements, basis }, holds })
    }

    /// The earliest start on one node.
    fn earliest(&mut self, search: StartSearch<'a, '_>) -> Option<StartCandidate> {
        let held = search.held_nodes().filter_map(|node_pos| self.earliest_on(search, node_pos));
        let best = held.min_by_key(StartCandidate::key);
        let found = self.earliest_elsewhere(search, best.as_ref().map(StartCandidate::key));
        found.or(best)
    }

    /// On a node with holds: tries every time at which more becomes free.
    fn earliest_on(&self, search: StartSearch<'a, '_>, node_pos: usize) -> Option<StartCandidate> {
        let departures = self.on_node(search.capacity, node_pos);
        let mut times: Vec<Timestamp> = departures.iter().map(|it| it.end.at).collect();
        times.push(self.snapshot.now);
        // Holds recur, so the releases after each time are added twice.
        for _ in 0..2 {
            let more: Vec<Timestamp> =
                times.iter().flat_map(|at| search.holds.releases(node_pos, *at)).collect();
            times.extend(more);
            times.sort_unstable();
            times.dedup();
        }
        times.into_iter().find_map(|at| self.on_held(search, node_pos, &departures, at))
    }

    /// The place on a node with holds at a time. `departures` are all from the node.
    fn on_held(
        &self,
        search: StartSearch<'a, '_>,
        node_pos: usize,
        departures: &[Departure],
        at: Timestamp,
    ) -> Option<StartCandidate> {
        let n_ended = departures.iter().take_while(|departure| departure.end.at <= at).count();
        let ended = &departures[..n_ended];
        let mut freed = Freed::default();
        ended.iter().for_each(|departure| freed.add(&departure.held));
        let is_later = at > self.snapshot.now;
        search.place(node_pos, at, &|| departures.to_vec(), &freed, ended, is_later)
    }

    /// On nodes without holds: follows the departures in order until the demand fits, or until
    /// `before`.
    fn earliest_elsewhere(
        &mut self,
        search: StartSearch<'a, '_>,
        before: Option<(Timestamp, usize, usize)>,
    ) -> Option<StartCandidate> {
        let capacity = search.capacity;
        let mut passed = Passed::new(self, capacity.nodes.len());
        loop {
            let at = passed.next_at(self)?;
            if before.is_some_and(|(before, ..)| at > before) {
                return None;
            }
            // All departures at one time are passed before the demand is tried.
            let touched = passed.pass(self, capacity, at);
            let places = touched.into_iter().filter(|it| search.is_open(*it)).filter_map(|it| {
                let ended = passed.read(self.snapshot.world, search, it)?;
                search.place(it, at, &Vec::new, &ended.freed, &ended.departures, true)
            });
            if let Some(place) = first_best(places) {
                return Some(place).filter(|it| before.is_none_or(|before| it.key() < before));
            }
        }
    }

    /// The departure at a position in time order, and where it frees something.
    fn nth_end(&mut self, at: usize) -> Option<(ExpectedEnd, &'a [FreedOn])> {
        while self.fetched_ends.len() <= at {
            let leaving = &self.leaving;
            self.fetched_ends.push(self.coming.find(|(end, _)| !leaving.contains(&end.job))?);
        }
        self.fetched_ends.get(at).copied()
    }
}

impl<'a> StartSearch<'a, '_> {
    /// Nodes with holds that take the demand.
    fn held_nodes(&self) -> impl Iterator<Item = usize> {
        let Self { capacity, holds, .. } = self;
        let all = holds.nodes(capacity.nodes.len());
        all.filter(|node_pos| capacity.nodes[*node_pos].takes(self.demand.fit()))
    }

    /// Whether a node has no holds and takes the demand.
    fn is_open(&self, node_pos: usize) -> bool {
        !self.holds.has(node_pos) && self.capacity.nodes[node_pos].takes(self.demand.fit())
    }

    /// The place on a node once the departures `ended` have happened; `all` are all from the node.
    fn place(
        &self,
        node_pos: usize,
        at: Timestamp,
        all: &dyn Fn() -> Vec<Departure>,
        freed: &Freed,
        ended: &[Departure],
        is_later: bool,
    ) -> Option<StartCandidate> {
        let Self { capacity, holds, demand } = *self;
        let node = &capacity.nodes[node_pos];
        if !node.may_fit(&demand, freed) {
            return None;
        }
        let candidate = Candidate::new((capacity, holds), node_pos, demand, at, all)?;
        let placed = candidate.place(Departures::Expected(freed))?;
        let devices = &node.row.node.devices;
        let gpus = &demand.fit().gpus;
        let rank = placed.devices.first().and_then(|ix| gpus.rank_of(&devices[*ix]));
        let basis = basis(ended, &placed.devices, is_later);
        Some(StartCandidate { at, rank: rank.unwrap_or(0), basis, placed })
    }
}

/// The best of the places at one time, by the position of their nodes: none is better than the
/// first with the model that the request names first.
fn first_best(places: impl Iterator<Item = StartCandidate>) -> Option<StartCandidate> {
    let mut best: Option<StartCandidate> = None;
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

/// What a job has at a place.
fn held(capacity: &Capacity<'_>, job: JobId, shape: &Shape, placed: &Placed) -> NodeHoldings {
    let devices = &capacity.nodes[placed.node_pos].row.node.devices;
    let of = |ix: &usize| DeviceUse {
        job: Some(job),
        ..DeviceUse::of(&shape.fit.gpus, *ix, &devices[*ix])
    };
    let (host, sharer) = (placed.host(&shape.fit), shape.fit.sharer.clone());
    NodeHoldings { uses: placed.devices.iter().map(of).collect(), host, sharer }
}

/// What a job gives back when it ends, or is paused, on all its nodes or on one.
fn departures<'b>(
    world: &'b World,
    capacity: &'b Capacity<'_>,
    end: ExpectedEnd,
    pauses: bool,
    only: Option<usize>,
) -> impl Iterator<Item = Departure> + 'b {
    let row = world.job(end.job).expect("a job that holds something is in the world");
    // Only a paused job keeps host resources.
    let is_paused = pauses || matches!(row.job.phase, Phase::Paused { .. });
    row.job.phase.allocations().iter().filter_map(move |allocation| {
        let node_pos = capacity.position(world, &allocation.node)?;
        if only.is_some_and(|only| only != node_pos) {
            return None;
        }
        let mut held = NodeHoldings::default();
        let node = &capacity.nodes[node_pos].row.node;
        held.add(allocation, node, is_paused.then_some(&*row.spec));
        Some(Departure { end, node_pos, held })
    })
}

/// The basis of a start: the worst basis of the departures that free its devices, or, if all of
/// these are free already, of the departures that free host resources.
fn basis(ended: &[Departure], devices: &[usize], is_later: bool) -> StartBasis {
    let gives = |it: &&Departure| it.held.uses.iter().any(|it| devices.contains(&it.device_ix));
    let of_devices = ended.iter().filter(gives).map(|it| it.end.basis).max();
    let of_host = || ended.iter().map(|it| it.end.basis).max().filter(|_| is_later);
    of_devices.or_else(of_host).unwrap_or(StartBasis::Limit)
}
