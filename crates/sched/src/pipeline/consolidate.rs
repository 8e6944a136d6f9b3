//! Stage consolidate: running jobs move to other places so that a larger job fits on a node. Small
//! jobs leave the node with the fewest jobs in the way, if each of them fits elsewhere at once and
//! saves its work.
//!
//! Source: the consolidation of Run:ai and KAI. On the Philly trace, fragmentation and not order
//! keeps gangs waiting.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use gpool_model::{Millis, Timestamp};

use crate::capacity::{
    Bookings, Demand, Drawbacks, Freed, Placed, View, n_missing, replace_on_node, times_on,
};
use crate::victims::{
    Backoff, Evictable, EvictionProblem, Evictions, RoomAnswer, Solution, Test, VictimNode,
};

/// After this many searches without a result, a cycle searches no more: each reads many nodes.
const FAILURES_MAX: usize = 8;

/// The jobs of a node that may move.
#[derive(Debug, Clone)]
struct MovableOnNode {
    /// The numbers of nodes, and of changes of this one, that this was computed from.
    basis: (usize, u64),
    /// While no other job may move, and no job loses more work.
    valid: Range<Timestamp>,
    /// The smaller ones first.
    jobs: Vec<Evictable>,
}

type ByNode = BTreeMap<usize, MovableOnNode>;

/// The jobs that may move: computed for a node when a search first reads it, and kept from one
/// cycle to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Movables {
    by_node: ByNode,
    /// Failed searches: if all jobs move, and if some leave for good.
    n_failures: [usize; 2],
    /// Demands of failed searches in which all jobs move, by the number of evictions before and the
    /// most moves. Fewer moves fail too: within a cycle, only evictions make room.
    failed: BTreeMap<(usize, usize), Backoff>,
}

impl Movables {
    /// Begins a cycle, with the same projects and policy as the last one or with others.
    pub fn begin(&mut self, is_same: bool) {
        let by_node = std::mem::take(&mut self.by_node);
        *self = Self { by_node: if is_same { by_node } else { ByNode::new() }, ..Self::default() };
    }
}

/// The rules for one job that moves others.
pub(crate) struct Moving<'c> {
    /// Jobs that may leave without a new place, by position of the node in the capacity.
    pub giving: BTreeMap<usize, Vec<&'c Evictable>>,
    /// The most jobs that may leave, for good or not.
    pub n_most: usize,
    /// Whether the job may start once these have left for good.
    pub may_have: &'c Test<'c>,
}

/// Moves other jobs elsewhere so that a job can start. A moved job only loses the time of the move,
/// so it may be of any project.
pub(crate) fn consolidate(
    input: EvictionProblem<'_, '_>,
    evictions: &mut Evictions,
    movables: &mut Movables,
    n_most: usize,
) -> RoomAnswer {
    if evictions.place_on_leaving(&input).is_some() {
        return RoomAnswer::Leaving;
    }
    let moving = Moving { giving: BTreeMap::new(), n_most, may_have: &|_| true };
    move_others(input, evictions, movables, &moving).into()
}

/// Moves jobs, and evicts others, so that a job can start.
pub(crate) fn move_others(
    input: EvictionProblem<'_, '_>,
    evictions: &mut Evictions,
    movables: &mut Movables,
    moving: &Moving<'_>,
) -> Option<Solution> {
    let (demand, capacity) = (input.demand, input.view.capacity);
    let fit = demand.fit();
    let n_asked = demand.times(demand.n_units()).n_devices();
    let is_whole = fit.gpus.share().is_none() && fit.at.is_empty() && n_asked > 0;
    let which = usize::from(!moving.giving.is_empty());
    if !is_whole || movables.n_failures[which] >= FAILURES_MAX {
        return None;
    }
    let uses = |(ix, all): (&usize, &Vec<&Evictable>)| {
        let mut freed = Freed::default();
        all.iter().filter_map(|it| it.held.get(ix)).for_each(|it| freed.add_uses(&it.uses));
        (*ix, freed)
    };
    let given: BTreeMap<usize, Freed> = moving.giving.iter().map(uses).collect();
    // With the devices that shares could leave.
    if capacity.n_open + given.values().map(Freed::n_uses).sum::<usize>() < n_asked {
        return None;
    }
    let key = (evictions.victims.len(), moving.n_most);
    let mut failed = movables.failed.range(key..=(key.0, usize::MAX));
    if which == 0 && failed.any(|(_, failed)| failed.applies_to(demand.shape)) {
        movables.n_failures[which] += 1;
        return None;
    }
    let found = demand.models().into_iter().find_map(|model| {
        ConsolidationSearch::new(input.of_model(model), evictions, moving, &given)
            .clear(&mut movables.by_node)
    });
    let found = found.filter(|Solution { victims, .. }| {
        let gone: Vec<&Evictable> = victims.iter().filter(|it| !it.moves).collect();
        victims.len() <= moving.n_most && (moving.may_have)(&gone)
    });
    if found.is_none() {
        movables.n_failures[which] += 1;
        if which == 0 {
            movables.failed.entry(key).or_default().add(demand.shape);
        }
    }
    found.map(|found| evictions.commit(found))
}

