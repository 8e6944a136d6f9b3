//! Stage consolidate: running jobs move to other places so that a larger job fits on a node. Small
//! jobs leave the node with the fewest jobs in the way, if each of them fits elsewhere at once and
//! saves its work.
//!
//! Source: the consolidation of Run:ai and KAI. On the Philly trace, fragmentation and not order
//! keeps gangs waiting.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::{Exit, Phase};
use gpool_world::{JobRow, fit_of};

use crate::capacity::{Bookings, Placed, View, n_missing, put, times_on};
use crate::victims::{
    Backoff, ByNode, Evictable, Evictions, Input, Solution, Test, VictimNode, best_exit,
};

/// After this many searches without a result, a cycle searches no more: each reads many nodes.
const FAILURES_MAX: usize = 8;

/// The jobs of a cycle that may move, computed for a node when a search first reads it.
#[derive(Default)]
pub(crate) struct Movables {
    /// On each node, the smaller ones first.
    by_node: ByNode,
    /// Failed searches: if all jobs move, and if some leave for good.
    n_failures: [usize; 2],
    /// Demands of failed searches in which all jobs move, by the number of evictions before and the
    /// most moves. Fewer moves fail too: within a cycle, only evictions make room.
    failed: BTreeMap<(usize, u64), Backoff>,
}

/// The rules for one job that moves others.
pub(crate) struct Moving<'c> {
    /// Jobs that may leave without a new place, by position of the node in the capacity.
    pub giving: BTreeMap<usize, Vec<&'c Evictable>>,
    /// The most jobs that may leave, for good or not.
    pub n_most: u64,
    /// Whether the job may start once these have left for good.
    pub may_have: &'c Test<'c>,
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
    move_others(input, evictions, movables, &moving)
}

