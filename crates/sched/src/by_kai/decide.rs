//! The outcome of a cycle as a plan: devices are chosen on the nodes that it names, and what
//! nobody starts for in this plan is not taken back in it.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::reason::Bound;
use gpool_model::{
    AllocationState, Attempt, Bytes, Decision, Exit, JobId, Phase, Plan, Policy, ProjectName,
    Reason, ResourceKind, Shape, TakenBack,
};
use gpool_node::seating::{Seat, seat};
use gpool_world::{JobRow, ShapeIx, Snapshot};

use super::sketch::{Sketch, Source};
use crate::board::Board;
use crate::evict::best_exit;
use crate::kai::{Change, Kind, Line, Outcome, PlacementAfter, SharedAfter, Stage, Why};
use crate::keep::Keeps;
use crate::place::{self, Found, Seeker};
use crate::room::Room;
use crate::seek;
use crate::usable::unusable;

/// A plan while it is read from an outcome.
pub(super) struct Decider<'a, 'b> {
    snapshot: &'b Snapshot<'a>,
    policy: &'b Policy,
    board: Board<'a>,
    keeps: Keeps<'a>,
    sketch: Sketch<'a>,
    plan: Plan,
    /// By node on the board and device: how many leave it, with how much of its memory.
    freed: BTreeMap<(usize, usize), (usize, i128)>,
    /// What those who go in this plan free beside devices, by node.
    room: BTreeMap<usize, Room>,
    /// The devices on which the n-th new share of a list is.
    fresh: BTreeMap<(usize, usize, usize), usize>,
    /// Who starts, by row of the sketch.
    started: BTreeSet<usize>,
}

/// One that is to start.
#[derive(Default)]
struct Start<'o> {
    at: usize,
    /// On each of its nodes.
    to: Vec<&'o PlacementAfter>,
    /// Others have to leave first.
    is_claim: bool,
}

/// Devices that begin to be shared: as which of a list of a node.
type Fresh = Vec<((usize, usize, usize), usize)>;

impl<'a, 'b> Decider<'a, 'b> {
    pub fn new(
        snapshot: &'b Snapshot<'a>,
        policy: &'b Policy,
        board: Board<'a>,
        sketch: Sketch<'a>,
    ) -> Self {
        let plan = Plan { basis: snapshot.world.revision(), ..Plan::default() };
        let (freed, room, fresh) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let started = BTreeSet::new();
        let keeps = Keeps::of(snapshot, policy, &board);
        let mut decider =
            Self { snapshot, policy, board, keeps, sketch, plan, freed, room, fresh, started };
        let leaving = snapshot.world.holding();
        for row in leaving.filter(|row| matches!(row.job.phase, Phase::Stopping { .. })) {
            decider.free(row, |state| matches!(state, AllocationState::Releasing { .. }));
        }
        // What leaves from before is not free for claims of this plan beside devices.
        decider.room.clear();
        decider
    }

    pub fn plan(mut self, outcome: &Outcome) -> Plan {
        let mut victims = BTreeMap::<usize, BTreeMap<usize, Stage>>::new();
        let mut starts = BTreeMap::<usize, Start<'_>>::new();
        for decision in &outcome.decisions {
            let at = decision.job;
            match &decision.what {
                Change::Bind(to) | Change::Claim(to) => {
                    let start = starts.entry(at).or_default();
                    start.at = at;
                    start.to.push(to);
                    start.is_claim |= matches!(decision.what, Change::Claim(_));
                }
                Change::Evict { stage, for_job } | Change::Move { stage, for_job, .. } => {
                    victims.entry(*for_job).or_default().insert(at, *stage);
                }
            }
        }
        let jobs = &self.sketch.situation.jobs;
        let mut starts: Vec<Start<'_>> = starts.into_values().collect();
        starts.sort_by_key(|it| {
            let job = &jobs[it.at];
            (it.is_claim, -job.priority, job.created, job.name.clone())
        });
        for start in starts {
            let own = victims.get(&start.at).cloned().unwrap_or_default();
            self.start(&start, &own);
        }
        self.waits(outcome);
        self.plan
    }

