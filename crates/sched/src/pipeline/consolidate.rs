//! Stage consolidate: running jobs move to other places so that a larger job fits on a node. Small
//! jobs leave the node with the fewest jobs in the way, if each of them fits elsewhere at once and
//! saves its work.
//!
//! Source: the consolidation of Run:ai and KAI. On the Philly trace, fragmentation and not order
//! keeps gangs waiting.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{Exit, JobId, Phase};
use gpool_world::JobRow;

use crate::capacity::{Bookings, Capacity, Placed, most_times, n_missing, put, times_on};
use crate::fairshare::Row;
use crate::victims::{Evictable, Evictions, Input, Solution, VictimNode, amounts_of, best_exit};

/// After this many searches without a result, a cycle searches no more: each reads many nodes.
const FAILURES_MAX: usize = 8;

/// Whether the job may start once these have left for good.
pub(crate) type MayHave<'m> = &'m dyn Fn(&[&Evictable]) -> bool;

/// A job that may move, and its fit.
#[derive(Debug, Clone)]
struct Movable {
    job: Evictable,
    fit: Fit,
}

/// The number of devices of a job on a node, the job, and the project or user that is charged.
type Size = (Reverse<usize>, JobId, Row);

/// The movable jobs of a node.
#[derive(Debug, Clone, Default)]
struct OnNode {
    /// Jobs with the most devices first.
    sizes: Vec<Size>,
    /// In eviction order; computed when a search reads the node.
    known: Option<Vec<Movable>>,
}

/// The movable jobs of a cycle, computed for a node when a search first reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Movables {
    /// By position of the node in the capacity.
    by_node: BTreeMap<usize, OnNode>,
    /// Failed searches: if all jobs move, and if some leave for good.
    n_failures: [usize; 2],
}

/// The rules for one job that moves others.
pub(crate) struct Moving<'c> {
    /// Jobs that may leave without a new place, by position of the node in the capacity.
    pub giving: BTreeMap<usize, Vec<&'c Evictable>>,
    /// The most jobs that may leave, for good or not.
    pub n_most: u64,
    pub may_have: MayHave<'c>,
}

/// Moves other jobs elsewhere so that a job can start; `None` if that does not help. A moved job
/// only loses the time of the move, so it may be of any project.
pub(crate) fn consolidate(
    input: Input<'_, '_>,
    evictions: &mut Evictions,
    movables: &mut Movables,
    n_most: u64,
) -> Option<Solution> {
    if evictions.place_on_leaving(&input).is_some() {
        return None;
    }
    let moving = Moving { giving: BTreeMap::new(), n_most, may_have: &|_| true };
    move_others(input, evictions, movables, moving)
}

/// Moves other jobs elsewhere so that a job can start, while some leave for good: for the job, or
/// for the jobs that move.
pub(crate) fn move_others(
    input: Input<'_, '_>,
    evictions: &mut Evictions,
    movables: &mut Movables,
    Moving { giving, n_most, may_have }: Moving<'_>,
) -> Option<Solution> {
    let (demand, capacity) = (input.demand, input.view.capacity);
    let fit = demand.fit();
    let n_asked = demand.times(demand.n_units()).n_devices();
    let is_whole = fit.gpus.share().is_none() && fit.at.is_empty() && n_asked > 0;
    let which = usize::from(!giving.is_empty());
    if !is_whole || movables.n_failures[which] >= FAILURES_MAX {
        return None;
    }
    let n_devices = |(ix, all): (&usize, &Vec<&Evictable>)| {
        (*ix, all.iter().map(|it| it.n_devices_on(*ix)).sum())
    };
    let n_given: BTreeMap<usize, usize> = giving.iter().map(n_devices).collect();
    if n_free_at_most(capacity) + n_given.values().sum::<usize>() < n_asked {
        return None;
    }
    let mut leavers = Leavers { movable: &mut movables.by_node, giving, n_given, n_most };
    let mut models = demand.models().into_iter();
    let found = models.find_map(|model| clear(input.of_model(model), evictions, &mut leavers));
    let found = found.filter(|Solution { victims, .. }| {
        let gone: Vec<&Evictable> = victims.iter().filter(|it| !it.moves).collect();
        victims.len() as u64 <= n_most && may_have(&gone)
    });
    if found.is_none() {
        movables.n_failures[which] += 1;
    }
    found.map(|found| evictions.commit(found))
}