/// Moves other jobs elsewhere so that a job can start, while some leave for good: for the job, or
/// for the jobs that move.
pub(crate) fn move_others(
    input: Input<'_, '_>,
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
    let n_devices = |(ix, all): (&usize, &Vec<&Evictable>)| {
        (*ix, all.iter().map(|it| it.n_devices_on(*ix)).sum())
    };
    let n_given: BTreeMap<usize, usize> = moving.giving.iter().map(n_devices).collect();
    // With the devices that shares could leave.
    let n_free = |ix: usize| capacity.nodes[ix].n_free + capacity.nodes[ix].n_shared;
    let n_free: usize = capacity.with_free(0).map(n_free).sum();
    if n_free + n_given.values().sum::<usize>() < n_asked {
        return None;
    }
    let key = (evictions.gone.len(), moving.n_most);
    let mut failed = movables.failed.range(key..=(key.0, u64::MAX));
    if which == 0 && failed.any(|(_, failed)| failed.applies_to(demand.shape)) {
        movables.n_failures[which] += 1;
        return None;
    }
    let found = demand.models().into_iter().find_map(|model| {
        let search = Search { input: input.of_model(model), evictions, moving, n_given: &n_given };
        search.clear(&mut movables.by_node)
    });
    let found = found.filter(|Solution { victims, .. }| {
        let gone: Vec<&Evictable> = victims.iter().filter(|it| !it.moves).collect();
        victims.len() as u64 <= moving.n_most && (moving.may_have)(&gone)
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
struct Search<'s, 'a, 'b> {
    input: Input<'a, 'b>,
    evictions: &'s Evictions,
    moving: &'s Moving<'s>,
    /// Number of devices that jobs may leave without a new place, by position of the node.
    n_given: &'s BTreeMap<usize, usize>,
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

impl Search<'_, '_, '_> {
    /// Clears the nodes for a job, one after the other: the node with the fewest devices in the
    /// way, and of equal nodes the one with the least lost work.
    fn clear(&self, movable: &mut ByNode) -> Option<Solution> {
        let capacity = self.input.view.capacity;
        let n_given = |ix: usize| self.n_given.get(&ix).copied().unwrap_or(0);
        let n_open = |ix: usize| Reverse(capacity.nodes[ix].n_free + n_given(ix));
        let mut nodes: Vec<(Reverse<usize>, usize)> =
            capacity.with_free(0).map(|ix| (n_open(ix), ix)).collect();
        nodes.sort_unstable();
        let mut draft = Draft::default();
        loop {
            self.take_free(&nodes, &mut draft);
            if n_missing(&draft.placed, self.input.demand.fit()) == 0 {
                break;
            }
            let mut best: Option<(Reverse<usize>, Clearing)> = None;
            for (n_open, ix) in &nodes {
                if best.as_ref().is_some_and(|(than, _)| n_open > than) {
                    break;
                }
                let option = self.clearing(&draft, movable, *ix);
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

    /// Takes free capacity first, for jobs that need more than one place.
    fn take_free(&self, nodes: &[(Reverse<usize>, usize)], draft: &mut Draft) {
        let Input { view, demand, .. } = self.input;
        if demand.n_units() == 1 {
            return;
        }
        let is_free = |ix: usize| {
            let n_devices = demand.times(times_on(&draft.placed, ix) + 1).n_devices();
            !draft.bookings.has(ix) && view.capacity.nodes[ix].n_free >= n_devices
        };
        let free: Vec<usize> = nodes.iter().map(|(_, ix)| *ix).filter(|ix| is_free(*ix)).collect();
        let Draft { placed, victims, .. } = draft;
        self.input.place_without_more(self.evictions, victims, free.into_iter(), placed);
    }

    /// The jobs that leave a node so that one more unit fits there.
    fn clearing(&self, draft: &Draft, movable: &mut ByNode, node_pos: usize) -> Option<Clearing> {
        let Self { input, evictions, moving, n_given } = self;
        let View { snapshot, capacity, holds, .. } = input.view;
        let times = times_on(&draft.placed, node_pos) + 1;
        let demand = input.demand.times(times);
        if times > input.most_on(node_pos) || draft.bookings.has(node_pos) {
            return None;
        }
        // A job with more devices than are open elsewhere has no other place.
        let n_open = |ix: &usize| capacity.nodes[*ix].n_free + n_given.get(ix).unwrap_or(&0);
        let elsewhere = capacity.with_free(0).filter(|ix| *ix != node_pos);
        let largest = elsewhere.map(|ix| n_open(&ix)).max().unwrap_or(0).max(1);
        let n_moved = usize::try_from(moving.n_most).unwrap_or(usize::MAX).saturating_mul(largest);
        if n_open(&node_pos).saturating_add(n_moved) < demand.n_devices() {
            return None;
        }
        // Jobs that leave for good come first.
        let giving = moving.giving.get(&node_pos).map_or(&[][..], Vec::as_slice);
        let stays = |it: &&Evictable| giving.iter().all(|other| other.job != it.job);
        let movable = movable.entry(node_pos).or_insert_with(|| movable_on(input, node_pos));
        let mut all: Vec<&Evictable> =
            giving.iter().copied().chain(movable.iter().filter(stays)).collect();
        if moving.n_at_most(&all, node_pos) + capacity.nodes[node_pos].n_free < demand.n_devices() {
            return None;
        }
        let node = VictimNode::new(input.view, demand, node_pos, evictions)?;
        let gone: Vec<&Evictable> = draft.victims.iter().collect();
        if let Some(placed) = node.place(&gone) {
            let bookings = draft.bookings.clone();
            return Some(Clearing { cost: (0, 0), placed, victims: Vec::new(), bookings });
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
                !bookings.book(capacity, holds, &fit_of(row), &closed, n_given)
            });
            stuck.map_or(Ok(()), |it| Err(Some(it.job)))
        };
        let (victims, placed) = node.fewest(&draft.victims, all, &|_| true, &mut judge)?;
        let lost = victims.iter().map(|it| it.order.lost).fold(0, u64::saturating_add);
        Some(Clearing { cost: (victims.len(), lost), placed, victims, bookings })
    }
}

impl Moving<'_> {
    /// The most devices of a node that these jobs give up together: computed before places for them
    /// are searched.
    fn n_at_most(&self, all: &[&Evictable], node_pos: usize) -> usize {
        let mut sizes: Vec<usize> = all.iter().map(|it| it.n_devices_on(node_pos)).collect();
        sizes.sort_unstable_by_key(|n_devices| Reverse(*n_devices));
        sizes.into_iter().take(usize::try_from(self.n_most).unwrap_or(usize::MAX)).sum()
    }
}

/// The jobs on one node only, with whole devices or a share of one, that have run for a while and
/// save their work before they leave.
fn movable_on(input: &Input<'_, '_>, node_pos: usize) -> Vec<Evictable> {
    let Input { view, projects, .. } = input;
    let world = view.snapshot.world;
    let rows = view.capacity.nodes[node_pos].jobs().filter_map(|id| world.job(id));
    let jobs = rows.filter(|row| is_movable(input, row)).filter_map(|row| {
        let project_ix = world.ix_of_project(&row.spec.project)?;
        let amounts = projects.amounts_of(world, row);
        let job = Evictable::of(view, projects, (row, project_ix), &amounts, false)?;
        Some(Evictable { moves: true, ..job })
    });
    let mut all: Vec<Evictable> = jobs.collect();
    all.sort_unstable_by_key(|it| (it.n_devices_on(node_pos), it.order));
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
