//! The pipeline: one cycle, from a snapshot to a plan.
//!
//! Jobs are taken one after the other, and the least disruptive stage that helps a job wins:
//!
//! 1. **order** ([`queue_order`]): projects by their shares, and the jobs of each in the policy's
//!    order. Every project first gets its fair share; only then is idle capacity lent.
//! 2. **prefilter** ([`prefilter`]): jobs that can't start are passed over without a search.
//! 3. **place** ([`find_placement`]): the best place on capacity that is free now.
//! 4. **consolidate** ([`consolidate`]): jobs that save their work move, so that the job fits.
//! 5. **reclaim** ([`reclaim`]): jobs over quota leave, for a job that its project is entitled to;
//!    also where not capacity but a limit above the project keeps it ([`reclaim::at_limit`]).
//! 6. **preempt** ([`preempt`]): jobs of the same project leave, by priority or past GPU-time.
//! 7. **backfill** ([`backfill`]): the first jobs that still wait get a planned start. Its
//!    capacity is held, so jobs later in the order start only where they do not delay it.
//! 8. **explain** ([`explain`]): why each other job waits.
//!
//! [`Cycle::turn`] takes one job through stages 3 to 7, [`Cycle::start_job`] through 3 to 6.

mod backfill;
pub(crate) mod consolidate;
pub(crate) mod explain;
pub(crate) mod find_placement;
pub(crate) mod preempt;
mod prefilter;
pub(crate) mod queue_order;
pub(crate) mod reclaim;
mod start_job;

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Decision, JobId, Millis, Plan, Policy, PoolName, Reason, Shape, TakenBack};
use gpool_world::{Head, JobRow, ShapeIx, Snapshot};

use self::preempt::{Asking, Lasts};
use self::queue_order::{Leaf, QueueOrder};
use self::reclaim::{Evictions, Ground, Lent};
use self::start_job::Request;
use crate::array_cursor::ArrayCursor;
use crate::capacity::{Capacity, Demand, Holds, Placed, Timeline, placements};
use crate::caps::Users;
use crate::domains;
use crate::fairshare::Row;
use crate::fragmentation::Fragmentation;
use crate::pending_report::{PendingReport, SaysWhy};
use crate::quota_state::Projects;
use crate::resource_flavors::Way;
pub use explain::{Explainer, KeptBy, ReasonsByShape, Rivals};

/// Memory that cycles use again. A new one gives the same plans, only later.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    projects: Option<Projects>,
    /// What found no place in this cycle, of jobs that no reservation admits. Indexed by
    /// [`gpool_world::FitIx`].
    failed: Vec<Option<Failed>>,
    /// The same of jobs that some do, by which these are, and of those that are kept to one class
    /// of GPUs.
    failed_inside: BTreeMap<(usize, Option<usize>, Vec<usize>), Failed>,
    fragmentation: Fragmentation,
    /// Whether nobody went in the last cycle, or may in one right after it: then that one would
    /// decide nothing.
    pub(crate) is_settled: bool,
    /// The job that the cycle decides on.
    turn_of: Option<JobId>,
}

impl Workspace {
    /// Whether another cycle at once, after what the last one decided, would decide nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The job that the scheduler was about to decide on when it panicked, if it was at one.
    #[must_use]
    pub fn turn_of(&self) -> Option<JobId> {
        self.turn_of
    }
}

/// What found no place: all work of one fit that takes so long, or longer.
#[derive(Debug, Clone)]
struct Failed {
    /// `None` is for ever.
    length: Option<Millis>,
    reason: Reason,
}

impl Failed {
    fn covers(&self, length: Option<Millis>) -> bool {
        match (self.length, length) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(failed), Some(length)) => failed <= length,
        }
    }
}

/// The resource flavors of a job, by the answer of the quotas.
#[derive(Default)]
struct Flavors<'w> {
    /// It may start in these now.
    open: Vec<Way<'w>>,
    /// A quota refuses these.
    shut: Vec<(Way<'w>, Reason)>,
    /// It may borrow these, once no project is entitled to them.
    aside: Vec<Way<'w>>,
    /// Whether evictions may help against a limit above the project.
    may_lift: bool,
}

/// Why each of those goes that make room.
type Why<'w> = &'w dyn Fn(&Lent) -> TakenBack;

/// A cycle while it is made.
struct Cycle<'a, 'w> {
    snapshot: Snapshot<'a>,
    domain: Domain<'a>,
    capacity: Capacity<'a>,
    holds: Holds<'a>,
    timeline: Timeline<'a>,
    workspace: &'w mut Workspace,
    plan: Plan,
    /// Set where projects have shares, or bounds.
    projects: Option<Projects>,
    evictions: Evictions,
    cursor: ArrayCursor,
    users: Users,
    waiting: PendingReport,
    /// Whether anything was started that may be taken back.
    starts_evictable: bool,
}

