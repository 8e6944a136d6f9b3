//! The pipeline: one cycle, from a snapshot to a plan.
//!
//! The cycle takes one job after the other, and the least disruptive stage that helps it wins:
//!
//! 1. **order** ([`queue_order`]): projects by their shares, and the jobs of each in the policy's
//!    order. Every project first gets its fair share; only then is idle capacity lent.
//! 2. **prefilter** ([`prefilter`]): jobs that can't start are skipped without a search.
//! 3. **place** ([`find_placement`]): the best place on capacity that is free now.
//! 4. **consolidate** ([`consolidate`]): jobs that save their work move, so that the job fits.
//! 5. **reclaim** ([`reclaim`]): jobs over quota leave, for a job that its project is entitled to;
//!    also where a limit above the project keeps the job waiting.
//! 6. **preempt** ([`preempt`]): jobs of the same project leave, by priority or past GPU-time.
//! 7. **backfill** ([`backfill`]): the first jobs that still wait get a planned start. Its
//!    capacity is held, so jobs later in the order start only where they do not delay it.
//! 8. **explain** ([`explain`]): why each other job waits.
//!
//! Each stage is a function of its inputs with a typed answer: a verdict, a [`Solution`], a planned
//! start or a reason. Only [`Cycle`] carries answers out: [`Cycle::schedule_job`] takes one job
//! through stages 3 to 7, [`Cycle::start_job`] through 3 to 6.
//!
//! [`Solution`]: crate::victims::Solution

mod array_cursor;
mod backfill;
pub(crate) mod consolidate;
mod explain;
mod find_placement;
mod parts;
pub(crate) mod preempt;
mod prefilter;
mod queue_order;
mod reclaim;
mod start_job;

use std::collections::BTreeSet;

use gpool_model::{Decision, JobId, Plan, Policy, PoolName, Reason};
use gpool_world::{JobRow, QueueHead, ShapeIx, Snapshot, World};

use self::array_cursor::ArrayCursor;
use self::backfill::backfill;
use self::consolidate::Movables;
use self::find_placement::Placing;
use self::parts::PartStarts;
use self::preempt::{Lasts, Preempting};
use self::prefilter::Prefilter;
use self::queue_order::{QueueOrder, scopes};
use self::reclaim::Reclaiming;
use crate::capacity::{Capacity, Demand, Holds, Planned, Timeline, View, seed};
use crate::caps::Users;
use crate::fairshare::TreeIx;
use crate::pending_report::PendingReport;
use crate::preemption;
use crate::quota_state::resource_flavors::Flavor;
use crate::quota_state::{Amounts, Leaf, Projects};
use crate::victims::Evictions;
pub use explain::{Explainer, KeptBy, ReasonsByShape, Rivals};
pub use find_placement::would_place;
pub use queue_order::in_order;

/// Memory that cycles use again. A new one gives the same plans, only later.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    projects: Option<Projects>,
    placing: Placing,
    movables: Movables,
    /// Whether the last cycle only started jobs, and no job may be evicted right after it. An
    /// evicted job frees its place, and a resumed one the memory that held its GPU memory.
    is_settled: bool,
    /// Whether the last cycle ended at a resume, before the rest of the queue.
    is_cut: bool,
    /// The job that the cycle decides on.
    current_job: Option<JobId>,
}

impl Workspace {
    /// Whether another cycle at once, after the decisions of the last one, would decide nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Whether the last cycle ended at a resume, and the next one decides on the rest of the queue.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The job that the scheduler was deciding on when it panicked, if there was one.
    #[must_use]
    pub fn current_job(&self) -> Option<JobId> {
        self.current_job
    }
}

/// The cluster with the decisions of the plan so far.
#[derive(Clone)]
struct PlannedCluster<'a> {
    snapshot: Snapshot<'a>,
    capacity: Capacity<'a>,
    holds: Holds<'a>,
    timeline: Timeline<'a>,
    /// Set where projects have shares or limits.
    projects: Option<Projects>,
}

impl<'a> PlannedCluster<'a> {
    fn view(&self) -> View<'a, '_> {
        let Self { snapshot, capacity, holds, timeline, .. } = self;
        View { snapshot: *snapshot, capacity, holds, timeline }
    }

    /// The projects, where they have shares.
    fn shared(&self) -> Option<&Projects> {
        self.projects.as_ref().filter(|projects| projects.are_shared)
    }
}

/// The jobs that one policy schedules: the jobs of a pool with its own policy, or all others. The
/// capacity, and the quotas of the projects, are the same for all scopes.
struct PolicyScope<'a> {
    pool: Option<&'a PoolName>,
    policy: &'a Policy,
    waiting_priorities: BTreeSet<i32>,
    /// Shapes without a known planned start.
    unknown: BTreeSet<ShapeIx>,
    n_planned: usize,
}

