//! Moving what runs so that something larger finds room on a node: small jobs leave the node on
//! which fewest are in the way, if each of them finds room elsewhere at once and saves its work.
//!
//! Source: the consolidation of Run:ai and KAI; what it is worth is measured on the Philly trace,
//! where it is fragmentation and not order that lets gangs wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{Device, Exit, JobId, Phase, Share};
use gpool_world::JobRow;

use crate::capacity::{
    Capacity, Demand, HostResources, Placed, most_times, n_devices_on_node, n_missing, put,
    times_on,
};
use crate::dominant_share::DominantShare;
use crate::fairshare::Row;
use crate::pipeline::preempt::MayHave;
use crate::pipeline::reclaim::{
    Evictions, Ground, Lent, amounts_of, best_exit, piece, stays_in_the_way,
};
use crate::victims::node::VictimNode;

/// So many searches of a cycle may find nothing: each looks at many nodes.
const FAILURES_MAX: usize = 8;

/// A job that may be moved, and what it needs elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Movable {
    lent: Lent,
    fit: Fit,
}

/// How many devices of a node a job has, which one it is, and who is charged for it.
type Size = (Reverse<usize>, JobId, Row);

/// Those of a node that may be moved.
#[derive(Debug, Clone, Default)]
struct OnNode {
    /// The most devices first.
    sizes: Vec<Size>,
    /// What they need elsewhere, whoever is moved first first; worked out when somebody looks at
    /// the node.
    known: Option<Vec<Movable>>,
}

/// What may be moved in a cycle, worked out of a node when it is first asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Movables {
    /// By position of the node in the capacity, for nodes that were searched.
    by_node: BTreeMap<usize, OnNode>,
    /// Of searches among those who move, and of those in which others go for good.
    n_failures: [usize; 2],
}

/// How nodes may be cleared for one job.
pub(crate) struct Clear<'c> {
    /// By position of the node in the capacity: jobs that may leave without a new place.
    pub giving: BTreeMap<usize, Vec<&'c Lent>>,
    /// How many may go at most, wherever to.
    pub n_most: u64,
    /// Whether the job may have what it asks once those have gone for good.
    pub may_have: MayHave<'c>,
}

/// Who leaves a node, and what one that needs the node gets there.
struct Clearing {
    /// How many leave, and thousandths of a device times milliseconds that have to be run again.
    cost: (usize, u64),
    found: Placed,
    victims: Vec<Lent>,
    holes: Holes,
}

/// One who may leave a node: to a place elsewhere that has room for that, or for good.
#[derive(Clone, Copy)]
struct Leaver<'l> {
    lent: &'l Lent,
    moves: Option<&'l Fit>,
}

/// Those who may leave, for one job that waits.
struct Leavers<'l> {
    movable: &'l mut BTreeMap<usize, OnNode>,
    /// By position of the node in the capacity: jobs that may leave without a new place.
    giving: BTreeMap<usize, Vec<&'l Lent>>,
    /// How many may go at most.
    n_most: u64,
}

impl Leavers<'_> {
    /// How many devices of a node may be free at most once some of it have left: told without a
    /// look at where they would go.
    fn n_at_most(&mut self, ground: Ground<'_, '_>, node_pos: usize) -> usize {
        let giving = self.giving.get(&node_pos).into_iter().flatten();
        let giving = giving.map(|lent| (Reverse(n_held(lent, node_pos)), lent.job, lent.leaf));
        let moving = self.movable.entry(node_pos).or_insert_with(|| OnNode::of(ground, node_pos));
        let mut sizes: Vec<Size> = giving.chain(moving.sizes.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let n_most = usize::try_from(self.n_most).unwrap_or(usize::MAX);
        let n_left: usize = sizes.iter().take(n_most).map(|(Reverse(n), ..)| n).sum();
        ground.capacity.nodes[node_pos].n_free + n_left
    }

    /// Finds out what those of a node need elsewhere.
    fn look_at(&mut self, ground: Ground<'_, '_>, node_pos: usize) {
        if let Some(OnNode { sizes, known }) = self.movable.get_mut(&node_pos) {
            known.get_or_insert_with(|| movable(ground, sizes));
        }
    }

    /// On one node that was looked at; those who go for good come first.
    fn on(&self, node_pos: usize) -> Vec<Leaver<'_>> {
        let giving = self.giving.get(&node_pos).map_or(&[][..], Vec::as_slice);
        let gives = |job| giving.iter().any(|lent| lent.job == job);
        let moving = self.movable.get(&node_pos).and_then(|here| here.known.as_ref());
        let moving = moving.into_iter().flatten().filter(|it| !gives(it.lent.job));
        let giving = giving.iter().map(|lent| Leaver { lent, moves: None });
        giving.chain(moving.map(|it| Leaver { lent: &it.lent, moves: Some(&it.fit) })).collect()
    }

    /// How many devices those have of a node who may go for good.
    fn n_given(&self, node_pos: usize) -> usize {
        let giving = self.giving.get(&node_pos).into_iter().flatten();
        giving.map(|lent| n_held(lent, node_pos)).sum()
    }
}

