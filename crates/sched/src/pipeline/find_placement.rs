//! Stage place: finds the placement of a job that starts now. It filters the nodes, scores them,
//! and assigns devices; or names the reason why there is none.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::{JobId, Millis, Placement, Policy, Reason, Shape};
use gpool_world::{FitIx, Snapshot, World};

use crate::capacity::{
    Candidate, Capacity, Demand, Departures, Drawbacks, Freed, Holds, ModelRanks, Placed, Timeline,
    View, most_times, share_out,
};
use crate::fit_reason;
use crate::node_scores::{Fragmentation, NodeComparison};
use crate::quota_state::resource_flavors::of_one_model;
use crate::topology::{self, in_domains};
use crate::victims::Solution;

/// Nodes of equal score that are compared by expected ends.
const ALIKE_MAX: usize = 512;

/// A demand that found no place: it holds for all jobs with this demand that run as long, or
/// longer.
#[derive(Debug, Clone)]
struct Failed {
    /// `None` is forever.
    length: Option<Millis>,
    reason: Reason,
}

impl Failed {
    fn covers(&self, length: Option<Millis>) -> bool {
        length.is_none_or(|length| self.length.is_some_and(|failed| failed <= length))
    }
}

/// The demands that found no place in a cycle, and the scores of placements.
#[derive(Debug, Clone, Default)]
pub(super) struct Placing {
    /// By [`FitIx`]: of jobs that no reservation admits.
    failed: Vec<Option<Failed>>,
    /// The same for other jobs: by the flavor that they are limited to, and the reservations that
    /// admit them.
    failed_inside: BTreeMap<(FlavorKey, Vec<usize>), Failed>,
    fragmentation: Fragmentation,
}

/// The demand of a job, and the class of GPUs and the domain of its topology that a flavor limits
/// it to.
pub(super) type FlavorKey = (FitIx, Option<usize>, Option<usize>);

impl Placing {
    pub fn begin(&mut self, world: &World) {
        self.fragmentation.begin();
        self.failed.clear();
        self.failed.resize(world.n_fit_rows(), None);
        self.failed_inside.clear();
    }

    /// Whether a job of that run time that no reservation admits is known to find no place.
    pub fn has_failed(&self, FitIx(fit_ix): FitIx, length: Option<Millis>) -> bool {
        self.failed[fit_ix].as_ref().is_some_and(|failed| failed.covers(length))
    }

    /// Whether a job is known to find no place. That holds while the cycle gives capacity out, and
    /// no longer once a job gives some back.
    pub fn is_any_failed(&self) -> bool {
        !self.failed_inside.is_empty() || self.failed.iter().any(Option::is_some)
    }

    /// Returns where a job can start at once. Without a key, it neither reads nor notes the
    /// demands that found no place.
    ///
    /// # Errors
    /// The reason why it has no place: with `is_shown`, exact numbers; otherwise only the kind.
    pub fn place(
        &mut self,
        view: View<'_, '_>,
        demand: Demand<'_>,
        flavor: Option<FlavorKey>,
        is_shown: bool,
    ) -> Result<Solution, Reason> {
        let Some(flavor) = flavor else {
            return self.find(view, demand).ok_or_else(|| reason(view, demand, is_shown));
        };
        let (length, access) = (demand.shape.takes, view.holds.access(demand.shape));
        let (FitIx(fit_ix), class, domain) = flavor;
        let is_usual = access.is_empty() && class.is_none() && domain.is_none();
        let key = (flavor, access);
        let failed = match is_usual {
            true => self.failed[fit_ix].as_ref(),
            false => self.failed_inside.get(&key),
        };
        if let Some(failed) = failed.filter(|failed| failed.covers(length)) {
            return Err(failed.reason.clone());
        }
        if let Some(solution) = self.find(view, demand) {
            return Ok(solution);
        }
        let reason = reason(view, demand, is_shown);
        let failed = Failed { length, reason: reason.clone() };
        match is_usual {
            true => self.failed[fit_ix] = Some(failed),
            false => drop(self.failed_inside.insert(key, failed)),
        }
        Err(reason)
    }

