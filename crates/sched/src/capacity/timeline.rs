//! The availability timeline: which capacity departures free when, and the earliest time and place
//! at which a demand fits.

mod gang;

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    Attempt, Exit, JobId, Phase, PlannedStart, Policy, Shape, Slot, StartBasis, Timestamp,
};
use gpool_world::{ExpectedEnd, ExpectedEnds, FreedOn, JobRow, Snapshot, World};

use super::cluster::Capacity;
use super::demand::{Demand, seed};
use super::fits::{Candidate, Departures, Freed};
use super::holds::{Departure, DeviceUse, Hold, Holds};
use super::host_resources::HostResources;
use super::placed::{Placed, placements};

/// Expected departures. They are read only as far as they are needed, each once in a cycle.
pub(crate) struct Timeline<'a> {
    snapshot: Snapshot<'a>,
    coming: ExpectedEnds<'a>,
    /// Departures of jobs that held something when the cycle began, the earliest first.
    seen: Vec<Seen<'a>>,
    /// Departures that this cycle decided: of jobs that it started or evicted.
    decided: Vec<Departure>,
    /// Evicted jobs: they leave at another time than was expected.
    leaving: BTreeSet<JobId>,
}

/// A departure as it was read.
struct Seen<'a> {
    end: ExpectedEnd,
    freed: &'a [FreedOn],
}

/// When and where on one node a job can run.
pub(super) struct Place {
    at: Timestamp,
    /// The model of the request, by position.
    rank: usize,
    basis: StartBasis,
    placed: Placed,
}

impl Place {
    /// Earlier first, then the model that the request names first, then the lower node name.
    fn key(&self) -> (Timestamp, usize, usize) {
        (self.at, self.rank, self.placed.node_pos)
    }
}

/// Departures from one node up to some time.
#[derive(Default)]
struct Ended {
    /// Number of devices that they free a part of.
    n_devices: usize,
    /// Departures that are not worked out yet.
    met: Vec<ExpectedEnd>,
    known: Known,
}

impl Ended {
    /// Works out what the departures free that were met.
    fn work_out(&mut self, world: &World, capacity: &Capacity<'_>, node_pos: usize) {
        for end in std::mem::take(&mut self.met) {
            let here = departures(world, capacity, end, false).filter(|it| it.node_pos == node_pos);
            here.for_each(|departure| self.known.add(departure));
        }
    }
}

/// Departures from one node, and the capacity that they free together.
#[derive(Default)]
struct Known {
    departures: Vec<Departure>,
    freed: Freed,
}

impl Known {
    fn add(&mut self, departure: Departure) {
        self.freed.add(&departure);
        self.departures.push(departure);
    }
}

impl<'a> Timeline<'a> {
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

    /// Adds the departure of a job that this cycle started.
    pub fn start(
        &mut self,
        capacity: &Capacity<'_>,
        (job, row): (JobId, &JobRow),
        fit: &Fit,
        found: &Placed,
    ) {
        let Snapshot { world, now } = self.snapshot;
        let Some(end) = world.expected_end_if_started(row, now) else { return };
        let end = ExpectedEnd { job, ..end };
        let node = &capacity.nodes[found.node_pos];
        let used = found.devices.iter().map(|ix| DeviceUse::of(&row.spec.gpus, node, *ix));
        let (node_pos, uses) = (found.node_pos, used.collect());
        let room = found.host(fit);
        self.decided.push(Departure { end, node_pos, uses, room });
    }

    /// Changes the departure of a job that this cycle evicts.
    pub fn take_back(&mut self, capacity: &Capacity<'_>, row: &JobRow, exit: Exit) {
        let end = self.snapshot.world.expected_end_if_taken_back(row, exit, self.snapshot.now);
        self.leaving.insert(end.job);
        self.seen.retain(|seen| seen.end.job != end.job);
        let pauses = exit == Exit::Pause;
        self.decided.extend(departures(self.snapshot.world, capacity, end, pauses));
    }

    /// All departures from one node, the earliest first.
    pub fn on_node(&self, capacity: &Capacity<'_>, node_pos: usize) -> Vec<Departure> {
        let Snapshot { world, now } = self.snapshot;
        // A job with several tasks here stands in `here` with each of them, one after the other.
        let mut jobs: Vec<JobId> =
            capacity.nodes[node_pos].row.here.iter().map(|task| task.job).collect();
        jobs.dedup();
        let rows = jobs.into_iter().filter_map(|job| world.job(job));
        let ends = rows.filter_map(|row| world.expected_end(row, now));
        let stays = ends.filter(|end| !self.leaving.contains(&end.job));
        let departures = stays.flat_map(|end| departures(world, capacity, end, false));
        let mut departures: Vec<Departure> =
            departures.filter(|it| it.node_pos == node_pos).collect();
        departures.extend(self.decided.iter().filter(|it| it.node_pos == node_pos).cloned());
        departures.sort_by_key(|departure| departure.end);
        departures
    }

