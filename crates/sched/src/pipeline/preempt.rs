//! Preempting: a job goes before others of its project that run, may be taken back and have a
//! lower priority (SCHEDULING A10), make a job larger, or have had more GPU-time where the order
//! asks for that. Where nothing is shared between projects all jobs are of one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::attained::Level;
use gpool_model::{Millis, OrderKey, Policy, PoolName, Project, Shape, TakenBack};
use gpool_world::order::level_of_waiting;
use gpool_world::{JobRow, ProjectIx, Snapshot, World};

use crate::capacity::{Demand, Placed};
use crate::dominant_share::DominantShare;
use crate::fairshare::Row;
use crate::pipeline::consolidate::Clear;
use crate::pipeline::reclaim::{
    Evictions, Ground, Lent, Search, amounts_of, pauses_any, piece, put, stays_in_the_way,
};
use crate::quota_state::Projects;
use crate::victims::node::VictimNode;
use crate::victims::order::{Cost, cost};
use crate::victims::search::{each, first};

/// Whether jobs go before others that run: because of their priority or of what they have had,
/// where one of these is what the order asks first; or because others make jobs larger.
pub(crate) fn happens(world: &World, policy: &Policy) -> bool {
    matches!(policy.order.first(), Some(OrderKey::Priority | OrderKey::Attained))
        || world.joiners().next().is_some()
}

/// Whether anybody runs who may be taken back.
pub(crate) fn any_evictable(world: &World) -> bool {
    world.project_rows().iter().any(|row| !row.evictable.is_empty())
}

/// For what a job goes before others that run, by the first keys of the policy's order; less goes
/// before more. Whoever gives way comes after it in the queue as well, so that nobody takes the
/// same back; by a key that stands behind others it might not.
pub(crate) type Precedence = [i64; 3];

/// Before all others.
const FIRST: Precedence = [i64::MIN; 3];

pub(crate) fn precedence(
    policy: &Policy,
    (priority, joins): (i32, bool),
    level: Level,
) -> Precedence {
    // Of one priority what makes others larger comes last; elsewhere it does so before all else.
    let first = match policy.order.first() {
        Some(OrderKey::Priority) => 0,
        _ => i64::from(joins),
    };
    let mut keys = policy.order.iter().map_while(|key| match key {
        OrderKey::Priority => Some(i64::from(joins) - 2 * i64::from(priority)),
        OrderKey::Attained => Some(i64::from(level)),
        OrderKey::Escalated | OrderKey::Predicted | OrderKey::Gpus | OrderKey::Age => None,
    });
    [first, keys.next().unwrap_or(0), keys.next().unwrap_or(0)]
}

/// Of each project and of all, who comes last in the order of those that may go, where nothing but
/// priorities decides.
#[derive(Debug, Default)]
pub(crate) struct Lasts {
    of_all: Option<Precedence>,
    /// By row; none where nobody goes.
    by_row: Vec<Option<Precedence>>,
}

impl Lasts {
    pub fn new(world: &World, policy: &Policy, projects: Option<&Projects>) -> Self {
        let mut lasts = Self::default();
        let Some(projects) = projects.filter(|_| happens(world, policy)) else { return lasts };
        lasts.by_row.resize(projects.tree.len(), None);
        for (row, of) in world.project_rows().iter().zip(projects.rows()) {
            let all = row.evictable_by.keys().map(|rank| precedence(policy, *rank, 0));
            let last = all.max();
            for known in [&mut lasts.of_all, &mut lasts.by_row[of.ix()]] {
                *known = last.max(*known);
            }
        }
        lasts
    }

    /// Of one project, or of all.
    pub fn of(&self, project: Option<Row>) -> Precedence {
        let last = match project {
            None => self.of_all,
            Some(row) => self.by_row.get(row.ix()).copied().flatten(),
        };
        last.unwrap_or(FIRST)
    }
}