    /// The same without the reason.
    pub fn find(&mut self, view: View<'_, '_>, demand: Demand<'_>) -> Option<Solution> {
        let View { snapshot, capacity, .. } = view;
        // To score nodes takes longer than to find that none has room.
        if Fragmentation::has_scores_for(demand.fit()) && !has_room(view, demand) {
            return None;
        }
        let mut look = self.fragmentation.look(&snapshot, capacity, demand.shape);
        let placed = find_placement(view, demand, look.as_mut())?;
        Some(Solution { placed, victims: Vec::new() })
    }
}

/// Whether a node has room for a job of one node now.
fn has_room(view: View<'_, '_>, demand: Demand<'_>) -> bool {
    let ranks = view.capacity.ranks(&demand.fit().gpus);
    (0..ranks.n_ranks).any(|model| {
        let search = PlacementSearch { view, demand: demand.of_model(Some(model)), ranks: &ranks };
        search.nodes().any(|node_pos| search.fits_on(node_pos, 1).is_some())
    })
}

/// Returns where the tasks of a job of that shape would go if it were next in the queue, by rank.
/// Pending jobs do not count.
pub fn would_place(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    shape: &Shape,
) -> Result<Vec<Placement>, Reason> {
    if !shape.parts.is_empty() {
        return would_place_parts(snapshot, policy, shape);
    }
    let capacity = Capacity::new(snapshot.world);
    let holds = Holds::of(snapshot, policy, &capacity);
    let policy = policy.of_pool(shape.domain.as_ref());
    let shape = of_one_model(snapshot.world, shape);
    let timeline = &Timeline::new(snapshot);
    let view = View { snapshot: *snapshot, capacity: &capacity, holds: &holds, timeline };
    let found = place_alone(view, policy, &shape)?;
    Ok(capacity.placements(&found, &shape.fit))
}

/// The same for each part of a job, one after the other.
fn would_place_parts(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    shape: &Shape,
) -> Result<Vec<Placement>, Reason> {
    let mut capacity = Capacity::new(snapshot.world);
    let holds = Holds::of(snapshot, policy, &capacity);
    let policy = policy.of_pool(shape.domain.as_ref());
    let timeline = &Timeline::new(snapshot);
    let parts: Vec<Shape> = (0..shape.parts.len()).map(|at| shape.of_part(at)).collect();
    let mut placements = vec![Vec::new(); parts.len()];
    for at in hardest_first(&parts) {
        let part = of_one_model(snapshot.world, &parts[at]);
        let view = View { snapshot: *snapshot, capacity: &capacity, holds: &holds, timeline };
        let found = place_alone(view, policy, &part).map_err(|reason| {
            let part = Arc::clone(&shape.parts[at].name);
            Reason::OfPart { part, reason: Box::new(reason) }
        })?;
        placements[at] = capacity.placements(&found, &part.fit);
        for placed in &found {
            capacity.book(JobId::single(0), placed, &part.fit);
        }
    }
    Ok(placements.concat())
}

/// The place of one shape beside what is booked.
fn place_alone(view: View<'_, '_>, policy: &Policy, shape: &Shape) -> Result<Vec<Placed>, Reason> {
    let mut reasons = Vec::new();
    for (_, shape) in in_domains(view.snapshot.world, view.capacity, Cow::Borrowed(shape)) {
        let demand = Demand::new(&shape, policy, 0);
        match Placing::default().find(view, demand) {
            Some(found) => return Ok(found.placed),
            None => reasons.push(reason(view, demand, true)),
        }
    }
    Err(of_domains(view, shape, &reasons)
        .or_else(|| reasons.pop())
        .unwrap_or_else(|| reason(view, Demand::new(shape, policy, 0), true)))
}