fn n_held(lent: &Lent, node_pos: usize) -> usize {
    lent.held.get(&node_pos).map_or(0, |held| held.devices.len())
}

/// Capacity that moved jobs take, by position of the node.
#[derive(Debug, Clone, Default)]
struct Holes {
    taken: BTreeMap<usize, (usize, HostResources)>,
    /// Positions of nodes and of devices there of which somebody takes a share: one of each.
    shared: BTreeSet<(usize, usize)>,
}

impl Holes {
    /// Lets one have the first place that is free, or else that others give for it, and that is
    /// kept for nobody; false if there is none.
    fn take(
        &mut self,
        ground: Ground<'_, '_>,
        fit: &Fit,
        leavers: &Leavers<'_>,
        closed: &BTreeSet<usize>,
    ) -> bool {
        if let Some(share) = fit.gpus.share() {
            return self.take_share(ground, fit, share, closed);
        }
        let capacity = ground.capacity;
        let (n_devices, needs) = (n_devices_on_node(fit), HostResources::needed(fit));
        let ranks = capacity.ranks(&fit.gpus);
        let is_open = |node_pos: &usize, n_given: usize| {
            let node = &capacity.nodes[*node_pos];
            let (n_taken, room) = self.taken.get(node_pos).copied().unwrap_or_default();
            let has_devices =
                |rank| node.n_free_of(&ranks, Some(rank)) + n_given >= n_devices + n_taken;
            !closed.contains(node_pos)
                && !ground.holds.has(*node_pos)
                && node.takes(fit)
                && needs.first_short_with(room, node.free).is_none()
                && (0..ranks.n_ranks).any(has_devices)
        };
        let free = capacity.with_free(n_devices).find(|ix| is_open(ix, 0));
        let given = || {
            let mut giving = leavers.giving.keys().copied();
            giving.find(|ix| is_open(ix, leavers.n_given(*ix)))
        };
        let Some(node_pos) = free.or_else(given) else { return false };
        let (n_taken, room) = self.taken.entry(node_pos).or_default();
        *n_taken += n_devices;
        *room = room.more(needs);
        true
    }

    /// The same for a share of one device: beside other shares, or else of one that is free.
    fn take_share(
        &mut self,
        ground: Ground<'_, '_>,
        fit: &Fit,
        share: Share,
        closed: &BTreeSet<usize>,
    ) -> bool {
        let (capacity, needs) = (ground.capacity, HostResources::needed(fit));
        let device = |node_pos: usize, opens: bool| {
            let node = &capacity.nodes[node_pos];
            let (n_taken, room) = self.taken.get(&node_pos).copied().unwrap_or_default();
            if closed.contains(&node_pos)
                || ground.holds.has(node_pos)
                || !node.takes(fit)
                || !node.takes_shares()
                || needs.first_short_with(room, node.free).is_some()
                || (opens && node.n_free <= n_taken)
            {
                return None;
            }
            let has_room = |(ix, device): &(usize, &Device)| {
                node.is_free(*ix) == opens
                    && fit.gpus.rank_of(device).is_some()
                    && share.memory_of(device.memory) <= node.room(*ix)
                    && !self.shared.contains(&(node_pos, *ix))
            };
            node.row.node.devices.iter().enumerate().find(has_room).map(|(ix, _)| (node_pos, ix))
        };
        let first = |opens| capacity.with_free(0).find_map(|node_pos| device(node_pos, opens));
        let place = first(false).map(|place| (place, 0)).or_else(|| Some((first(true)?, 1)));
        let Some(((node_pos, device_ix), n_opened)) = place else { return false };
        self.shared.insert((node_pos, device_ix));
        let (n_taken, room) = self.taken.entry(node_pos).or_default();
        *n_taken += n_opened;
        *room = room.more(needs);
        true
    }
}

impl Evictions {
    /// Who moves elsewhere so that a job can start, and where that is then; `None` if nothing that
    /// could be moved would help. What is moved is nobody's loss but for the time that it takes:
    /// whose it is does not matter.
    pub fn consolidate(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        n_most: u64,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        if self.leaves_room(ground, demand).is_some() {
            return None;
        }
        self.clear(ground, demand, Clear { giving: BTreeMap::new(), n_most, may_have: &|_| true })
    }