impl<'a> PolicyScope<'a> {
    /// Whether a start in the future was looked for, for a job before the present one.
    fn has_looked_ahead(&self) -> bool {
        self.n_planned > 0 || !self.unknown.is_empty()
    }

    fn new(pool: Option<&'a PoolName>, policy: &'a Policy) -> Self {
        let (waiting_priorities, unknown) = (BTreeSet::new(), BTreeSet::new());
        Self { pool, policy, waiting_priorities, unknown, n_planned: 0 }
    }
}

/// A cycle while it is made.
struct Cycle<'a, 'w> {
    cluster: PlannedCluster<'a>,
    scope: PolicyScope<'a>,
    workspace: &'w mut Workspace,
    plan: Plan,
    evictions: Evictions,
    reclaiming: Reclaiming,
    preempting: Preempting,
    cursor: ArrayCursor,
    /// Set while the parts of a job are placed.
    parts: Option<PartStarts>,
    users: Users,
    waiting: PendingReport,
    /// Whether the next cycle can decide more: a started job may be evicted, projects changed their
    /// order while a planned start holds capacity, or a job got no planned start for the sake of an
    /// earlier one.
    is_unsettled: bool,
    /// Whether every project has its share, and idle capacity is lent.
    is_lending: bool,
    /// Projects with a job within their share that waits for room.
    waiters: BTreeSet<TreeIx>,
    /// Whether a job resumed after the cycle planned a start in the future, or found no place for
    /// another. The end of the resumed job is known now, and the planned start may be earlier; the
    /// other job may fit into the host memory that the resumed one gives back. So the next cycle
    /// decides on the rest of the queue.
    is_cut: bool,
}

/// A job that is scheduled, and its resource flavors by the answer of the quotas.
#[derive(Default)]
struct JobFlavors<'f> {
    /// The leaf of the fair-share tree that it is charged to, if quotas count.
    leaf: Option<TreeIx>,
    /// Flavors that the job may use now.
    open: Vec<Flavor<'f>>,
    /// Flavors that a quota refuses unless other jobs leave, with the reason.
    refused: Vec<(Flavor<'f>, Reason)>,
    /// Flavors that the job may borrow, once every project has its share.
    borrowable: Vec<Flavor<'f>>,
    /// Whether it may have GPUs of several flavors at once.
    is_mixed: bool,
    /// Whether evictions may help against a limit above the project.
    is_limited_above: bool,
    /// Whether only capacity that projects are entitled to is given out.
    by_right: bool,
}

/// Decides which jobs start now, when the jobs with a planned start do, and why the others wait.
pub fn plan(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    run(snapshot, policy, workspace, PendingReport::default())
}

/// The same without the reasons, which takes much less time where many jobs wait.
pub fn decide(snapshot: &Snapshot<'_>, policy: &Policy, workspace: &mut Workspace) -> Plan {
    run(snapshot, policy, workspace, PendingReport::silent())
}

fn run<'a>(
    snapshot: &Snapshot<'a>,
    policy: &'a Policy,
    workspace: &mut Workspace,
    waiting: PendingReport,
) -> Plan {
    let world = snapshot.world;
    let mut scopes: Vec<PolicyScope<'_>> =
        scopes(policy).map(|(pool, policy)| PolicyScope::new(pool, policy)).collect();
    let mut cycle = Cycle::new(snapshot, policy, workspace, waiting);
    // Every project gets its share in every scope before any capacity is lent.
    let mut queues: Vec<QueueOrder<'_>> = Vec::new();
    for scope in &mut scopes {
        cycle.within(scope, |cycle| {
            let mut queue = QueueOrder::new(&cycle.prefilter());
            cycle.schedule(&mut queue);
            queues.push(queue);
        });
    }
    cycle.is_lending = true;
    for (scope, queue) in scopes.iter_mut().zip(&mut queues) {
        cycle.within(scope, |cycle| {
            if queue.lend(&cycle.prefilter()) {
                cycle.schedule(queue);
            }
        });
    }
    cycle.finish(world)
}

