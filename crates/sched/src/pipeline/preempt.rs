//! Stage preempt: jobs of the same project leave for a job that has a higher priority
//! (scheduling.md A10), or has had less GPU-time where the policy's order asks for that. Jobs that
//! make another job larger leave first. Without shares between projects all jobs count as one
//! project.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::attained::Level;
use gpool_model::{OrderKey, Policy, Shape, TakenBack};
use gpool_world::order::level_of_waiting;
use gpool_world::{JobRow, ProjectIx, World};

use crate::fairshare::TreeIx;
use crate::pipeline::consolidate::{Movables, Moving, move_others};
use crate::preemption;
use crate::quota_state::Projects;
use crate::victims::{
    ByNode, Evictable, EvictionProblem, Evictions, RoomAnswer, Solution, Test, VictimSearch,
    add_on_nodes, fewest_that, in_order, pauses_any,
};

/// The precedence of a job, by the first keys of the policy's order; less comes first. A job is
/// only preempted by jobs that also come before it in the queue, so no job takes its place back.
/// Keys behind others would not ensure that.
pub(crate) type Precedence = [i64; 3];

const FIRST: Precedence = [i64::MIN; 3];

pub(crate) fn precedence(
    policy: &Policy,
    (priority, joins): (i32, bool),
    level: Level,
) -> Precedence {
    // Of equal priorities, jobs that make others larger come last; without priorities they come
    // last of all.
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

/// The last precedence of all evictable jobs, of each project and in all, by priorities alone.
#[derive(Debug, Default)]
pub(crate) struct Lasts {
    of_all: Option<Precedence>,
    /// By row; `None` without evictable jobs.
    by_row: Vec<Option<Precedence>>,
}

impl Lasts {
    pub fn new(world: &World, policy: &Policy, projects: Option<&Projects>) -> Self {
        let mut lasts = Self::default();
        let Some(projects) = projects.filter(|_| preemption::is_possible(world, policy)) else {
            return lasts;
        };
        lasts.by_row.resize(projects.tree.len(), None);
        for (row, of) in world.project_rows().iter().zip(&projects.rows) {
            let all = row.evictable_by.keys().map(|rank| precedence(policy, *rank, 0));
            let last = all.max();
            for known in [&mut lasts.of_all, &mut lasts.by_row[of.ix()]] {
                *known = last.max(*known);
            }
        }
        lasts
    }

    /// Of one project, or of all.
    pub fn of(&self, project: Option<TreeIx>) -> Precedence {
        let last = match project {
            None => self.of_all,
            Some(row) => self.by_row.get(row.ix()).copied().flatten(),
        };
        last.unwrap_or(FIRST)
    }
}

/// The conditions under which one job preempts others.
#[derive(Clone, Copy)]
pub(crate) struct Preemptor<'m> {
    pub is_escalated: bool,
    /// The most jobs that may move for it.
    pub n_moved_most: usize,
    pub may_have: &'m Test<'m>,
}

/// The evictable jobs of a project, or of all.
#[derive(Debug, Clone, Default)]
struct OfProject {
    /// All come after this in precedence.
    after: Precedence,
    by_node: ByNode,
    /// The lowest precedence among these jobs. A job that is not above it can preempt nothing.
    last: Precedence,
}

/// The jobs that may be preempted in a cycle, computed when a job first asks for them.
#[derive(Default)]
pub(crate) struct Preempting {
    cache: BTreeMap<Among, OfProject>,
    pub lasts: Lasts,
}

/// The jobs among which a job preempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Among {
    /// Their project; `None` is any.
    project: Option<TreeIx>,
    may_pause: bool,
}

impl Preempting {
    /// Begins with the jobs that another policy schedules: it has another precedence.
    pub fn begin(&mut self, lasts: Lasts) {
        self.lasts = lasts;
        self.cache.clear();
    }

    /// Forgets the jobs that it read.
    pub fn forget(&mut self) {
        self.cache.clear();
    }