    /// The same where some go for good, for it or for those who are moved.
    pub fn clear(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        Clear { giving, n_most, may_have }: Clear<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let fit = &demand.shape.fit;
        let n_asked = demand.times(demand.n_units()).n_devices();
        let is_whole = fit.gpus.share().is_none() && fit.at.is_empty() && n_asked > 0;
        let which = usize::from(!giving.is_empty());
        if !is_whole || self.movables.n_failures[which] >= FAILURES_MAX {
            return None;
        }
        let n_given: usize =
            giving.iter().flat_map(|(ix, all)| all.iter().map(|it| n_held(it, *ix))).sum();
        if ground.capacity.n_free_at_most() + n_given < n_asked {
            return None;
        }
        let mut movable = std::mem::take(&mut self.movables.by_node);
        let mut leavers = Leavers { movable: &mut movable, giving, n_most };
        let mut models = demand.models().into_iter();
        let found =
            models.find_map(|model| self.cleared(ground, &demand.of_model(model), &mut leavers));
        self.movables.by_node = movable;
        let found = found.filter(|(_, victims)| {
            let gone: Vec<&Lent> = victims.iter().filter(|it| !it.moves).collect();
            victims.len() as u64 <= n_most && may_have(&gone)
        });
        if found.is_none() {
            self.movables.n_failures[which] += 1;
        }
        found.map(|found| self.go(found))
    }

    /// The nodes that a job gets, one after the other: where fewest devices are in the way, and of
    /// these where least is lost.
    fn cleared(
        &self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        leavers: &mut Leavers<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let fit = &demand.shape.fit;
        let capacity = ground.capacity;
        let n_open = |ix: usize| capacity.nodes[ix].n_free + leavers.n_given(ix);
        let mut nodes: Vec<(Reverse<usize>, usize)> =
            capacity.with_free(0).map(|ix| (Reverse(n_open(ix)), ix)).collect();
        nodes.sort_unstable();
        let (mut found, mut victims) = (Vec::<Placed>::new(), Vec::<Lent>::new());
        let mut holes = Holes::default();
        loop {
            // What is free already comes first, for those who need more than one place.
            let several = nodes.iter().filter(|_| demand.n_units() > 1);
            for (_, ix) in several.filter(|(_, ix)| !holes.taken.contains_key(ix)) {
                let missing = n_missing(&found, fit);
                let has = times_on(&found, *ix);
                if capacity.nodes[*ix].n_free < demand.times(has + 1).n_devices() {
                    continue;
                }
                let most =
                    fit.most_on(&capacity.nodes[*ix].row.node).saturating_sub(has).min(missing);
                let gone: Vec<&Lent> = victims.iter().collect();
                let site = |more| VictimNode::new(ground, *ix, demand.times(has + more), self);
                let more =
                    most_times(most, |more| site(more).is_some_and(|site| site.has_room(&gone)));
                let more = site(more).filter(|_| more > 0).and_then(|site| site.found(&gone));
                more.into_iter().for_each(|more| put(&mut found, more));
            }
            if n_missing(&found, fit) == 0 {
                break;
            }
            let mut best: Option<(Reverse<usize>, Clearing)> = None;
            for (n_open, ix) in &nodes {
                if best.as_ref().is_some_and(|(than, _)| n_open > than) {
                    break;
                }
                let times = times_on(&found, *ix) + 1;
                let is_too_often = times > fit.most_on(&capacity.nodes[*ix].row.node);
                if is_too_often
                    || holes.taken.contains_key(ix)
                    || leavers.n_at_most(ground, *ix) < demand.times(times).n_devices()
                {
                    continue;
                }
                leavers.look_at(ground, *ix);
                let Some(site) = VictimNode::new(ground, *ix, demand.times(times), self) else {
                    continue;
                };
                let closed = found.iter().map(|found| found.node_pos).chain([*ix]).collect();
                let option = self.clearing(ground, &site, leavers, &victims, (&holes, &closed));
                let is_better =
                    |it: &Clearing| best.as_ref().is_none_or(|(_, best)| it.cost < best.cost);
                if let Some(better) = option.filter(is_better) {
                    best = Some((*n_open, better));
                }
            }
            let (_, best) = best?;
            put(&mut found, best.found);
            victims.extend(best.victims);
            holes = best.holes;
        }
        found.sort_by_key(|found| found.node_pos);
        (!victims.is_empty()).then_some((found, victims))
    }