impl<'a, 'w> Cycle<'a, 'w> {
    fn new(
        snapshot: &Snapshot<'a>,
        policy: &'a Policy,
        workspace: &'w mut Workspace,
        waiting: PendingReport,
    ) -> Self {
        let world = snapshot.world;
        workspace.placing.begin(world);
        let projects = Projects::of(snapshot, policy, workspace.projects.take());
        workspace.movables.begin(projects.as_ref().is_some_and(|it| it.is_same));
        let capacity = Capacity::new(world);
        let holds = Holds::of(snapshot, policy, &capacity);
        let timeline = Timeline::new(snapshot);
        let evictions = Evictions::new(snapshot, &capacity);
        Self {
            cluster: PlannedCluster { snapshot: *snapshot, capacity, holds, timeline, projects },
            scope: PolicyScope::new(None, policy),
            workspace,
            plan: Plan { basis: world.revision(), ..Plan::default() },
            evictions,
            reclaiming: Reclaiming::default(),
            preempting: Preempting::default(),
            cursor: ArrayCursor::default(),
            parts: None,
            users: Users::default(),
            waiting,
            is_unsettled: false,
            is_lending: false,
            waiters: BTreeSet::new(),
            is_cut: false,
        }
    }

    fn finish(self, world: &World) -> Plan {
        let Self { mut plan, cluster, waiting, workspace, is_unsettled, is_cut, .. } = self;
        let starts_only = plan.decisions.iter().all(|it| matches!(it, Decision::Start { .. }));
        // After a resume, a job that had no place may have one.
        plan.waits = if is_cut { Vec::new() } else { waiting.into_waits(world) };
        workspace.current_job = None;
        workspace.is_cut = is_cut;
        workspace.projects = cluster.projects;
        workspace.is_settled = starts_only && !is_unsettled && !preemption::any_evictable(world);
        plan
    }

    /// Makes a scope the present one while `go` runs.
    fn within(&mut self, scope: &mut PolicyScope<'a>, go: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.scope, scope);
        let (world, projects) = (self.world(), self.cluster.projects.as_ref());
        self.preempting.begin(Lasts::new(world, self.scope.policy, projects));
        go(self);
        std::mem::swap(&mut self.scope, scope);
    }

    fn prefilter(&self) -> Prefilter<'_, 'a> {
        Prefilter {
            cluster: &self.cluster,
            scope: &self.scope,
            placing: &self.workspace.placing,
            lasts: &self.preempting.lasts,
            is_lending: self.is_lending,
            is_silent: self.waiting.is_silent,
        }
    }

    /// Schedules the jobs of a queue, in its order.
    fn schedule(&mut self, queue: &mut QueueOrder<'_>) {
        while !self.is_cut
            && let Some((leaf, head)) = queue.next(&self.prefilter())
        {
            self.schedule_job(leaf, head, queue);
            queue.settle(self.cluster.shared(), leaf);
        }
    }

    /// Schedules one job: it starts, gets a planned start, or waits for a reason.
    fn schedule_job(&mut self, leaf: Leaf, head: QueueHead, queue: &mut QueueOrder<'_>) {
        self.workspace.current_job = Some(head.job());
        let (world, policy) = (self.world(), self.scope.policy);
        if let Some(reason) = self.cursor.full(world, head.job()) {
            let n_left = self.cursor.n_left(self.row(&head));
            self.waiting.of_array(head.shape_ix, head.job().number, n_left, &reason);
            queue.heads(leaf).push_next(world, policy, &head);
            return;
        }
        let shape = &world.shape(head.shape_ix).shape;
        if let Some(reason) = self.users.quota(world, policy, shape) {
            // All jobs of the shape have that user, and no other job waits for them.
            self.waiting.of_shape(head.shape_ix, &reason);
            return;
        }
        if !shape.parts.is_empty() {
            return self.schedule_parts(leaf, head, queue);
        }
        let request = self.request(&head, leaf.is_some() && !self.is_lending);
        // Otherwise no stage may start the job.
        let may_start = !request.by_right
            || !request.open.is_empty()
            || request.is_mixed
            || request.is_limited_above;
        let waits = match may_start {
            false => None,
            true => match self.start_job(&head, &request, queue) {
                Ok(charge) => {
                    self.count_start(&head, request.leaf, &charge);
                    match self.cursor.take(self.row(&head)) {
                        true => queue.heads(leaf).push_again(head),
                        false => queue.heads(leaf).push_next(world, policy, &head),
                    }
                    return;
                }
                Err(reason) => reason,
            },
        };
        if request.by_right && (!request.open.is_empty() || request.is_limited_above) {
            let projects = self.cluster.projects.as_ref().zip(request.leaf);
            self.waiters.extend(projects.map(|(projects, leaf)| projects.project(leaf)));
        }
        // A job that may borrow capacity, free or of jobs that would leave, waits until every
        // project has its share. Another job within its share gets a planned start.
        let mut borrowable = request.borrowable.iter();
        let has_place = borrowable.clone().any(|it| self.place(&head, it).is_ok());
        let may_borrow = has_place
            || borrowable
                .any(|it| request.open.is_empty() || self.would_preempt(&head, it, request.leaf));
        // A planned start must not hold the place of an earlier job of the project.
        let is_behind = !self.is_lending && !request.open.is_empty() && queue.has_borrower(leaf);
        // A start may still take that place: then the next cycle plans this job's start.
        self.is_unsettled |= is_behind;
        match waits {
            Some(reason) if !may_borrow && !is_behind => {
                // The other jobs of the shape do not fit either, or may not start.
                self.waiting.of_shape(head.shape_ix, &reason);
                if !request.open.is_empty() && self.plan_start(&head, &request, &reason) {
                    queue.heads(leaf).push_next(world, policy, &head);
                }
            }
            _ => queue.set_aside(leaf, head, has_place),
        }
    }