/// Whose turn it is: the jobs that name a pool with a policy of its own, or all others. The
/// cluster, and what projects have and may have of it, are the same for all.
struct Domain<'a> {
    pool: Option<&'a PoolName>,
    policy: &'a Policy,
    /// Priorities of which the first that waits was seen.
    tops: BTreeSet<i32>,
    /// Shapes for which no time is known, whoever of them asks.
    unknown: BTreeSet<ShapeIx>,
    /// How many starts are planned.
    n_planned: usize,
}

impl<'a> Domain<'a> {
    fn new((pool, policy): (Option<&'a PoolName>, &'a Policy)) -> Self {
        Self { pool, policy, tops: BTreeSet::new(), unknown: BTreeSet::new(), n_planned: 0 }
    }
}

pub(crate) fn run<'a>(
    snapshot: &Snapshot<'a>,
    policy: &'a Policy,
    workspace: &mut Workspace,
    says_why: SaysWhy,
) -> Plan {
    let world = snapshot.world;
    let capacity = Capacity::new(world);
    workspace.fragmentation.begin();
    workspace.failed.clear();
    workspace.failed.resize(world.n_fit_rows(), None);
    workspace.failed_inside.clear();
    let projects = Projects::of(snapshot, policy, workspace.projects.take());
    let mut domains: Vec<Domain<'_>> = domains(policy).map(Domain::new).collect();
    let mut cycle = Cycle {
        snapshot: *snapshot,
        domain: Domain::new((None, policy)),
        holds: Holds::of(snapshot, policy, &capacity),
        capacity,
        timeline: Timeline::new(snapshot),
        workspace,
        plan: Plan { basis: world.revision(), ..Plan::default() },
        projects,
        evictions: Evictions::default(),
        cursor: ArrayCursor::default(),
        users: Users::default(),
        waiting: PendingReport::new(says_why),
        starts_evictable: false,
    };
    // Nothing is lent before everybody has what he is entitled to, whatever pool he names.
    let mut turns: Vec<QueueOrder<'_>> = Vec::new();
    for domain in &mut domains {
        cycle.within(domain, |cycle| {
            let mut own = QueueOrder::new(world, cycle.domain.pool, shared(&cycle.projects), cycle);
            cycle.take(&mut own);
            turns.push(own);
        });
    }
    for (domain, turns) in domains.iter_mut().zip(&mut turns) {
        cycle.within(domain, |cycle| {
            if turns.lend(shared(&cycle.projects), cycle) {
                cycle.take(turns);
            }
        });
    }
    let Cycle { mut plan, projects, waiting, starts_evictable, .. } = cycle;
    let evicts = plan.decisions.iter().any(|it| matches!(it, Decision::Evict { .. }));
    plan.waits = waiting.into_waits(world);
    workspace.turn_of = None;
    workspace.projects = projects;
    workspace.is_settled = !evicts && !starts_evictable && !preempt::any_evictable(world);
    plan
}

/// The projects, where they have shares.
fn shared(projects: &Option<Projects>) -> Option<&Projects> {
    projects.as_ref().filter(|projects| projects.are_shared)
}