/// The positions of the parts of a job in the order in which they are placed: first those that
/// need most of one node.
pub(super) fn hardest_first(parts: &[Shape]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let need = |at: &usize| {
        let fit = &parts[*at].fit;
        let n_tasks = u64::from(fit.gang.tasks_per_node);
        let host = (fit.cpus.get().saturating_mul(n_tasks), fit.memory.get());
        Reverse((fit.n_devices_on_node(), fit.gpus.share().is_none(), host))
    };
    order.sort_by_key(need);
    order
}

/// Why a gang has a place in none of the domains that it needs: one reason for all, unless another
/// one than its size keeps it from one of them. `None` if it needs no domain, or has a place in one
/// and may not have it. `reasons` are those of the domains.
pub(super) fn of_domains(view: View<'_, '_>, shape: &Shape, reasons: &[Reason]) -> Option<Reason> {
    let View { snapshot, capacity, .. } = view;
    let of_one_model = of_one_model(snapshot.world, shape);
    let short = topology::reason(snapshot.world, capacity, &of_one_model.fit)?;
    let is_of_size = |it: &&Reason| {
        matches!(
            it,
            Reason::NodesNotFree { .. }
                | Reason::TasksNotFree { .. }
                | Reason::NodeDrained { .. }
                | Reason::AgentUnreachable { .. }
        )
    };
    if let Some(other) = reasons.iter().find(|it| !is_of_size(it)) {
        return Some(other.clone());
    }
    if let Reason::NodesNotFree { need, free, .. } | Reason::TasksNotFree { need, free, .. } =
        &short
        && free >= need
    {
        return None;
    }
    Some(short)
}

/// Returns the best placement of all tasks of a job that starts now, in the order of nodes.
///
/// The earliest model of the request that all tasks can have comes first. A job of one node goes
/// where, by `look`, the remaining capacity fits most expected jobs, and of such nodes where it
/// delays the node's last end least. Shares go where they open the fewest devices. Then the nodes
/// with the fewest free devices come first, so that large jobs find whole nodes, then those where
/// guests lose least, then the lower names. The smallest MIG instances come before all of this.
/// Tasks that may share nodes get as few nodes as possible.
fn find_placement(
    view: View<'_, '_>,
    demand: Demand<'_>,
    mut look: Option<&mut NodeComparison<'_>>,
) -> Option<Vec<Placed>> {
    let ranks = view.capacity.ranks(&demand.fit().gpus);
    let mut on_nodes = |model| {
        let search = PlacementSearch { view, demand: demand.of_model(Some(model)), ranks: &ranks };
        match &mut look {
            Some(look) => Some(vec![search.most_useful(look)?]),
            None if demand.fit().gang.anywhere => search.fewest_nodes(),
            None => search.fewest_opened(),
        }
    };
    let mut nodes = (0..ranks.n_ranks).find_map(&mut on_nodes)?;
    nodes.sort_unstable_by_key(|it| it.node_pos);
    let free = Freed::default();
    let now = Departures::Leaving(&free);
    let placed = nodes.into_iter().map(|candidate| {
        let node = &view.capacity.nodes[candidate.node_pos];
        let best_device = look.as_mut().and_then(|look| look.device_for_share(node));
        let on_best = best_device.and_then(|most| {
            candidate.place_where(now, &|device_ix| node.thousandths(device_ix) == most)
        });
        on_best.or_else(|| candidate.place(now))
    });
    placed.collect()
}