    /// Searches jobs of the same project to preempt, so that a job can start.
    pub fn preempt(
        &mut self,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
        movables: &mut Movables,
        preemptor: Preemptor<'_>,
    ) -> RoomAnswer {
        let projects = input.projects;
        let project = projects.are_shared.then(|| projects.project(input.leaf));
        let mut answer = RoomAnswer::Nothing;
        for may_pause in [true, false] {
            let known = self.cache.get(&Among { project, may_pause: true });
            if !may_pause && !known.is_some_and(|known| pauses_any(&known.by_node)) {
                break;
            }
            let among = Among { project, may_pause };
            match self.preempt_among(among, input, evictions, movables, preemptor) {
                RoomAnswer::Start(found) => return RoomAnswer::Start(found),
                RoomAnswer::Nothing => {}
                // That some may leave later counts, whether others are leaving or not.
                RoomAnswer::Leaving if matches!(answer, RoomAnswer::TooSoon) => {}
                other => answer = other,
            }
        }
        if matches!(answer, RoomAnswer::TooSoon) {
            // Until its time comes, no jobs leave for a later job in the queue either.
            evictions.backoff.add(input.demand.shape);
        }
        answer
    }

    fn preempt_among(
        &mut self,
        among: Among,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
        movables: &mut Movables,
        preemptor: Preemptor<'_>,
    ) -> RoomAnswer {
        let (policy, shape) = (input.demand.policy, input.demand.shape);
        let own = precedence_of_waiting(policy, shape, preemptor.is_escalated);
        // Mostly no job comes after it. By priorities alone that is known without reading the jobs.
        if !policy.asks_attained() && own >= self.lasts.of(among.project) {
            return RoomAnswer::Nothing;
        }
        // Jobs ask in the order of precedence, so the list of one serves those after it.
        let known = self.cache.remove(&among).filter(|known| known.after <= own);
        let known = known.unwrap_or_else(|| OfProject::new(&input, among, own));
        let answer = known.preempt(input, evictions, movables, preemptor, own);
        self.cache.insert(among, known);
        answer
    }
}

impl OfProject {
    /// The evictable jobs that the same policy schedules and that come after `after`. Jobs of other
    /// policies could preempt the job themselves.
    fn new(input: &EvictionProblem<'_, '_>, among: Among, after: Precedence) -> Self {
        let EvictionProblem { view, projects, demand, .. } = input;
        let (world, now, policy) = (view.snapshot.world, view.snapshot.now, demand.policy);
        let (domain, asks_level) = (demand.shape.domain.as_ref(), policy.asks_attained());
        let mut own = Self { after, last: FIRST, by_node: BTreeMap::new() };
        for (ix, (row, of)) in world.project_rows().iter().zip(&projects.rows).enumerate() {
            if among.project.is_some_and(|project| project != *of) || row.evictable.is_empty() {
                continue;
            }
            let mut above = world.upwards(&row.name);
            let safe_for = above.find_map(|it| it.min_runtime.preempt).unwrap_or_default();
            let has_policy =
                |job: &&JobRow| world.policy().domain(job.spec.pool.as_ref()) == domain;
            for (id, rank) in &row.ranks {
                let level = if asks_level { policy.level(rank.net_gpu_time(now)) } else { 0 };
                let has = precedence(policy, (rank.priority, rank.joins), level);
                if has <= after {
                    continue;
                }
                let Some(job) = world.job(*id).filter(has_policy) else { continue };
                debug_assert_eq!(rank.net_gpu_time(now), job.job.net_gpu_time(now));
                let amounts = projects.amounts_of(world, job);
                let may_pause = among.may_pause;
                let it = Evictable::of(view, projects, (job, ProjectIx(ix)), &amounts, may_pause);
                let Some(mut it) = it.filter(|it| it.has_run(safe_for, now)) else { continue };
                if policy.asks_attained() {
                    it.order.level = Reverse(level);
                    it.order.came_at = Some(Reverse(job.spec.submitted_at));
                }
                own.last = own.last.max(has);
                add_on_nodes(&mut own.by_node, it);
            }
        }
        own.by_node.values_mut().for_each(|all| all.sort_unstable_by_key(|it| it.order));
        own
    }