/// Who asks others of its project to give way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'u> {
    /// Who is charged for it.
    pub leaf: Row,
    /// For what, by kind.
    pub unit: &'u [u64],
    pub is_escalated: bool,
    /// How many may be made to stop at most so that others move for it.
    pub n_moved_most: u64,
}

/// Whether the project may have a job once these have gone.
pub(crate) type MayHave<'m> = &'m dyn Fn(&[&Lent]) -> bool;

/// What of a project, or of all, may go for others of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Own {
    /// Only those are here who come after that in the order.
    after: Precedence,
    /// Indexed by the node's position in the capacity; the first victim is first.
    by_node: BTreeMap<usize, Vec<Lent>>,
    /// Of whom that comes last in the order: nobody goes for whoever is not before that one.
    last: Precedence,
}

impl Evictions {
    /// Whose work of the same project goes so that a job can start, and where that is then; `None`
    /// if none may go that would help. `may_have` says whether its project may have it once these
    /// have given up what they hold.
    pub fn preempt(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        who: Asking<'_>,
        may_have: MayHave<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        self.waits_its_turn = false;
        let mut found = self.preempt_with(ground, demand, who, (may_have, true));
        let projects = ground.projects;
        let project = projects.are_shared.then(|| projects.project(who.leaf));
        let paused = self.own.get(&(project, true));
        if found.is_none() && paused.is_some_and(|own| pauses_any(&own.by_node)) {
            found = self.preempt_with(ground, demand, who, (may_have, false));
        }
        if found.is_none() && self.waits_its_turn {
            // For one after it, to whom they may matter less, nobody goes before its turn comes.
            self.be_patient(demand);
        }
        found
    }

    /// Whose work goes among those who may, and where there is room then: no more than it takes for
    /// the room, and for what the project may have.
    fn among(
        &self,
        search: Search<'_, '_, '_>,
        may_have: MayHave<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        if search.demand.n_units() == 1 {
            return self.on_one_node(search, may_have);
        }
        // Where somebody has to go for the room it is best if that is enough.
        let found = self.nodes(search, &[], &mut |_| Ok(()));
        found.filter(|(_, gone)| may_have(&gone.iter().collect::<Vec<_>>())).or_else(|| {
            let all = each(search.all, search.may_go);
            let gone = first(all, &may_have, &mut |_| Ok(()))?;
            self.nodes(search, &gone, &mut |_| Ok(()))
        })
    }