impl<'a> Cycle<'a, '_> {
    /// Lets those of a domain have their turns.
    fn within(&mut self, domain: &mut Domain<'a>, go: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.domain, domain);
        let projects = self.projects.as_ref();
        let lasts = Lasts::new(self.snapshot.world, self.domain.policy, projects);
        self.evictions.ask_by(lasts);
        go(self);
        std::mem::swap(&mut self.domain, domain);
    }

    /// Everybody has his turn for whom it is any use.
    fn take(&mut self, turns: &mut QueueOrder<'_>) {
        while let Some((leaf, head)) = turns.next(shared(&self.projects), self) {
            self.turn(leaf, head, turns);
            turns.settle(shared(&self.projects), leaf);
        }
    }

    /// It is the turn of a job: it starts, or waits for a reason.
    fn turn(&mut self, leaf: Leaf, head: Head, turns: &mut QueueOrder<'_>) {
        self.workspace.turn_of = Some(head.job());
        let (world, policy) = (self.snapshot.world, self.domain.policy);
        if let Some(reason) = self.cursor.full(world, head.job()) {
            let n_left = self.cursor.n_left(self.row(&head));
            self.waiting.of_array(head.shape_ix, head.job().number, n_left, reason);
            turns.heads(leaf).push_next(world, policy, &head);
            return;
        }
        let shape = &world.shape(head.shape_ix).shape;
        if let Some(reason) = self.users.quota(world, policy, shape) {
            // Nor may the rest of the shape, and nobody waits for them.
            self.waiting.of_shape(head.shape_ix, &reason);
            return;
        }
        let charged = self.projects.as_ref().map(|it| it.leaf(world.shape(head.shape_ix)));
        let ways = match (&self.projects, charged) {
            (Some(projects), Some(row)) => projects.ways(world, shape, row),
            _ => vec![Way::as_asked(world, shape)],
        };
        let is_aside = leaf.is_some() && !turns.is_lending;
        let is_mixed = ways.iter().any(|way| way.is_mixed);
        let Flavors { open, shut, aside, may_lift } =
            self.flavors(ways, charged, (is_aside, shape.preemptible));
        let (by_right, open, shut) = (is_aside, &open[..], &shut[..]);
        let request = Request { head: &head, open, shut, is_mixed, charged, by_right };
        let reason = match is_aside && open.is_empty() && !is_mixed && !may_lift {
            true => None,
            false => match self.start_job(&request, turns) {
                Ok(charge) => {
                    self.users.started(world, policy, shape);
                    if let (Some(projects), Some(row)) = (&mut self.projects, charged) {
                        projects.add(row, &charge, shape.preemptible);
                        projects.take_slots(row, &shape.fit);
                    }
                    self.starts_evictable |= shape.preemptible;
                    self.waiting.started(head.shape_ix);
                    match self.cursor.take(self.row(&head)) {
                        true => turns.heads(leaf).push_again(head),
                        false => turns.heads(leaf).push_next(world, policy, &head),
                    }
                    return;
                }
                Err(reason) => reason,
            },
        };
        // Who may borrow what is free waits until nobody is entitled to it; others have the time
        // kept at which they can have what they are entitled to.
        let may_borrow = aside.iter().any(|way| open.is_empty() || self.find(&head, way).is_ok());
        match reason {
            Some(reason) if !may_borrow => {
                // The rest of the shape does not fit either, or may not.
                self.waiting.of_shape(head.shape_ix, &reason);
                if !open.is_empty() && self.plan_start(&head, open, &reason) {
                    turns.heads(leaf).push_next(world, policy, &head);
                }
            }
            _ => turns.set_aside(leaf, head),
        }
    }

    /// Sorts the flavors of GPUs for a job by what quotas allow now.
    fn flavors<'w>(
        &self,
        ways: Vec<Way<'w>>,
        charged: Option<Row>,
        (is_aside, preemptible): (bool, bool),
    ) -> Flavors<'w> {
        let Some((projects, row)) = self.projects.as_ref().zip(charged) else {
            return Flavors { open: ways, ..Flavors::default() };
        };
        let mut flavors = Flavors::default();
        for way in ways {
            match projects.refuses(row, &way.charge, preemptible) {
                Some(reason) => {
                    flavors.may_lift |= projects.may_lift(row, &way.charge, preemptible);
                    flavors.shut.push((way, reason));
                }
                None if is_aside && !projects.is_entitled(row, &way.charge) => {
                    flavors.aside.push(way);
                }
                None => flavors.open.push(way),
            }
        }
        flavors
    }

    /// Takes back what is on loan below a limit that keeps a job; says whether that helped.
    fn reclaim_at_limit(
        &mut self,
        head: &Head,
        way: &Way<'_>,
        leaf: Row,
        turns: &mut QueueOrder<'_>,
    ) -> bool {
        let preemptible = way.shape.preemptible;
        let may_lift = |it: &Projects| it.may_lift(leaf, &way.charge, preemptible);
        if !self.projects.as_ref().is_some_and(may_lift) {
            return false;
        }
        let free = self.find(head, way).ok();
        let found = self.among_evictions(head, way, |evictions, ground, demand| {
            evictions.reclaim_at_limit(ground, demand, (leaf, &way.charge), free.as_deref())
        });
        let Some((found, lent)) = found.flatten() else { return false };
        let row = self.row(head);
        self.start_after(row, &way.shape, &found, (&|_| TakenBack::Reclaim, lent), turns);
        true
    }

    fn row(&self, head: &Head) -> &'a JobRow {
        self.snapshot.world.job(head.job()).expect("queued jobs are there")
    }

    /// Looks for whom others could make room, in one of the ways in which a job can start. `None`
    /// where nobody is charged for anything.
    fn among_evictions<T>(
        &mut self,
        head: &Head,
        way: &Way<'_>,
        look: impl FnOnce(&mut Evictions, Ground<'_, '_>, &Demand<'_>) -> T,
    ) -> Option<T> {
        let projects = self.projects.as_ref()?;
        let demand = Demand::new(&way.shape, self.domain.policy, self.seed(head));
        let departures = |node_pos| self.timeline.on_node(&self.capacity, node_pos);
        let ground = Ground {
            snapshot: &self.snapshot,
            capacity: &self.capacity,
            holds: &self.holds,
            projects,
            departures: &departures,
        };
        Some(look(&mut self.evictions, ground, &demand))
    }

    /// Takes back what is on loan so that a job can start; says whether that helped.
    fn reclaim(
        &mut self,
        head: &Head,
        way: &Way<'_>,
        leaf: Row,
        turns: &mut QueueOrder<'_>,
    ) -> bool {
        let found = self.among_evictions(head, way, |evictions, ground, demand| {
            evictions.reclaim(ground, demand, (leaf, &way.charge))
        });
        let Some((found, lent)) = found.flatten() else { return false };
        let row = self.row(head);
        self.start_after(row, &way.shape, &found, (&|_| TakenBack::Reclaim, lent), turns);
        true
    }

    /// How many may be made to stop at most so that others move for a job.
    fn n_moved_for(&self, head: &Head) -> u64 {
        let row = self.row(head);
        self.domain.policy.n_moved_for(&row.job, &row.spec, self.snapshot.now)
    }

    /// Moves others elsewhere so that a job can start; says whether that helped.
    fn consolidate(&mut self, head: &Head, way: &Way<'_>, turns: &mut QueueOrder<'_>) -> bool {
        let n_most = self.n_moved_for(head);
        if n_most == 0 {
            return false;
        }
        let found = self.among_evictions(head, way, |evictions, ground, demand| {
            evictions.consolidate(ground, demand, n_most)
        });
        let Some((found, moved)) = found.flatten() else { return false };
        let row = self.row(head);
        self.start_after(row, &way.shape, &found, (&|_| TakenBack::Consolidate, moved), turns);
        true
    }

    /// Lets others of its project give way to a job that has a higher priority, or has had less
    /// GPU-time; says whether that helped.
    fn preempt(
        &mut self,
        head: &Head,
        way: &Way<'_>,
        leaf: Row,
        turns: &mut QueueOrder<'_>,
    ) -> bool {
        if !preempt::happens(self.snapshot.world, self.domain.policy) {
            return false;
        }
        let (shape, charge) = (&*way.shape, &way.charge[..]);
        let n_moved_most = self.n_moved_for(head);
        let is_lending = turns.is_lending;
        let found = self.among_evictions(head, way, |evictions, ground, demand| {
            let projects = ground.projects;
            let is_lent = !projects.are_shared || is_lending;
            let may_have = |gone: &[&Lent]| {
                let given: Vec<(Row, &[u64])> =
                    gone.iter().map(|it| (it.leaf, &it.amounts[..])).collect();
                (is_lent || projects.borrows_no_more(leaf, charge, &given))
                    && projects.refuses_after(leaf, charge, shape.preemptible, &given).is_none()
            };
            let is_escalated = head.is_escalated;
            let who = Asking { leaf, unit: charge, is_escalated, n_moved_most };
            evictions.preempt(ground, demand, who, &may_have)
        });
        let Some((found, victims)) = found.flatten() else { return false };
        let policy = self.domain.policy;
        let why = |it: &Lent| preempt::why(policy, it, (shape, head.is_escalated));
        self.start_after(self.row(head), shape, &found, (&why, victims), turns);
        true
    }

    /// Starts a job on what others give up for it.
    fn start_after(
        &mut self,
        row: &JobRow,
        shape: &Shape,
        found: &[Placed],
        (why, victims): (Why<'_>, Vec<Lent>),
        turns: &mut QueueOrder<'_>,
    ) {
        let (beneficiary, _) = self.cursor.next(row);
        let mut after = Vec::new();
        for it in victims {
            let victim = self.snapshot.world.job(it.job).expect("only jobs hold something");
            self.timeline.take_back(&self.capacity, victim, it.exit);
            let attempt = victim.job.attempt;
            after.push(u32::try_from(self.plan.decisions.len()).unwrap_or(u32::MAX));
            let (job, exit, why) = (it.job, it.exit, why(&it));
            self.plan.decisions.push(Decision::Evict { job, attempt, why, beneficiary, exit });
            if let Some(projects) = &mut self.projects {
                projects.remove(it.leaf, &it.amounts);
            }
            turns.settle(shared(&self.projects), Some(it.leaf));
        }
        if after.is_empty() {
            after = self.capacity.frees(&self.plan.decisions, found);
        }
        self.start(row, shape, found, after);
    }

    fn start(&mut self, row: &JobRow, shape: &Shape, found: &[Placed], after: Vec<u32>) {
        let (job, attempt) = self.cursor.next(row);
        self.plan.decisions.push(match shape.fit.at.is_empty() {
            true => {
                let placements = placements(found, &shape.fit, self.snapshot.world);
                Decision::Start { job, attempt, placements, after }
            }
            false => {
                let placements = shape.fit.at.clone();
                Decision::Resume { job, attempt, placements, after }
            }
        });
        for found in found {
            self.capacity.book(found, &shape.fit);
            self.timeline.start(&self.capacity, (job, row), &shape.fit, found);
        }
    }
}