    fn preempt(
        &self,
        input: EvictionProblem<'_, '_>,
        evictions: &mut Evictions,
        movables: &mut Movables,
        Preemptor { is_escalated, n_moved_most, may_have }: Preemptor<'_>,
        own: Precedence,
    ) -> RoomAnswer {
        let (policy, shape) = (input.demand.policy, input.demand.shape);
        if own >= self.last || evictions.backoff.applies_to(shape) {
            return RoomAnswer::Nothing;
        }
        let placed = evictions.place_on_leaving(&input).filter(|_| may_have(&[]));
        if let Some(placed) = placed {
            evictions.wait_for(&input.demand, &placed);
            return RoomAnswer::Leaving;
        }
        let now = input.view.snapshot.now;
        // Jobs that matter less leave at once. Rotating jobs of equal importance has its cost.
        let has_to_rest = |it: &Evictable| {
            !it.has_run(policy.min_run, now)
                && why(policy, it, shape, is_escalated) == TakenBack::Rotate
        };
        let comes_after = |it: &Evictable| {
            precedence_of(policy, it) > own
                && !evictions.has(it.job)
                && !it.delays_planned_start(&input.view)
        };
        let may_go = |it: &Evictable| comes_after(it) && !has_to_rest(it);
        let all = &self.by_node;
        let search = VictimSearch { input, evictions, all, may_go: &may_go, is_enough: &|_| true };
        let found = solve(search, may_have);
        if let Some(found) = found {
            return RoomAnswer::Start(evictions.commit(found));
        }
        let rests = |it: &Evictable| comes_after(it) && has_to_rest(it);
        let is_too_soon = all.values().flatten().any(rests)
            && solve(VictimSearch { may_go: &comes_after, ..search }, may_have).is_some();
        let giving = all.iter().filter_map(|(ix, all)| {
            let all: Vec<&Evictable> = all.iter().filter(|it| may_go(it)).collect();
            (!all.is_empty()).then_some((*ix, all))
        });
        let giving: BTreeMap<_, _> = giving.collect();
        // Without any, stage consolidate has tried it.
        if n_moved_most > 0 && !giving.is_empty() {
            let moving = Moving { giving, n_most: n_moved_most, may_have };
            if let Some(found) = move_others(input, evictions, movables, &moving) {
                return RoomAnswer::Start(found);
            }
        }
        if is_too_soon { RoomAnswer::TooSoon } else { RoomAnswer::Nothing }
    }
}

/// The fewest jobs that make room, and that leave the project enough quota. Jobs may have to leave
/// although there is room, since the project has reached its quota.
fn solve(search: VictimSearch<'_, '_, '_>, may_have: &Test<'_>) -> Option<Solution> {
    if search.input.demand.is_of_one_node() {
        // With a victim the job also claims devices of the node that others are leaving.
        let is_enough = |gone: &[&Evictable]| !gone.is_empty() && may_have(gone);
        return VictimSearch { is_enough: &is_enough, ..search }.on_one(&[], &mut |_| Ok(()));
    }
    // Victims that make room may be enough for the quota too.
    let found = search.solve(&[], &mut |_| Ok(()));
    let is_enough = |found: &Solution| may_have(&found.victims.iter().collect::<Vec<_>>());
    found.filter(is_enough).or_else(|| {
        // The quota allows it: no victims help, or it waits for jobs that are leaving already.
        if may_have(&[]) {
            return None;
        }
        let all = in_order(search.all, search.may_go);
        let gone = fewest_that(all, may_have, &mut |_| Ok(()))?;
        Some(search.solve(&gone, &mut |_| Ok(()))?.without_needless(may_have))
    })
}

fn precedence_of(policy: &Policy, it: &Evictable) -> Precedence {
    precedence(policy, (it.order.priority, !it.order.stays), it.order.level.0)
}

fn precedence_of_waiting(policy: &Policy, shape: &Shape, is_escalated: bool) -> Precedence {
    let level = level_of_waiting(shape, is_escalated);
    precedence(policy, (shape.priority, shape.joins), level)
}

/// Returns why a victim leaves for a job of that shape: the first key of the order where they
/// differ.
pub(crate) fn why(
    policy: &Policy,
    victim: &Evictable,
    shape: &Shape,
    is_escalated: bool,
) -> TakenBack {
    if victim.moves {
        return TakenBack::Consolidate;
    }
    let own = precedence_of_waiting(policy, shape, is_escalated);
    let differs = precedence_of(policy, victim).iter().zip(own).position(|(has, own)| *has != own);
    match differs.and_then(|at| policy.order.get(at.checked_sub(1)?)) {
        Some(OrderKey::Attained) => TakenBack::Rotate,
        Some(OrderKey::Priority) if victim.order.priority < shape.priority => TakenBack::Preempt,
        _ => TakenBack::Shrink,
    }
}