/// The free devices of all nodes that take work, with the devices that shares could leave.
fn n_free_at_most(capacity: &Capacity<'_>) -> usize {
    capacity.with_free(0).map(|ix| capacity.nodes[ix].n_free + capacity.nodes[ix].n_shared()).sum()
}

/// A job that may leave a node: to a place elsewhere for `moves`, or for good.
#[derive(Clone, Copy)]
struct Leaver<'l> {
    job: &'l Evictable,
    moves: Option<&'l Fit>,
}

/// The jobs that may leave, for one waiting job.
struct Leavers<'l> {
    movable: &'l mut BTreeMap<usize, OnNode>,
    /// Jobs that may leave without a new place, by position of the node in the capacity.
    giving: BTreeMap<usize, Vec<&'l Evictable>>,
    /// Number of devices that these have there.
    n_given: BTreeMap<usize, usize>,
    n_most: u64,
}

impl Leavers<'_> {
    /// The most devices of a node that may be free once jobs have left: computed before places for
    /// these are searched.
    fn n_at_most(&mut self, input: &Input<'_, '_>, node_pos: usize) -> usize {
        let giving = self.giving.get(&node_pos).into_iter().flatten();
        let giving = giving.map(|it| (Reverse(it.n_devices_on(node_pos)), it.job, it.leaf));
        let moving = self.movable.entry(node_pos).or_insert_with(|| OnNode::of(input, node_pos));
        let mut sizes: Vec<Size> = giving.chain(moving.sizes.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let n_most = usize::try_from(self.n_most).unwrap_or(usize::MAX);
        let n_left: usize = sizes.iter().take(n_most).map(|(Reverse(n), ..)| n).sum();
        input.view.capacity.nodes[node_pos].n_free + n_left
    }

    /// Computes the fits of the movable jobs of a node.
    fn read(&mut self, input: &Input<'_, '_>, node_pos: usize) {
        if let Some(OnNode { sizes, known }) = self.movable.get_mut(&node_pos) {
            known.get_or_insert_with(|| movable(input, sizes));
        }
    }

    /// On one node that was read; the jobs that leave for good come first.
    fn on(&self, node_pos: usize) -> Vec<Leaver<'_>> {
        let giving = self.giving.get(&node_pos).map_or(&[][..], Vec::as_slice);
        let gives = |job| giving.iter().any(|it| it.job == job);
        let moving = self.movable.get(&node_pos).and_then(|here| here.known.as_ref());
        let moving = moving.into_iter().flatten().filter(|it| !gives(it.job.job));
        let giving = giving.iter().map(|job| Leaver { job, moves: None });
        giving.chain(moving.map(|it| Leaver { job: &it.job, moves: Some(&it.fit) })).collect()
    }
}

/// A solution while it is made, with the new places of the jobs that move.
#[derive(Default)]
struct Draft {
    placed: Vec<Placed>,
    victims: Vec<Evictable>,
    bookings: Bookings,
}

/// One more node for a draft.
struct Clearing {
    /// Number of jobs that leave, and thousandths of a device times milliseconds that have to run
    /// again.
    cost: (usize, u64),
    placed: Placed,
    victims: Vec<Evictable>,
    bookings: Bookings,
}