/// Returns the reason why a job has no placement now: a hold on the place that it would have
/// otherwise, or the resource that is short. With `is_shown`, it has exact numbers.
fn reason(view: View<'_, '_>, demand: Demand<'_>, is_shown: bool) -> Reason {
    let View { capacity, holds, .. } = view;
    let without_holds = Holds::default();
    let otherwise = match holds.are_none() {
        true => None,
        false => find_placement(View { holds: &without_holds, ..view }, demand, None),
    };
    let short = || fit_reason::reason(capacity, demand.fit(), is_shown);
    let not_reserved = holds.not_reserved(capacity, demand.shape);
    let Some(placed) = otherwise else {
        let short = short();
        // Where only reserved devices are given out, a device that becomes free does not help.
        return not_reserved.filter(|_| is_of_devices(&short)).unwrap_or(short);
    };
    let held = || {
        placed.iter().find_map(|placed| {
            let node = &capacity.nodes[placed.node_pos];
            holds.reason(placed.node_pos, node, demand.shape)
        })
    };
    not_reserved.or_else(held).unwrap_or_else(short)
}

/// Whether capacity that a job waits for may become free by itself, when other jobs end.
pub(super) fn waits_for_capacity(reason: &Reason) -> bool {
    if let Reason::OfPart { reason, .. } = reason {
        return waits_for_capacity(reason);
    }
    if let Reason::NodesNotFree { need, able, .. } | Reason::TasksNotFree { need, able, .. } =
        reason
    {
        return able >= need;
    }
    !matches!(
        reason,
        Reason::GpuModelMissing { .. }
            | Reason::GpuMemoryTooSmall { .. }
            | Reason::AgentUnreachable { .. }
            | Reason::NodeDrained { .. }
            | Reason::OnlyInPool { .. }
            | Reason::OnlyOnNodes { .. }
    )
}

/// Whether too few devices are free now.
fn is_of_devices(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::GpusNotFree { .. }
            | Reason::GpusNotFreeTogether { .. }
            | Reason::GpuShareNotFree { .. }
            | Reason::ShareNotAllowed { .. }
            | Reason::NodesNotFree { .. }
            | Reason::TasksNotFree { .. }
    ) && waits_for_capacity(reason)
}

/// The search for nodes with devices of one model of the request.
struct PlacementSearch<'a, 'b, 's> {
    view: View<'a, 'b>,
    demand: Demand<'b>,
    ranks: &'s ModelRanks,
}