/// The search for the nodes of one waiting job.
struct ConsolidationSearch<'s, 'a, 'b> {
    input: EvictionProblem<'a, 'b>,
    evictions: &'s Evictions,
    moving: &'s Moving<'s>,
    /// Devices that jobs may leave without a new place, by position of the node.
    freeable: &'s BTreeMap<usize, Freed>,
    /// The nodes by their number of open devices: free ones, and ones that jobs may leave.
    nodes: Vec<(Reverse<usize>, usize)>,
    /// The same of the two nodes with the most of those that jobs may move to.
    largest: Vec<(Reverse<usize>, usize)>,
}

/// A solution while it is made, or one more node for it, with the new places of the jobs that move.
#[derive(Default)]
struct Draft<'a> {
    placed: Vec<Placed>,
    victims: Vec<Evictable>,
    bookings: Bookings<'a>,
}

/// Number of jobs that leave, and thousandths of a device times milliseconds that run again.
type Cost = (usize, u64);

impl<'s, 'a, 'b> ConsolidationSearch<'s, 'a, 'b> {
    fn new(
        input: EvictionProblem<'a, 'b>,
        evictions: &'s Evictions,
        moving: &'s Moving<'s>,
        freeable: &'s BTreeMap<usize, Freed>,
    ) -> Self {
        let View { capacity, holds, .. } = input.view;
        let n_given_on = |ix: usize| freeable.get(&ix).map_or(0, Freed::n_uses);
        let n_open = |ix: usize| Reverse(capacity.nodes[ix].n_free + n_given_on(ix));
        let nodes = capacity.with_free(0).map(|ix| (n_open(ix), ix));
        let mut nodes: Vec<(Reverse<usize>, usize)> = nodes.collect();
        nodes.sort_unstable();
        let largest = nodes.iter().filter(|(_, ix)| !holds.has(*ix)).take(2).copied().collect();
        Self { input, evictions, moving, freeable, nodes, largest }
    }