/// Clears the nodes for a job, one after the other: the node with the fewest devices in the way,
/// and of equal nodes the one with the least lost work.
fn clear(
    input: Input<'_, '_>,
    evictions: &Evictions,
    leavers: &mut Leavers<'_>,
) -> Option<Solution> {
    let capacity = input.view.capacity;
    let n_open =
        |ix: usize| capacity.nodes[ix].n_free + leavers.n_given.get(&ix).copied().unwrap_or(0);
    let mut nodes: Vec<(Reverse<usize>, usize)> =
        capacity.with_free(0).map(|ix| (Reverse(n_open(ix)), ix)).collect();
    nodes.sort_unstable();
    let mut draft = Draft::default();
    loop {
        draft.take_free(&input, evictions, &nodes);
        if n_missing(&draft.placed, input.demand.fit()) == 0 {
            break;
        }
        let mut best: Option<(Reverse<usize>, Clearing)> = None;
        for (n_open, ix) in &nodes {
            if best.as_ref().is_some_and(|(than, _)| n_open > than) {
                break;
            }
            let option = draft.clearing(&input, evictions, leavers, *ix);
            let is_better =
                |it: &Clearing| best.as_ref().is_none_or(|(_, best)| it.cost < best.cost);
            if let Some(better) = option.filter(is_better) {
                best = Some((*n_open, better));
            }
        }
        let (_, Clearing { placed, victims, bookings, .. }) = best?;
        put(&mut draft.placed, placed);
        draft.victims.extend(victims);
        draft.bookings = bookings;
    }
    let Draft { mut placed, victims, .. } = draft;
    placed.sort_by_key(|it| it.node_pos);
    (!victims.is_empty()).then_some(Solution { placed, victims })
}

impl Draft {
    /// Takes free capacity first, for jobs that need more than one place.
    fn take_free(
        &mut self,
        input: &Input<'_, '_>,
        evictions: &Evictions,
        nodes: &[(Reverse<usize>, usize)],
    ) {
        let (demand, capacity) = (input.demand, input.view.capacity);
        if demand.n_units() == 1 {
            return;
        }
        let gone: Vec<&Evictable> = self.victims.iter().collect();
        for (_, ix) in nodes.iter().filter(|(_, ix)| !self.bookings.has(*ix)) {
            let missing = n_missing(&self.placed, demand.fit());
            let has = times_on(&self.placed, *ix);
            if capacity.nodes[*ix].n_free < demand.times(has + 1).n_devices() {
                continue;
            }
            let most = demand.fit().most_on(&capacity.nodes[*ix].row.node).saturating_sub(has);
            let node = |more| VictimNode::new(input.view, demand.times(has + more), *ix, evictions);
            let fits = |more| node(more).is_some_and(|node| node.fits(&gone));
            let more = most_times(most.min(missing), fits);
            let more = node(more).filter(|_| more > 0).and_then(|node| node.place(&gone));
            more.into_iter().for_each(|more| put(&mut self.placed, more));
        }
    }