    /// Plans the earliest start of a waiting job, if the policy plans one for it, and holds its
    /// capacity. Returns whether the next job of its shape may get a planned start too.
    fn plan_start(&mut self, head: &QueueHead, request: &JobFlavors<'_>, reason: &Reason) -> bool {
        let shape = &self.world().shape(head.shape_ix).shape;
        if !self.scope.plans(head, shape, reason) {
            return false;
        }
        let (job, attempt) = self.cursor.next(self.row(head));
        let (policy, seed) = (self.scope.policy, seed(job, attempt));
        let demands = request.open.iter().map(|it| Demand::new(&it.shape, policy, seed));
        let Some((Planned { start, holds }, at)) = backfill(&mut self.cluster, demands, job) else {
            self.scope.unknown.insert(head.shape_ix);
            return false;
        };
        let charge = self.charge_at(&request.open[at], &start.placements);
        self.plan.planned.push(start);
        self.scope.n_planned += 1;
        holds.into_iter().for_each(|(node_pos, hold)| self.cluster.holds.add(node_pos, hold));
        // Other jobs of its array, user and project must not take its part of their limits.
        let row = self.row(head);
        self.cursor.plan(row);
        self.users.started(self.world(), self.scope.policy, shape);
        if let (Some(projects), Some(leaf)) = (&mut self.cluster.projects, request.leaf) {
            projects.ledger.plan(&projects.tree, leaf, &charge, shape.preemptible);
        }
        self.scope.plans_always(head)
    }

    /// Sorts the resource flavors of a job by the answer of the quotas. With `by_right`, only
    /// capacity that projects are entitled to is given out.
    fn request(&self, head: &QueueHead, by_right: bool) -> JobFlavors<'a> {
        let world = self.world();
        let shape = self.shape(head);
        let Some(projects) = &self.cluster.projects else {
            let open = Flavor::uncharged(world, shape).in_domains(world, &self.cluster.capacity);
            return JobFlavors { open, by_right, ..JobFlavors::default() };
        };
        let leaf = projects.leaf(world.shape(head.shape_ix).line());
        let mut request = JobFlavors { leaf: Some(leaf), by_right, ..JobFlavors::default() };
        let flavors = projects.flavors(world, shape, leaf).into_iter();
        for flavor in flavors.flat_map(|it| it.in_domains(world, &self.cluster.capacity)) {
            request.is_mixed |= flavor.is_mixed;
            match projects.refuses(leaf, &flavor.charge, shape.preemptible, &[]) {
                Some(reason) => {
                    let (charge, preemptible) = (&flavor.charge, shape.preemptible);
                    request.is_limited_above |=
                        projects.is_limited_above(leaf, charge, preemptible);
                    request.refused.push((flavor, reason));
                }
                None if by_right && !projects.is_entitled(leaf, &flavor.charge) => {
                    request.borrowable.push(flavor);
                }
                None => request.open.push(flavor),
            }
        }
        request
    }

    fn count_start(&mut self, head: &QueueHead, leaf: Option<TreeIx>, charge: &Amounts) {
        let shape = &self.world().shape(head.shape_ix).shape;
        if let (Some(projects), Some(leaf)) = (&mut self.cluster.projects, leaf) {
            projects.ledger.add(&projects.tree, leaf, charge, shape.preemptible);
            projects.take_slots(leaf, &shape.fit);
        }
        self.note_start(head);
    }

    /// Notes that a job starts, beside its charge.
    fn note_start(&mut self, head: &QueueHead) {
        let shape = &self.world().shape(head.shape_ix).shape;
        self.users.started(self.world(), self.scope.policy, shape);
        let is_held = self.cluster.shared().is_some() && !self.plan.planned.is_empty();
        self.is_unsettled |= shape.preemptible || is_held;
        self.waiting.started(head.shape_ix);
    }

    fn world(&self) -> &'a World {
        self.cluster.snapshot.world
    }

    fn row(&self, head: &QueueHead) -> &'a JobRow {
        self.world().job(head.job()).expect("a queued job is in the world")
    }
}