impl<'a, 'b> PlacementSearch<'a, 'b, '_> {
    /// A node that has room for that many units, with the number of devices that they open.
    fn fits_on(&self, node_pos: usize, times: u32) -> Option<(usize, Candidate<'a, 'b>)> {
        let demand = self.demand.times(times);
        let node = &self.view.capacity.nodes[node_pos];
        if !node.may_fit_now(&demand, self.ranks) {
            return None;
        }
        let candidate = self.view.candidate(demand, node_pos)?;
        let n_opened = candidate.n_opened(self.ranks)?;
        Some((n_opened, candidate))
    }

    fn nodes(&self) -> impl Iterator<Item = usize> + use<'_, 'a, 'b> {
        self.view.capacity.with_free(self.demand.n_free_least())
    }

    /// The node on which the remaining capacity is most useful for expected jobs.
    fn most_useful(&self, look: &mut NodeComparison<'_>) -> Option<Candidate<'a, 'b>> {
        let mut best: Option<((i64, Reverse<usize>), Candidate<'a, 'b>)> = None;
        for node_pos in self.nodes() {
            let node = &self.view.capacity.nodes[node_pos];
            let Some(worth) = look.at(node) else { continue };
            let is_better = |key| best.as_ref().is_none_or(|(than, _)| key > *than);
            if is_better((worth, Reverse(0))) {
                let Some((n_opened, candidate)) = self.fits_on(node_pos, 1) else { continue };
                let key = (worth, Reverse(n_opened));
                if is_better(key) {
                    best = Some((key, candidate));
                }
            }
            if look.compared(node) {
                break;
            }
        }
        let ((worth, Reverse(n_opened)), candidate) = best?;
        Some(self.least_lengthened(look, worth, n_opened, candidate))
    }

    /// The first of the nodes with an equal score that has the smallest MIG instances, then where
    /// the job delays the last end least, because large jobs need nodes that become empty, then
    /// where guests lose least. `found` is one of them.
    fn least_lengthened(
        &self,
        look: &mut NodeComparison<'_>,
        worth: i64,
        n_opened: usize,
        found: Candidate<'a, 'b>,
    ) -> Candidate<'a, 'b> {
        let nodes = &self.view.capacity.nodes;
        let key = |lengthens, Drawbacks { size, lost }| (size, lengthens, lost);
        let lengthens = look.lengthens(&nodes[found.node_pos]);
        let mut best = (key(lengthens, drawbacks(&found)), found);
        let mut n_looks = 0;
        for node_pos in self.nodes() {
            let node = &nodes[node_pos];
            if best.0 == key(Millis::ZERO, Drawbacks::default()) || n_looks == ALIKE_MAX {
                break;
            }
            if node_pos == best.1.node_pos || look.cached_score(node) != Some(worth) {
                continue;
            }
            n_looks += 1;
            let lengthens = look.lengthens(node);
            if key(lengthens, Drawbacks::default()) < best.0
                && let Some((_, candidate)) =
                    self.fits_on(node_pos, 1).filter(|(n, _)| *n == n_opened)
            {
                let found = (key(lengthens, drawbacks(&candidate)), candidate);
                best = if found.0 < best.0 { found } else { best };
            }
        }
        best.1
    }

    /// The first of the nodes on which the fewest devices are opened.
    fn fewest_opened(&self) -> Option<Vec<Candidate<'a, 'b>>> {
        let n_nodes = usize::try_from(self.demand.n_units()).unwrap_or(usize::MAX);
        let is_of_parts = self.demand.share().is_some() || self.demand.gpus().is_of_instances();
        let mut n_perfect = 0;
        let mut fitting = Vec::new();
        for node_pos in self.nodes() {
            let Some((n_opened, candidate)) = self.fits_on(node_pos, 1) else { continue };
            let Drawbacks { size, lost } = drawbacks(&candidate);
            let n_free = self.view.capacity.nodes[node_pos].n_free;
            fitting.push(((n_opened, size, n_free, lost), candidate));
            // Nodes with fewer free devices come first, so no later one is better.
            n_perfect += usize::from(!is_of_parts && lost == 0);
            if n_perfect >= n_nodes {
                break;
            }
        }
        if fitting.len() < n_nodes {
            return None;
        }
        fitting.sort_by_key(|(key, _)| *key);
        fitting.truncate(n_nodes);
        Some(fitting.into_iter().map(|(_, candidate)| candidate).collect())
    }

    /// Nodes for tasks that may share nodes: the nodes with most room, of these the nodes on which
    /// the fewest devices are opened, then those with the fewest drawbacks, then the first.
    fn fewest_nodes(&self) -> Option<Vec<Candidate<'a, 'b>>> {
        let fitting = self.nodes().filter_map(|node_pos| {
            let most = self.view.capacity.most_on(self.demand.fit(), node_pos);
            let times = most_times(most, |times| self.fits_on(node_pos, times).is_some());
            let (n_opened, candidate) = self.fits_on(node_pos, times).filter(|_| times > 0)?;
            Some(((n_opened, drawbacks(&candidate)), (node_pos, times)))
        });
        let mut fitting: Vec<((usize, Drawbacks), (usize, u32))> = fitting.collect();
        fitting.sort_by_key(|(key, _)| *key);
        let fitting: Vec<(usize, u32)> = fitting.into_iter().map(|(_, units)| units).collect();
        let chosen = share_out(self.demand.n_units(), &fitting)?.into_iter();
        chosen.map(|(node_pos, times)| Some(self.fits_on(node_pos, times)?.1)).collect()
    }
}

/// The disadvantages of the devices that a job would get at once.
fn drawbacks(candidate: &Candidate<'_, '_>) -> Drawbacks {
    candidate.drawbacks(Departures::Leaving(&Freed::default()))
}