    /// Who else leaves one node so that a job finds room there.
    fn clearing(
        &self,
        ground: Ground<'_, '_>,
        site: &VictimNode<'_, '_>,
        leavers: &Leavers<'_>,
        victims: &[Lent],
        (holes, closed): (&Holes, &BTreeSet<usize>),
    ) -> Option<Clearing> {
        let gone: Vec<&Lent> = victims.iter().collect();
        if let Some(found) = site.found(&gone) {
            let holes = holes.clone();
            return Some(Clearing { cost: (0, 0), found, victims: Vec::new(), holes });
        }
        let mut all = leavers.on(site.node_pos);
        all.retain(|it| {
            let goes = victims.iter().any(|victim| victim.job == it.lent.job);
            !goes && !self.gone.contains(&it.lent.job) && !stays_in_the_way(ground, it.lent)
        });
        loop {
            let lents: Vec<&Lent> = all.iter().map(|it| it.lent).collect();
            let more = site.least(victims, &lents)?;
            let mut holes = holes.clone();
            let leaves = |it: &&Leaver<'_>| more.iter().any(|lent| lent.job == it.lent.job);
            let mut leaving = all.iter().filter(leaves);
            let stuck = leaving
                .find(|it| it.moves.is_some_and(|fit| !holes.take(ground, fit, leavers, closed)));
            match stuck {
                Some(stuck) => {
                    let stuck = stuck.lent.job;
                    all.retain(|it| it.lent.job != stuck);
                }
                None => {
                    let gone: Vec<&Lent> = victims.iter().chain(more.iter().copied()).collect();
                    let found = site.found(&gone)?;
                    let lost = more.iter().map(|it| it.order.lost).fold(0, u64::saturating_add);
                    let cost = (more.len(), lost);
                    let victims = more.into_iter().cloned().collect();
                    return Some(Clearing { cost, found, victims, holes });
                }
            }
        }
    }
}

impl OnNode {
    /// Jobs on that node alone, with whole devices or a share of one, that have run for a while and
    /// save their work before they leave.
    fn of(ground: Ground<'_, '_>, node_pos: usize) -> Self {
        let (world, projects) = (ground.snapshot.world, ground.projects);
        let here = &ground.capacity.nodes[node_pos].row.here;
        let mut jobs: Vec<JobId> = here.iter().map(|task| task.job).collect();
        jobs.dedup();
        let size = |id: JobId| {
            let job = world.job(id).filter(|job| is_movable(ground, job))?;
            let project_ix = world.ix_of_project(&job.spec.project)?;
            let held = job.job.phase.allocations();
            let n_devices = held.iter().map(|it| it.slots.len()).sum();
            let leaf = projects.leaf_of(project_ix, job.spec.owner.uid);
            Some((Reverse(n_devices), id, leaf))
        };
        let mut sizes: Vec<Size> = jobs.into_iter().filter_map(size).collect();
        sizes.sort_unstable();
        Self { sizes, known: None }
    }
}

/// What these need elsewhere. The smaller ones go first.
fn movable(ground: Ground<'_, '_>, jobs: &[Size]) -> Vec<Movable> {
    let (world, projects) = (ground.snapshot.world, ground.projects);
    let known = jobs.iter().filter_map(|(_, id, leaf)| {
        let job = world.job(*id)?;
        let amounts = amounts_of(world, projects, job);
        let mut lent = piece(&ground, (job, false), *leaf, &amounts, DominantShare::EQUAL)?;
        lent.moves = true;
        Some(Movable { lent, fit: gpool_world::fit_of(job) })
    });
    let mut all: Vec<Movable> = known.collect();
    all.sort_unstable_by_key(|it| (n_devices_on_node(&it.fit), it.lent.order));
    all
}

fn is_movable(ground: Ground<'_, '_>, row: &JobRow) -> bool {
    let snapshot = ground.snapshot;
    let Phase::Running { started_at, .. } = &row.job.phase else { return false };
    let started_at = started_at.after(row.job.course.paused);
    let policy = snapshot.world.policy_of(row);
    let n_devices = row.spec.gpus.n_devices().saturating_mul(row.spec.gang.tasks_per_node);
    policy.consolidate
        && row.is_evictable()
        && row.spec.gang.nodes_most == 1
        && row.spec.joins.is_none()
        && n_devices > 0
        && (row.spec.gpus.share().is_none() || n_devices == 1)
        && started_at.after(policy.min_run) <= snapshot.now
        && best_exit(snapshot.world, row, false) == Some(Exit::Checkpoint)
}

impl Capacity<'_> {
    /// How many devices of all nodes that take work are free, or would be if shares went elsewhere.
    fn n_free_at_most(&self) -> usize {
        self.with_free(0).map(|ix| self.nodes[ix].n_free + self.nodes[ix].n_shared()).sum()
    }
}