    /// The same with pauses, or without.
    fn preempt_with(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
        Asking { leaf, unit, is_escalated, n_moved_most }: Asking<'_>,
        (may_have, may_pause): (MayHave<'_>, bool),
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let (projects, policy) = (ground.projects, demand.policy);
        let project = projects.are_shared.then(|| projects.project(leaf));
        let shape = demand.shape;
        let asks = precedence_asked(policy, shape, is_escalated);
        // Mostly nobody comes after it: where nothing but priorities decides, that is told without
        // a look at the jobs.
        if !policy.asks_attained() && asks >= self.lasts.of(project) {
            return None;
        }
        let which = (project, may_pause);
        // Those who go first ask first, so what was looked up for one serves those after it.
        let known = self.own.remove(&which).filter(|own| own.after <= asks);
        let of = || of_project(ground, (policy, shape.domain.as_ref()), which, asks);
        let own = known.unwrap_or_else(of);
        if asks >= own.last || self.is_patient(demand) {
            self.own.insert(which, own);
            return None;
        }
        if let Some(found) = self.leaves_room(ground, demand).filter(|_| may_have(&[])) {
            self.wait_for(demand, &found);
            self.own.insert(which, own);
            return None;
        }
        let now = ground.snapshot.now;
        // What matters less goes at once; for all else, to change places has its cost.
        let is_too_soon = |it: &Lent| {
            let Reverse(started_at) = it.order.started_at;
            started_at.after(policy.min_run) > now
                && why(policy, it, (shape, is_escalated)) == TakenBack::Rotate
        };
        let comes_after = |it: &Lent| {
            precedence_of(policy, it) > asks
                && !self.gone.contains(&it.job)
                && !stays_in_the_way(ground, it)
        };
        let may_go = |it: &Lent| comes_after(it) && !is_too_soon(it);
        let search = Search { ground, demand, unit, all: &own.by_node, may_go: &may_go };
        let found = self.among(search, may_have);
        let waits = |it: &Lent| comes_after(it) && is_too_soon(it);
        let waits_its_turn = found.is_none()
            && own.by_node.values().flatten().any(waits)
            && self.among(Search { may_go: &comes_after, ..search }, may_have).is_some();
        let found = match found {
            Some(found) => Some(self.go(found)),
            None if n_moved_most > 0 => {
                let giving = own.by_node.iter().filter_map(|(ix, all)| {
                    let all: Vec<&Lent> = all.iter().filter(|it| may_go(it)).collect();
                    (!all.is_empty()).then_some((*ix, all))
                });
                let giving = giving.collect::<BTreeMap<_, _>>();
                // That nobody gives anything was tried before.
                let any = !giving.is_empty();
                let who = Clear { giving, n_most: n_moved_most, may_have };
                any.then(|| self.clear(ground, demand, who)).flatten()
            }
            None => None,
        };
        self.own.insert(which, own);
        if found.is_none() && waits_its_turn {
            self.waits_its_turn = true;
        }
        found
    }

    /// Where a job of one node has room once those have left who leave already, and nobody can come
    /// in between who finds room at once.
    pub(crate) fn leaves_room(
        &mut self,
        ground: Ground<'_, '_>,
        demand: &Demand<'_>,
    ) -> Option<Placed> {
        self.left.get_or_insert_with(|| left(ground));
        if !demand.is_of_one_node() {
            return None;
        }
        let left = self.left.iter().flatten().chain(self.freed.keys());
        let mut sites = left.filter_map(|ix| VictimNode::new(ground, *ix, *demand, self));
        sites.find_map(|site| site.found(&[]).filter(|found| site.is_left(found)))
    }

    /// Where others may have to go although there is room, since the project has all it may have.
    fn on_one_node(
        &self,
        search: Search<'_, '_, '_>,
        may_have: MayHave<'_>,
    ) -> Option<(Vec<Placed>, Vec<Lent>)> {
        let Search { ground, demand, unit, all, may_go } = search;
        let mut best: Option<(Cost, Placed, Vec<Lent>)> = None;
        for (node_pos, all) in all {
            let all: Vec<&Lent> = all.iter().filter(|it| may_go(it)).collect();
            let site = VictimNode::new(ground, *node_pos, *demand, self);
            let Some(site) = site.filter(|_| !all.is_empty()) else { continue };
            let found = |gone: &[&Lent]| {
                let found = site.found(gone)?;
                may_have(gone).then_some(found)
            };
            let Some((victims, found)) = least(&all, &found) else { continue };
            let cost = cost(ground.projects, &victims, unit, *node_pos);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, found, victims.into_iter().cloned().collect()));
            }
        }
        best.map(|(_, found, victims)| (vec![found], victims))
    }
}

fn precedence_of(policy: &Policy, it: &Lent) -> Precedence {
    precedence(policy, (it.order.priority, !it.order.stays), it.order.level.0)
}

fn precedence_asked(policy: &Policy, shape: &Shape, is_escalated: bool) -> Precedence {
    let level = level_of_waiting(shape, is_escalated);
    precedence(policy, (shape.priority, shape.joins), level)
}

/// Why one that runs gives way to a job of that shape: by the first key in which they differ.
pub(crate) fn why(policy: &Policy, it: &Lent, (shape, is_escalated): (&Shape, bool)) -> TakenBack {
    if it.moves {
        return TakenBack::Consolidate;
    }
    let asks = precedence_asked(policy, shape, is_escalated);
    let differs = precedence_of(policy, it).iter().zip(asks).position(|(has, asks)| *has != asks);
    match differs.and_then(|at| policy.order.get(at.checked_sub(1)?)) {
        Some(OrderKey::Attained) => TakenBack::Rotate,
        Some(OrderKey::Priority) if it.order.priority < shape.priority => TakenBack::Preempt,
        _ => TakenBack::Shrink,
    }
}