    /// Returns the earliest start of a job that fits nowhere now, and the holds for it.
    pub fn plan(
        &mut self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        shape: &Shape,
        (job, attempt): (JobId, Attempt),
        policy: &Policy,
    ) -> Option<(PlannedStart, Vec<(usize, Hold<'a>)>)> {
        let demand = Demand::new(shape, policy, seed(job, attempt));
        let places = match demand.is_of_one_node() {
            true => vec![self.earliest(capacity, holds, demand)?],
            false => self.earliest_gang(capacity, holds, demand)?,
        };
        let at = places.first()?.at;
        let basis = places.iter().map(|place| place.basis).max()?;
        let span = demand.span(at);
        let placed: Vec<Placed> = places.into_iter().map(|place| place.placed).collect();
        let held = placed.iter().map(|it| {
            let node = &capacity.nodes[it.node_pos];
            let used = it.devices.iter().map(|ix| DeviceUse::of(&shape.fit.gpus, node, *ix));
            let room = it.host(&shape.fit);
            (it.node_pos, Hold::Start { job, uses: used.collect(), room, span })
        });
        let held = held.collect();
        let placements = match shape.fit.at.is_empty() {
            true => placements(&placed, &shape.fit, self.snapshot.world),
            false => shape.fit.at.clone(),
        };
        Some((PlannedStart { job, at, placements, basis }, held))
    }

    /// The earliest start on one node.
    fn earliest(
        &mut self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        demand: Demand<'_>,
    ) -> Option<Place> {
        let held = holds.nodes(capacity.nodes.len());
        let held = held.filter(|node_pos| capacity.nodes[*node_pos].takes(demand.fit()));
        let held = held.filter_map(|node_pos| self.earliest_on(capacity, holds, node_pos, demand));
        let best = held.min_by_key(Place::key);
        let found = self.earliest_elsewhere(capacity, holds, demand, best.as_ref().map(Place::key));
        found.or(best)
    }

    /// On a node with holds: every time at which more becomes free is tried.
    fn earliest_on(
        &self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        node_pos: usize,
        demand: Demand<'_>,
    ) -> Option<Place> {
        let departures = self.on_node(capacity, node_pos);
        let mut times: Vec<Timestamp> = departures.iter().map(|it| it.end.at).collect();
        times.push(self.snapshot.now);
        // Holds recur, so the releases after each time are added twice.
        for _ in 0..2 {
            let more: Vec<Timestamp> =
                times.iter().flat_map(|at| holds.releases(node_pos, *at)).collect();
            times.extend(more);
            times.sort_unstable();
            times.dedup();
        }
        let on_held = |at| self.on_held(capacity, holds, node_pos, demand, &departures, at);
        times.into_iter().find_map(on_held)
    }

    /// The place on a node with holds at a time. `departures` are all from the node.
    fn on_held(
        &self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        node_pos: usize,
        demand: Demand<'_>,
        departures: &[Departure],
        at: Timestamp,
    ) -> Option<Place> {
        let ended = departures.iter().take_while(|departure| departure.end.at <= at);
        let mut freed = Freed::default();
        ended.clone().for_each(|departure| freed.add(departure));
        let on = (node_pos, capacity);
        if !capacity.nodes[node_pos].may_fit(&demand, &freed) {
            return None;
        }
        let candidate = Candidate::new(demand, on, at, holds, &|| departures.to_vec())?;
        let waits = at > self.snapshot.now;
        place_then(capacity, &candidate, (&freed, ended), (at, waits))
    }

    /// On nodes without holds: follows the departures in order until the demand fits, or until
    /// `before`.
    fn earliest_elsewhere(
        &mut self,
        capacity: &Capacity<'a>,
        holds: &Holds<'a>,
        demand: Demand<'_>,
        before: Option<(Timestamp, usize, usize)>,
    ) -> Option<Place> {
        let mut decided: Vec<Departure> = self.decided.clone();
        decided.sort_by_key(|departure| departure.end);
        let mut decided = decided.into_iter().peekable();
        let world = self.snapshot.world;
        let mut ended_on = BTreeMap::<usize, Ended>::new();
        let mut at_seen = 0;
        loop {
            let next_seen = self.seen(at_seen).map(|(end, _)| end.at);
            let next_decided = decided.peek().map(|departure| departure.end.at);
            let at = next_seen.into_iter().chain(next_decided).min()?;
            if before.is_some_and(|(before, ..)| at > before) {
                return None;
            }
            // All departures at one time, before the demand is tried.
            let mut touched = Vec::new();
            while let Some((end, freed)) = self.seen(at_seen).filter(|(end, _)| end.at == at) {
                for (node_pos, n_devices) in freed.iter().map(|it| capacity.freed(*it)) {
                    let ended = ended_on.entry(node_pos).or_default();
                    ended.n_devices += n_devices;
                    // A job with several tasks on a node is met once.
                    if ended.met.last() != Some(&end) {
                        ended.met.push(end);
                    }
                    touched.push(node_pos);
                }
                at_seen += 1;
            }
            while let Some(departure) = decided.next_if(|departure| departure.end.at == at) {
                let ended = ended_on.entry(departure.node_pos).or_default();
                ended.n_devices += departure.uses.len();
                touched.push(departure.node_pos);
                ended.known.add(departure);
            }
            touched.sort_unstable();
            touched.dedup();
            let is_open = |node_pos: &usize| {
                !holds.has(*node_pos) && capacity.nodes[*node_pos].takes(demand.fit())
            };
            let places = touched.into_iter().filter(is_open).filter_map(|node_pos| {
                let ended = ended_on.get_mut(&node_pos)?;
                if capacity.nodes[node_pos].n_free + ended.n_devices < demand.n_free_least() {
                    return None;
                }
                ended.work_out(world, capacity, node_pos);
                let Known { departures, freed } = &ended.known;
                if !capacity.nodes[node_pos].may_fit(&demand, freed) {
                    return None;
                }
                let candidate = Candidate::new(demand, (node_pos, capacity), at, holds, &Vec::new)?;
                place_then(capacity, &candidate, (freed, departures.iter()), (at, true))
            });
            if let Some(place) = first_best(places) {
                return Some(place).filter(|it| before.is_none_or(|before| it.key() < before));
            }
        }
    }

    /// The departure at a position in time order, and where it frees something.
    fn seen(&mut self, at: usize) -> Option<(ExpectedEnd, &'a [FreedOn])> {
        while self.seen.len() <= at {
            let leaving = &self.leaving;
            let (end, freed) = self.coming.find(|(end, _)| !leaving.contains(&end.job))?;
            self.seen.push(Seen { end, freed });
        }
        self.seen.get(at).map(|seen| (seen.end, seen.freed))
    }

    /// What a departure frees, by node.
    fn given_back(&self, capacity: &Capacity<'_>, end: ExpectedEnd) -> Vec<Departure> {
        departures(self.snapshot.world, capacity, end, false).collect()
    }
}

/// The best of the places at one time, by the position of their nodes: none is better than the
/// first with the model that the request names first.
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

/// What a job gives back when it ends. A job that pauses keeps its host memory.
fn departures<'b>(
    world: &'b World,
    capacity: &'b Capacity<'_>,
    end: ExpectedEnd,
    pauses: bool,
) -> impl Iterator<Item = Departure> + 'b {
    let row = world.job(end.job).expect("only jobs that are there hold something");
    let pauses = pauses || matches!(row.job.phase, Phase::Paused { .. });
    let stays =
        if pauses { HostResources::booked_paused(&row.spec) } else { HostResources::default() };
    row.job.phase.allocations().iter().filter_map(move |allocation| {
        let node_pos = capacity.position(world, &allocation.node)?;
        let all = &capacity.nodes[node_pos].row.node.devices;
        let used = |slot: &Slot| {
            let device_ix = all.iter().position(|device| device.uuid == slot.device)?;
            let memory = slot.part.memory_of(all[device_ix].memory);
            Some(DeviceUse { device_ix, memory, is_whole: slot.part.is_alone() })
        };
        let uses = allocation.held_slots().iter().filter_map(used).collect();
        let room = HostResources::booked(allocation).less(stays);
        Some(Departure { end, node_pos, uses, room })
    })
}