    /// Starts a job, and takes back for it what goes for it; nothing happens if it finds no place.
    fn start(&mut self, start: &Start<'_>, victims: &BTreeMap<usize, Stage>) {
        let Source::Waits { job, attempt, shape_ix, .. } = self.sketch.jobs[start.at] else {
            return;
        };
        let gone: Vec<(&JobRow, Stage)> = victims
            .iter()
            .filter_map(|(at, stage)| match self.sketch.jobs[*at] {
                Source::Holds(row) if may_go(row) => Some((row, *stage)),
                _ => None,
            })
            .collect();
        let before = (self.freed.clone(), self.room.clone());
        gone.iter().for_each(|(row, _)| self.free(row, |_| true));
        let shape = &self.snapshot.world.shape(shape_ix).shape;
        let is_claim = start.is_claim || !gone.is_empty();
        let found = self.find(start, shape, (job, attempt), is_claim);
        let Some((found, fresh)) = found else {
            (self.freed, self.room) = before;
            return;
        };
        let mut after = Vec::new();
        for (row, stage) in gone {
            after.push(self.next());
            let why = match stage {
                Stage::Preempt if row.job.priority >= shape.priority => TakenBack::Shrink,
                Stage::Preempt => TakenBack::Preempt,
                Stage::Consolidate => TakenBack::Consolidate,
                Stage::Allocate | Stage::Reclaim | Stage::StaleGangs => TakenBack::Reclaim,
            };
            let (id, attempt) = (row.job.id, row.job.attempt);
            let exit = best_exit(self.snapshot.world, row, false).unwrap_or_else(Exit::usual);
            let beneficiary = job;
            self.plan.decisions.push(Decision::Evict { job: id, attempt, why, beneficiary, exit });
        }
        if is_claim {
            let others = self.board.frees(&self.plan.decisions, &found);
            let others: Vec<u32> = others.into_iter().filter(|at| !after.contains(at)).collect();
            after.extend(others);
            if after.is_empty() {
                // Whom it waits for has been leaving since before; when they have left it starts.
                (self.freed, self.room) = before;
                return;
            }
            after.sort_unstable();
        }
        self.fresh.extend(fresh);
        let placements = place::placements(&found, &shape.fit, self.snapshot.world);
        self.plan.decisions.push(Decision::Start { job, attempt, placements, after });
        for found in &found {
            self.board.book(found, &shape.fit);
            if let Some(room) = self.room.get_mut(&found.board_ix).filter(|_| is_claim) {
                *room = room.less(found.room(&shape.fit));
            }
        }
        self.started.insert(start.at);
        self.sketch.waiting.started(shape_ix);
    }

    fn next(&self) -> u32 {
        u32::try_from(self.plan.decisions.len()).unwrap_or(u32::MAX)
    }

    /// Devices of the nodes that an outcome names. It knows no tasks that must be on different
    /// nodes, or devices: where it put two on one, others are looked for.
    fn find(
        &self,
        start: &Start<'_>,
        shape: &Shape,
        (job, attempt): (JobId, Attempt),
        is_claim: bool,
    ) -> Option<(Vec<Found>, Fresh)> {
        let nodes = on_nodes(start, shape);
        let names: BTreeSet<&str> = nodes.iter().map(|(to, _)| to.node.as_str()).collect();
        let elsewhere = || {
            let seeker = Seeker { shape, policy: self.policy, seed: place::seed(job, attempt) };
            let found = place::place(&self.board, &seeker, None, &|_, _| Some(Vec::new()));
            Some((found.filter(|_| !is_claim)?, Vec::new()))
        };
        if names.len() < nodes.len() || start.to.len() != place::n_nodes(&shape.fit) {
            return elsewhere();
        }
        let (mut all, mut fresh) = (Vec::new(), Vec::new());
        for (to, times) in &nodes {
            let found = self.find_on((to, *times), shape, (job, attempt), is_claim);
            // It may have put two shares of one job on one device.
            let Some((found, more)) = found else { return elsewhere() };
            all.push(found);
            fresh.extend(more);
        }
        all.sort_by_key(|found: &Found| found.board_ix);
        Some((all, fresh))
    }