/// The least of those that has to go, in the order in which they go, and the place that is had
/// then; `None` if all of them are not enough.
pub(crate) fn least<'l, T>(
    all: &[&'l Lent],
    found: &dyn Fn(&[&Lent]) -> Option<T>,
) -> Option<(Vec<&'l Lent>, T)> {
    let mut chosen = Vec::new();
    let mut place = None;
    for it in all {
        chosen.push(*it);
        place = found(&chosen);
        if place.is_some() {
            break;
        }
    }
    let mut place = place?;
    // The last one was needed. Of the others, who would go last stays first.
    for at in (0..chosen.len() - 1).rev() {
        let mut fewer = chosen.clone();
        fewer.remove(at);
        if let Some(other) = found(&fewer) {
            (chosen, place) = (fewer, other);
        }
    }
    Some((chosen, place))
}

/// All that may go of a project, or of all, for those who are not before `after`, and about whom
/// the same policy decides: by another one it might go before that one itself.
fn of_project(
    ground: Ground<'_, '_>,
    (policy, domain): (&Policy, Option<&PoolName>),
    (project, may_pause): (Option<Row>, bool),
    after: Precedence,
) -> Own {
    let Snapshot { world, now } = *ground.snapshot;
    let projects = ground.projects;
    let mut own = Own { after, last: FIRST, by_node: BTreeMap::new() };
    for (ix, (row, of)) in world.project_rows().iter().zip(projects.rows()).enumerate() {
        if project.is_some_and(|project| project != *of) || row.evictable.is_empty() {
            continue;
        }
        let safe_for = min_runtime(ground, row);
        let is_of_domain = |job: &&JobRow| world.policy().domain(job.spec.pool.as_ref()) == domain;
        let jobs = row.evictable.iter().filter_map(|id| world.job(*id));
        for job in jobs.filter(is_of_domain) {
            let level = match policy.asks_attained() {
                true => policy.level(job.job.counted(now)),
                false => 0,
            };
            let has = precedence(policy, (job.job.priority, job.spec.joins.is_some()), level);
            if has <= after {
                continue;
            }
            let leaf = projects.leaf_of(ProjectIx(ix), job.spec.owner.uid);
            let amounts = amounts_of(world, projects, job);
            let piece = piece(&ground, (job, may_pause), leaf, &amounts, DominantShare::EQUAL);
            let Some(mut piece) = piece else { continue };
            if policy.asks_attained() {
                piece.order.level = Reverse(level);
                piece.order.came_at = Some(Reverse(job.spec.submitted_at));
            }
            let Reverse(started_at) = piece.order.started_at;
            if started_at.after(safe_for) <= now {
                own.last = own.last.max(has);
                put(&mut own.by_node, piece);
            }
        }
    }
    own.by_node.values_mut().for_each(|all| all.sort_unstable_by_key(|it| it.order));
    own
}

/// The nodes that a job leaves, by position in the capacity.
fn left(ground: Ground<'_, '_>) -> BTreeSet<usize> {
    let world = ground.snapshot.world;
    let held = world.leaving().flat_map(|row| row.job.phase.allocations());
    held.filter_map(|it| ground.capacity.position(world, &it.node)).collect()
}

/// For how long what a project started is safe from others of it: as it or the first above it
/// says.
fn min_runtime(ground: Ground<'_, '_>, row: &gpool_world::ProjectRow) -> Millis {
    let projects = ground.snapshot.world.projects();
    let above = |it: &&Project| projects.get(it.parent.as_ref()?);
    let mut upwards = std::iter::successors(projects.get(&row.name), above).take(projects.len());
    upwards.find_map(|it| it.min_runtime.preempt).unwrap_or(Millis::ZERO)
}