    /// The jobs that leave a node so that one more unit fits there.
    fn clearing(
        &self,
        input: &Input<'_, '_>,
        evictions: &Evictions,
        leavers: &mut Leavers<'_>,
        node_pos: usize,
    ) -> Option<Clearing> {
        let times = times_on(&self.placed, node_pos) + 1;
        let demand = input.demand.times(times);
        let most = demand.fit().most_on(&input.view.capacity.nodes[node_pos].row.node);
        if times > most
            || self.bookings.has(node_pos)
            || leavers.n_at_most(input, node_pos) < demand.n_devices()
        {
            return None;
        }
        leavers.read(input, node_pos);
        let node = VictimNode::new(input.view, demand, node_pos, evictions)?;
        let gone: Vec<&Evictable> = self.victims.iter().collect();
        if let Some(placed) = node.place(&gone) {
            let bookings = self.bookings.clone();
            return Some(Clearing { cost: (0, 0), placed, victims: Vec::new(), bookings });
        }
        let mut all = leavers.on(node_pos);
        all.retain(|it| {
            let goes = self.victims.iter().any(|victim| victim.job == it.job.job);
            !goes && !evictions.has(it.job.job) && !it.job.delays_planned_start(&input.view)
        });
        let closed = self.placed.iter().map(|it| it.node_pos).chain([node_pos]).collect();
        loop {
            let jobs: Vec<&Evictable> = all.iter().map(|it| it.job).collect();
            let more = node.fewest(&self.victims, &jobs)?;
            let mut bookings = self.bookings.clone();
            let leaves = |it: &&Leaver<'_>| more.iter().any(|job| job.job == it.job.job);
            let mut leaving = all.iter().filter(leaves);
            let mut book = |fit: &Fit| {
                let (capacity, holds) = (input.view.capacity, input.view.holds);
                bookings.book(capacity, holds, fit, &closed, &leavers.n_given)
            };
            // A job that fits nowhere else stays, and the others are tried again.
            let stuck = leaving.find(|it| it.moves.is_some_and(|fit| !book(fit)));
            if let Some(stuck) = stuck.map(|it| it.job.job) {
                all.retain(|it| it.job.job != stuck);
                continue;
            }
            let gone: Vec<&Evictable> = self.victims.iter().chain(more.iter().copied()).collect();
            let placed = node.place(&gone)?;
            let lost = more.iter().map(|it| it.order.lost).fold(0, u64::saturating_add);
            let cost = (more.len(), lost);
            let victims = more.into_iter().cloned().collect();
            return Some(Clearing { cost, placed, victims, bookings });
        }
    }
}

impl OnNode {
    /// The jobs on one node only, with whole devices or a share of one, that have run for a while
    /// and save their work before they leave.
    fn of(input: &Input<'_, '_>, node_pos: usize) -> Self {
        let world = input.view.snapshot.world;
        let here = &input.view.capacity.nodes[node_pos].row.here;
        let mut jobs: Vec<JobId> = here.iter().map(|task| task.job).collect();
        jobs.dedup();
        let size = |id: JobId| {
            let job = world.job(id).filter(|job| is_movable(input, job))?;
            let project_ix = world.ix_of_project(&job.spec.project)?;
            let held = job.job.phase.allocations();
            let n_devices = held.iter().map(|it| it.slots.len()).sum();
            let leaf = input.projects.leaf_of(project_ix, job.spec.owner.uid);
            Some((Reverse(n_devices), id, leaf))
        };
        let mut sizes: Vec<Size> = jobs.into_iter().filter_map(size).collect();
        sizes.sort_unstable();
        Self { sizes, known: None }
    }
}

/// The movable jobs with their fits, the smaller ones first.
fn movable(input: &Input<'_, '_>, jobs: &[Size]) -> Vec<Movable> {
    let Input { view, projects, .. } = input;
    let world = view.snapshot.world;
    let known = jobs.iter().filter_map(|(_, id, leaf)| {
        let row = world.job(*id)?;
        let amounts = amounts_of(world, projects, row);
        let job = Evictable::of(view, projects, row, *leaf, &amounts, false)?;
        Some(Movable { job: Evictable { moves: true, ..job }, fit: gpool_world::fit_of(row) })
    });
    let mut all: Vec<Movable> = known.collect();
    all.sort_unstable_by_key(|it| (it.fit.n_devices_on_node(), it.job.order));
    all
}

fn is_movable(input: &Input<'_, '_>, row: &JobRow) -> bool {
    let (world, now) = (input.view.snapshot.world, input.view.snapshot.now);
    let Phase::Running { started_at, .. } = &row.job.phase else { return false };
    let started_at = started_at.after(row.job.course.paused);
    let policy = world.policy_of(row);
    let n_devices = row.spec.gpus.n_devices().saturating_mul(row.spec.gang.tasks_per_node);
    policy.consolidate
        && row.is_evictable()
        && row.spec.gang.nodes_most == 1
        && row.spec.joins.is_none()
        && n_devices > 0
        && (row.spec.gpus.share().is_none() || n_devices == 1)
        && started_at.after(policy.min_run) <= now
        && best_exit(world, row, false) == Some(Exit::Checkpoint)
}