    /// Devices of the node that an outcome names.
    fn find_on(
        &self,
        (to, times): (&PlacementAfter, u32),
        shape: &Shape,
        (job, attempt): (JobId, Attempt),
        is_claim: bool,
    ) -> Option<(Found, Fresh)> {
        let world = self.snapshot.world;
        let nodes = &self.sketch.situation.nodes;
        let row = nodes.iter().position(|node| node.name == to.node)?;
        let (board_ix, lists) = &self.sketch.nodes[row];
        let (board_ix, list) = (*board_ix, to.devices);
        let node = &self.board.nodes[board_ix];
        let room = match self.room.get(&board_ix).filter(|_| is_claim) {
            Some(room) => node.free.more(*room),
            None => node.free,
        };
        if Room::needed(&shape.fit).times(times).first_short(room).is_some() {
            return None;
        }
        let mut named = BTreeSet::new();
        let mut unnamed = Vec::new();
        for shared in &to.shared {
            match shared {
                SharedAfter::Named(uuid) => {
                    let devices = &node.row.node.devices;
                    named.insert(devices.iter().position(|it| it.uuid.as_str() == *uuid)?);
                }
                SharedAfter::Fresh(number) => match self.fresh.get(&(board_ix, list, *number)) {
                    Some(ix) => drop(named.insert(*ix)),
                    None => unnamed.push(*number),
                },
            }
        }
        let share = shape.fit.gpus.share();
        let all: &[usize] = lists.get(list).map_or(&[], Vec::as_slice);
        let may = |ix: usize| {
            let is_new = share.is_none() || !unnamed.is_empty();
            all.contains(&ix) && unusable(node.row, ix).is_none() && (is_new || named.contains(&ix))
        };
        let seats: Vec<Seat<'_>> = (node.row.node.devices.iter().enumerate())
            .map(|(ix, device)| {
                let (n_freed, memory) = match is_claim {
                    true => self.freed.get(&(board_ix, ix)).copied().unwrap_or_default(),
                    false => (0, 0),
                };
                let is_free = may(ix)
                    && match is_claim {
                        true => node.n_holders(ix) <= n_freed,
                        false => node.is_free(ix),
                    };
                let shares = node.row.is_whole(ix) || node.row.is_shared(ix) || is_free;
                let left = node.memory_left(ix) + memory;
                let room = match may(ix) && shares && (is_free || named.contains(&ix)) {
                    true => Bytes::new(u64::try_from(left.max(0)).unwrap_or(0)),
                    false => Bytes::ZERO,
                };
                Seat { device, is_free, is_busy: !is_free && node.is_busy(ix), room }
            })
            .collect();
        let seed = place::seed(job, attempt);
        let gpus = shape.fit.gpus_on_node(times);
        let devices = seat(&seats, &gpus, self.policy.device_strategy, seed)?;
        let new = devices.iter().copied().filter(|ix| !named.contains(ix));
        let fresh = unnamed.iter().map(|number| (board_ix, list, *number)).zip(new).collect();
        let node_ix = world.node_ix(&node.row.node.name)?;
        Some((Found::new((board_ix, node_ix), devices, share, times), fresh))
    }

    /// What a job has of nodes is free for claims.
    fn free(&mut self, row: &JobRow, which: impl Fn(&AllocationState) -> bool) {
        for allocation in row.job.phase.allocations().iter().filter(|it| which(&it.state)) {
            let position = self.board.position(self.snapshot.world, &allocation.node);
            let Some(board_ix) = position else { continue };
            let all = &self.board.nodes[board_ix].row.node.devices;
            for slot in &allocation.slots {
                let ix = all.iter().position(|device| device.uuid == slot.device);
                let Some(ix) = ix else { continue };
                let (n, sum) = self.freed.entry((board_ix, ix)).or_default();
                *n += 1;
                *sum += i128::from(slot.part.memory_of(all[ix].memory).get());
            }
            let room = self.room.entry(board_ix).or_default();
            *room = room.more(Room::booked(allocation));
        }
    }