/// The place of a candidate once these departures have happened.
fn place_then<'b>(
    capacity: &Capacity<'_>,
    candidate: &Candidate<'_, '_>,
    (freed, ended): (&Freed, impl Iterator<Item = &'b Departure> + Clone),
    (at, waits): (Timestamp, bool),
) -> Option<Place> {
    let placed = candidate.place(Departures::Expected(freed))?;
    let devices = &capacity.nodes[placed.node_pos].row.node.devices;
    let gpus = &candidate.demand.fit().gpus;
    let rank = placed.devices.first().and_then(|ix| gpus.rank_of(&devices[*ix]));
    let basis = basis(ended, &placed.devices, waits);
    Some(Place { at, rank: rank.unwrap_or(0), basis, placed })
}

/// What a start rests on: the worst basis of the departures that free its devices, or, if all of
/// these are free already, of the departures that free host resources.
fn basis<'b>(
    ended: impl Iterator<Item = &'b Departure> + Clone,
    devices: &[usize],
    waits: bool,
) -> StartBasis {
    let gives =
        |departure: &&Departure| departure.uses.iter().any(|it| devices.contains(&it.device_ix));
    let givers = ended.clone().filter(gives);
    let worst = |departures: &mut dyn Iterator<Item = &'b Departure>| {
        departures.map(|departure| departure.end.basis).max()
    };
    let of_devices = worst(&mut givers.into_iter());
    let of_room = || waits.then(|| worst(&mut ended.into_iter())).flatten();
    of_devices.or_else(of_room).unwrap_or(StartBasis::Limit)
}