    /// Clears the nodes for a job, one after the other: the node with the fewest devices in the
    /// way, and of equal nodes the one with the least lost work.
    fn clear(&self, movable: &mut ByNode) -> Option<Solution> {
        let mut draft = Draft::default();
        loop {
            self.take_free(&mut draft);
            if n_missing(&draft.placed, self.input.demand.fit()) == 0 {
                break;
            }
            let mut best: Option<(Reverse<usize>, Cost, Draft<'a>)> = None;
            for (n_open, ix) in &self.nodes {
                if best.as_ref().is_some_and(|(than, ..)| n_open > than) {
                    break;
                }
                let Some((cost, more)) = self.clearing(&draft, movable, *ix) else { continue };
                if best.as_ref().is_none_or(|(_, least, _)| cost < *least) {
                    best = Some((*n_open, cost, more));
                }
            }
            let (_, _, more) = best?;
            more.placed.into_iter().for_each(|placed| replace_on_node(&mut draft.placed, placed));
            draft.victims.extend(more.victims);
            draft.bookings = more.bookings;
        }
        let Draft { mut placed, victims, .. } = draft;
        placed.sort_by_key(|it| it.node_pos);
        (!victims.is_empty()).then_some(Solution { placed, victims })
    }

    /// Takes free capacity first, for jobs that need more than one place.
    fn take_free(&self, draft: &mut Draft<'_>) {
        let EvictionProblem { view, demand, .. } = self.input;
        if demand.n_units() == 1 {
            return;
        }
        let is_free = |ix: usize| {
            let n_devices = demand.times(times_on(&draft.placed, ix) + 1).n_devices();
            !draft.bookings.has(ix) && view.capacity.nodes[ix].n_free >= n_devices
        };
        let nodes = self.nodes.iter().map(|(_, ix)| *ix);
        let free: Vec<usize> = nodes.filter(|ix| is_free(*ix)).collect();
        let Draft { placed, victims, .. } = draft;
        self.input.place_without_more(self.evictions, victims, free.into_iter(), placed);
    }

    /// The jobs that leave a node so that one more unit fits there.
    fn clearing(
        &self,
        draft: &Draft<'a>,
        movable: &mut ByNode,
        node_pos: usize,
    ) -> Option<(Cost, Draft<'a>)> {
        let Self { input, evictions, moving, freeable, .. } = self;
        let View { snapshot, capacity, .. } = input.view;
        let times = times_on(&draft.placed, node_pos) + 1;
        let demand = input.demand.times(times);
        if times > input.most_on(node_pos) || draft.bookings.has(node_pos) {
            return None;
        }
        // A job with more devices than any other node has open stays. A share needs none of these.
        let largest = |nodes: &[(Reverse<usize>, usize)]| {
            nodes.iter().find(|(_, ix)| *ix != node_pos).map_or(1, |(n, _)| n.0.max(1))
        };
        let n_moved = moving.n_most.saturating_mul(largest(&self.nodes));
        let n_free = capacity.nodes[node_pos].n_free;
        let n_left = freeable.get(&node_pos).map_or(0, Freed::n_uses);
        if (n_free + n_left).saturating_add(n_moved) < demand.n_devices() {
            return None;
        }
        // Jobs that leave for good come first.
        let giving = moving.giving.get(&node_pos).map_or(&[][..], Vec::as_slice);
        let stays = |it: &&Evictable| giving.iter().all(|other| other.job != it.job);
        let movable = MovableOnNode::read(movable, input, node_pos);
        let has_place = |it: &&Evictable| it.n_devices_on(node_pos) <= largest(&self.largest);
        let with_place = movable.iter().filter(has_place).map(|it| it.n_devices_on(node_pos));
        let is_left = evictions.was_vacating(node_pos) || evictions.freed.contains_key(&node_pos);
        if !is_left && n_free + n_left + with_place.sum::<usize>() < demand.n_devices() {
            return None;
        }
        let mut all: Vec<&Evictable> =
            giving.iter().copied().chain(movable.iter().filter(stays)).collect();
        if moving.n_at_most(&all, node_pos) + n_free < demand.n_devices() {
            return None;
        }
        let node = VictimNode::new(input.view, demand, node_pos, evictions)?;
        let gone: Vec<&Evictable> = draft.victims.iter().collect();
        if let Some(placed) = node.place(&gone) {
            let bookings = draft.bookings.clone();
            return Some(((0, 0), Draft { placed: vec![placed], victims: Vec::new(), bookings }));
        }
        all.retain(|it| {
            let goes = draft.victims.iter().any(|victim| victim.job == it.job);
            !goes && !evictions.has(it.job) && !it.delays_planned_start(&input.view)
        });
        let closed = draft.placed.iter().map(|it| it.node_pos).chain([node_pos]).collect();
        // A job that fits nowhere else stays, and the others are tried again.
        let mut bookings = Bookings::default();
        let mut judge = |gone: &[&Evictable]| {
            bookings.clone_from(&draft.bookings);
            let stuck = gone[draft.victims.len()..].iter().filter(|it| it.moves).find(|it| {
                let row = snapshot.world.job(it.job).expect("a movable job is in the world");
                let shape = snapshot.world.shape_of(row);
                let demand = Demand::new(&shape, snapshot.world.policy_of(row), 0);
                !bookings.book(&input.view, it.job, demand, &closed, freeable)
            });
            stuck.map_or(Ok(()), |it| Err(Some(it.job)))
        };
        let (victims, placed) = node.fewest(&draft.victims, all, &|_| true, &mut judge)?;
        let drawbacks = Drawbacks::of(&input.view.capacity.nodes[node_pos], &placed);
        let lost = victims.iter().map(|it| it.order.lost).fold(drawbacks.lost, u64::saturating_add);
        Some(((victims.len(), lost), Draft { placed: vec![placed], victims, bookings }))
    }
}

impl Moving<'_> {
    /// The most devices of a node that these jobs give up together: computed before places for them
    /// are searched.
    fn n_at_most(&self, all: &[&Evictable], node_pos: usize) -> usize {
        let mut sizes: Vec<usize> = all.iter().map(|it| it.n_devices_on(node_pos)).collect();
        sizes.sort_unstable_by_key(|n_devices| Reverse(*n_devices));
        sizes.into_iter().take(self.n_most).sum()
    }
}

impl MovableOnNode {
    fn read<'m>(
        cache: &'m mut ByNode,
        input: &EvictionProblem<'_, '_>,
        node_pos: usize,
    ) -> &'m [Evictable] {
        let nodes = &input.view.capacity.nodes;
        let basis = (nodes.len(), nodes[node_pos].row.n_changes);
        let is_valid = |it: &Self| it.basis == basis && it.valid.contains(&input.view.snapshot.now);
        if !cache.get(&node_pos).is_some_and(is_valid) {
            cache.insert(node_pos, Self::new(input, node_pos, basis));
        }
        &cache[&node_pos].jobs
    }

    /// The jobs on one node only, with whole devices or a share of one, that have run for a while
    /// and save their work before they leave.
    fn new(input: &EvictionProblem<'_, '_>, node_pos: usize, basis: (usize, u64)) -> Self {
        let EvictionProblem { view, projects, .. } = input;
        let (world, now) = (view.snapshot.world, view.snapshot.now);
        let (mut jobs, mut until) = (Vec::new(), Timestamp::new(u64::MAX));
        for row in view.capacity.nodes[node_pos].jobs().filter_map(|id| world.job(id)) {
            let Some(from) = world.movable_from(row) else { continue };
            if from > now {
                until = until.min(from);
                continue;
            }
            let amounts = projects.amounts_of(world, row);
            let project_ix = world.ix_of_project(&row.spec.project);
            let of = |ix| Evictable::of(view, projects, (row, ix), &amounts, false);
            let Some(job) = project_ix.and_then(of) else { continue };
            if !job.has_run(row.time_to_save(), now) {
                until = until.min(now.after(Millis::new(1)));
            }
            jobs.push(Evictable { moves: true, ..job });
        }
        jobs.sort_unstable_by_key(|it| (it.n_devices_on(node_pos), it.order));
        Self { basis, valid: now..until, jobs }
    }
}