    /// Why the rest waits.
    fn waits(&mut self, outcome: &Outcome) {
        let mut whys = BTreeMap::<usize, &Why>::new();
        for wait in &outcome.waits {
            whys.entry(wait.job).or_insert(&wait.why);
        }
        let mut last = BTreeMap::<&ProjectName, (JobId, u64)>::new();
        let mut reasons = Vec::new();
        for (at, source) in self.sketch.jobs.iter().enumerate() {
            let Source::Waits { job, row, shape_ix, .. } = *source else { continue };
            if self.started.contains(&at) {
                continue;
            }
            let ahead = last.get(&row.spec.project).copied();
            reasons.push((shape_ix, self.why(whys.get(&at).copied(), shape_ix, ahead)));
            let n_ahead = ahead.map_or(1, |(_, n)| n + 1);
            last.insert(&row.spec.project, (job, n_ahead));
        }
        // Those that were not looked at stand behind those that were.
        for (shape_ix, queue) in self.snapshot.world.shapes() {
            if let Some((job, n_ahead)) = last.get(&queue.shape.project).copied() {
                reasons.push((shape_ix, Reason::AheadInOrder { job, n_ahead }));
            }
        }
        for (shape_ix, reason) in reasons {
            if self.sketch.waiting.has_left(self.snapshot.world, shape_ix) {
                self.sketch.waiting.of_shape(shape_ix, &reason);
            }
        }
        self.plan.waits = std::mem::take(&mut self.sketch.waiting).into_waits(self.snapshot.world);
    }

    fn why(&self, why: Option<&Why>, shape_ix: ShapeIx, ahead: Option<(JobId, u64)>) -> Reason {
        let passed = |line: &Line, bound| {
            let project = &self.sketch.situation.projects[line.project].name;
            let kind = match line.kind {
                Kind::Gpu => ResourceKind::Gpu,
                Kind::Cpu => ResourceKind::Cpu,
                Kind::Memory => ResourceKind::Memory,
            };
            let [held, asked, most] =
                [line.held, line.asked, line.bound].map(|it| u64::try_from(it).unwrap_or(0));
            let project = ProjectName::new(project);
            Reason::QuotaProject { project, kind, bound, held, asked, most }
        };
        let shape = &self.snapshot.world.shape(shape_ix).shape;
        let seeker = Seeker { shape, policy: self.policy, seed: 0 };
        match why {
            Some(Why::OverLimit(line)) => passed(line, Bound::Limit),
            Some(Why::OverGuarantee(line)) => passed(line, Bound::Guaranteed),
            _ => {
                let has_room =
                    place::place(&self.board, &seeker, None, &|_, _| Some(Vec::new())).is_some();
                match ahead.filter(|_| has_room) {
                    // There is room, which is meant for others.
                    Some((job, n_ahead)) => Reason::AheadInOrder { job, n_ahead },
                    None => seek::reason(self.snapshot, &self.board, &self.keeps, &seeker),
                }
            }
        }
    }
}

/// Whether a job has what it can give up.
fn may_go(row: &JobRow) -> bool {
    let is_claim = |it: &AllocationState| matches!(it, AllocationState::Claimed { .. });
    matches!(row.job.phase, Phase::Starting { .. } | Phase::Running { .. })
        && row.spec.life.preemptible == Some(true)
        && !row.job.phase.allocations().iter().any(|it| is_claim(&it.state))
}

/// Where an outcome puts the tasks of a job, and how many of them on each node: together, where
/// that may be and they are of one list of devices.
fn on_nodes(start: &Start<'_>, shape: &Shape) -> Vec<(PlacementAfter, u32)> {
    let mut nodes = Vec::<(PlacementAfter, u32)>::new();
    for to in &start.to {
        let same = |(other, _): &&mut (PlacementAfter, u32)| {
            other.node == to.node && other.devices == to.devices
        };
        match nodes.iter_mut().find(same).filter(|_| shape.fit.gang.anywhere) {
            Some((other, times)) => {
                other.shared.extend(to.shared.iter().cloned());
                *times += 1;
            }
            None => nodes.push(((*to).clone(), 1)),
        }
    }
    nodes
}
