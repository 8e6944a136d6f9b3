//! Starts one job, over the flavors of GPUs that quotas allow. In this order: a free place, in one
//! flavor or in several; consolidate in each flavor; then for each flavor reclaim and preempt;
//! last, for each flavor that a quota refuses, reclaim at the limit and preempt.

use gpool_model::{Decision, DeviceStrategy, JobId, Placement, Reason, Shape, TakenBack};
use gpool_world::QueueHead;

use super::consolidate::consolidate;
use super::find_placement::{of_domains, waits_for_capacity};
use super::preempt::{self, Preemptor};
use super::queue_order::QueueOrder;
use super::{Cycle, JobFlavors, PlannedCluster};
use crate::capacity::{Demand, Placed, seed};
use crate::fairshare::TreeIx;
use crate::preemption;
use crate::quota_state::Amounts;
use crate::quota_state::resource_flavors::Flavor;
use crate::victims::{Evictable, EvictionProblem, RoomAnswer, Solution};

/// A stage that moves or evicts other jobs to start a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Consolidate,
    Reclaim,
    ReclaimAtLimit,
    Preempt,
}

/// A flavor without a free place, and the reason.
struct NoPlace<'x, 'f> {
    flavor: &'x Flavor<'f>,
    reason: Reason,
}

impl<'a> Cycle<'a, '_> {
    /// Takes a job through the stages place, consolidate, reclaim and preempt. Returns its charge
    /// if it starts, else why it waits, if it may start in some flavor.
    pub(super) fn start_job(
        &mut self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        queue: &mut QueueOrder<'_>,
    ) -> Result<Amounts, Option<Reason>> {
        let waits = match self.place_first(head, request, queue) {
            Ok(charge) => return Ok(charge),
            Err(waits) => waits,
        };
        if let Some(charge) = self.start_mixed(head, request, queue) {
            return Ok(charge);
        }
        let may_wait = request.open.len() > 1 && self.waits_for_leaving(head, request, &waits);
        if !may_wait && let Some(charge) = self.make_room(head, request, &waits, queue) {
            return Ok(charge);
        }
        Err(self.reason_of(head, request, &waits))
    }

    /// Stage place: starts the job in the first flavor that is free; else returns why each is not.
    fn place_first<'x, 'f>(
        &mut self,
        head: &QueueHead,
        request: &'x JobFlavors<'f>,
        queue: &mut QueueOrder<'_>,
    ) -> Result<Amounts, Vec<NoPlace<'x, 'f>>> {
        let mut waits = Vec::new();
        for flavor in &request.open {
            match self.place(head, flavor) {
                Ok(solution) if !flavor.is_mixed => {
                    self.start(None, head, &flavor.shape, solution, queue);
                    return Ok(flavor.charge.clone());
                }
                Ok(_) => {}
                Err(reason) => waits.push(NoPlace { flavor, reason }),
            }
        }
        Err(waits)
    }

    /// Stages consolidate, reclaim and preempt: the first flavor that other jobs can make room for.
    fn make_room(
        &mut self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        waits: &[NoPlace<'_, '_>],
        queue: &mut QueueOrder<'_>,
    ) -> Option<Amounts> {
        let (leaf, n_moved_most) = (request.leaf?, self.n_moved_most(head));
        let open = waits.iter().filter(|it| waits_for_capacity(&it.reason)).map(|it| it.flavor);
        let refused = request.refused.iter().filter(|(_, reason)| waits_for_capacity(reason));
        let moves = open.clone().map(|flavor| (Stage::Consolidate, flavor));
        let evicts = open.flat_map(|it| [(Stage::Reclaim, it), (Stage::Preempt, it)]);
        let lifts = refused.flat_map(|(it, _)| [(Stage::ReclaimAtLimit, it), (Stage::Preempt, it)]);
        let mut tries = moves.chain(evicts).chain(lifts);
        tries.find_map(|(stage, flavor)| {
            if !request.by_right && matches!(stage, Stage::Reclaim | Stage::ReclaimAtLimit) {
                return None;
            }
            let answer = self.solve(stage, head, flavor, leaf, n_moved_most);
            let RoomAnswer::Start(solution) = answer else { return None };
            let fit = &flavor.shape.fit;
            let charge =
                self.charge_at(flavor, &self.cluster.capacity.placements(&solution.placed, fit));
            self.start(Some(stage), head, &flavor.shape, solution, queue);
            Some(charge)
        })
    }

    /// The charge of a job in a flavor at these places. The charge at most of a flavor that mixes
    /// classes also counts GPUs for models and pools that the job does not get.
    pub(super) fn charge_at(&self, flavor: &Flavor<'_>, placements: &[Placement]) -> Amounts {
        match &self.cluster.projects {
            Some(projects) if flavor.is_mixed => {
                projects.charge_at(self.world(), &flavor.shape, placements)
            }
            _ => flavor.charge.clone(),
        }
    }

    /// The most jobs that may move for a job.
    fn n_moved_most(&self, head: &QueueHead) -> usize {
        let row = self.row(head);
        let n_moved = self.scope.policy.n_moved_for(&row.job, &row.spec, self.cluster.snapshot.now);
        usize::try_from(n_moved).unwrap_or(usize::MAX)
    }

    /// Whether jobs would leave for a job in a flavor that it may borrow once every project has its
    /// share.
    pub(super) fn would_preempt(
        &mut self,
        head: &QueueHead,
        flavor: &Flavor<'_>,
        leaf: Option<TreeIx>,
    ) -> bool {
        let Some(leaf) = leaf else { return false };
        let evictions = self.evictions.clone();
        let is_lending = std::mem::replace(&mut self.is_lending, true);
        let n_moved_most = self.n_moved_most(head);
        let answer = self.solve(Stage::Preempt, head, flavor, leaf, n_moved_most);
        self.is_lending = is_lending;
        self.evictions = evictions;
        matches!(answer, RoomAnswer::Start(_))
    }

    /// One stage for one flavor: the place of a job, and the jobs that move or leave for it.
    fn solve(
        &mut self,
        stage: Stage,
        head: &QueueHead,
        flavor: &Flavor<'_>,
        leaf: TreeIx,
        n_moved_most: usize,
    ) -> RoomAnswer {
        let policy = self.scope.policy;
        let (charge, preemptible) = (&flavor.charge[..], flavor.shape.preemptible);
        let Some(projects) = &self.cluster.projects else { return RoomAnswer::Nothing };
        let is_useful = match stage {
            Stage::Reclaim => true,
            Stage::Consolidate => n_moved_most > 0,
            Stage::ReclaimAtLimit => projects.is_limited_above(leaf, charge, preemptible),
            Stage::Preempt => preemption::is_possible(self.world(), policy),
        };
        if !is_useful {
            return RoomAnswer::Nothing;
        }
        let needs_free = stage == Stage::ReclaimAtLimit;
        let free = needs_free.then(|| self.place(head, flavor).ok()).flatten();
        let demand = self.demand(head, &flavor.shape);
        let Some(projects) = &self.cluster.projects else { return RoomAnswer::Nothing };
        let view = self.cluster.view();
        let input = EvictionProblem { view, projects, demand, leaf, charge };
        let evictions = &mut self.evictions;
        match stage {
            Stage::Consolidate => {
                consolidate(input, evictions, &mut self.workspace.movables, n_moved_most)
            }
            Stage::Reclaim => self.reclaiming.reclaim(input, evictions),
            Stage::ReclaimAtLimit => {
                self.reclaiming.reclaim_at_limit(input, evictions, free.as_ref())
            }
            Stage::Preempt => {
                // The waiting job of another project would reclaim the borrowed place at once.
                let project = projects.project(leaf);
                let is_lent = self.is_lending && self.waiters.iter().all(|it| *it == project);
                let may_borrow = !projects.are_shared || is_lent;
                let may_have = |gone: &[&Evictable]| input.has_quota_after(gone, may_borrow);
                let is_escalated = head.is_escalated;
                let preemptor = Preemptor { is_escalated, n_moved_most, may_have: &may_have };
                self.preempting.preempt(input, evictions, &mut self.workspace.movables, preemptor)
            }
        }
    }

    /// Claims a place in the first flavor that fits once jobs that are leaving already have left.
    /// Then the job waits for that, and no job leaves for it in another flavor.
    fn waits_for_leaving(
        &mut self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        waits: &[NoPlace<'_, '_>],
    ) -> bool {
        let place = |it: &NoPlace<'_, '_>| self.place_on_leaving(head, request, it.flavor);
        let Some(placed) = waits.iter().find_map(place) else { return false };
        self.evictions.claim(&placed);
        true
    }

    /// The place of a job in a flavor once jobs that are leaving already have left.
    fn place_on_leaving(
        &self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        flavor: &Flavor<'_>,
    ) -> Option<Placed> {
        let demand = self.demand(head, &flavor.shape);
        let (projects, leaf) = self.cluster.projects.as_ref().zip(request.leaf)?;
        let (view, charge) = (self.cluster.view(), &flavor.charge[..]);
        self.evictions.place_on_leaving(&EvictionProblem { view, projects, demand, leaf, charge })
    }

    /// Why a job waits: the reason of its one flavor, or of all together.
    fn reason_of(
        &mut self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        waits: &[NoPlace<'_, '_>],
    ) -> Option<Reason> {
        let shape = self.shape(head);
        let is_refused = !request.refused.is_empty() || !request.borrowable.is_empty();
        let reasons: Vec<Reason> = waits.iter().map(|it| it.reason.clone()).collect();
        if (!waits.is_empty() || !is_refused)
            && let Some(reason) = of_domains(self.cluster.view(), shape, &reasons)
        {
            return Some(reason);
        }
        match waits {
            [] => request.refused.first().map(|(_, reason)| reason.clone()),
            // Domains that it only prefers come before all nodes.
            [.., last]
                if waits.iter().all(|it| it.flavor.class.is_none() && !it.flavor.is_mixed) =>
            {
                Some(last.reason.clone())
            }
            _ => {
                let world = self.world();
                let refused = request.refused.last().map(|(_, reason)| reason);
                let refused = refused.or(waits.last().map(|it| &it.reason)).cloned();
                // There may be capacity, but not where the quota allows it.
                self.place(head, &Flavor::uncharged(world, shape)).err().or(refused)
            }
        }
    }

    /// Starts a job with GPUs of several flavors, if it may have those that are free. If its quota
    /// refuses the best place, one pool or fewer models may be within it.
    fn start_mixed(
        &mut self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        queue: &mut QueueOrder<'_>,
    ) -> Option<Amounts> {
        let leaf = request.leaf.filter(|_| request.is_mixed)?;
        let (world, shape) = (self.world(), self.shape(head));
        let any = Flavor::uncharged(world, shape).in_domains(world, &self.cluster.capacity);
        for flavor in &any {
            let Ok(solution) = self.place(head, flavor) else { continue };
            let shape = &flavor.shape;
            if let Some(charge) = self.start_within_quota(head, request, shape, solution, queue) {
                return Some(charge);
            }
        }
        let narrower = |it: &Flavor<'_>| {
            let projects = self.cluster.projects.as_ref();
            projects.map(|projects| projects.narrower(world, &it.shape, leaf)).unwrap_or_default()
        };
        let narrower: Vec<Shape> = any.iter().flat_map(narrower).collect();
        narrower.into_iter().find_map(|narrower| {
            let demand = self.demand(head, &narrower);
            let solution = self.workspace.placing.find(self.cluster.view(), demand)?;
            self.start_within_quota(head, request, &narrower, solution, queue)
        })
    }

    /// Starts a job at a place if its charge there is within the quota.
    fn start_within_quota(
        &mut self,
        head: &QueueHead,
        request: &JobFlavors<'_>,
        shape: &Shape,
        solution: Solution,
        queue: &mut QueueOrder<'_>,
    ) -> Option<Amounts> {
        let (world, projects) = (self.world(), self.cluster.projects.as_ref()?);
        let leaf = request.leaf?;
        let placements = self.cluster.capacity.placements(&solution.placed, &shape.fit);
        let charge = projects.charge_at(world, shape, &placements);
        let may_have = projects.refuses(leaf, &charge, shape.preemptible, &[]).is_none()
            && (!request.by_right || projects.is_entitled(leaf, &charge));
        may_have.then(|| {
            self.start(None, head, shape, solution, queue);
            charge
        })
    }

    /// Stage place for one flavor: where the job can start at once, or why it waits.
    pub(super) fn place(
        &mut self,
        head: &QueueHead,
        flavor: &Flavor<'_>,
    ) -> Result<Solution, Reason> {
        let demand = self.demand(head, &flavor.shape);
        let fit_ix = self.world().shape(head.shape_ix).fit_ix;
        let kind = self.parts.is_none().then_some((fit_ix, flavor.class, flavor.domain));
        let is_shown = !self.waiting.is_silent;
        self.workspace.placing.place(self.cluster.view(), demand, kind, is_shown)
    }

    /// The demand of the next start of a job.
    pub(super) fn demand<'d>(&self, head: &QueueHead, shape: &'d Shape) -> Demand<'d>
    where
        'a: 'd,
    {
        Demand::new(shape, self.scope.policy, self.seed(head))
    }

    /// The seed of the next start of a job, where the policy chooses devices at random.
    fn seed(&self, head: &QueueHead) -> u64 {
        match self.scope.policy.device_strategy {
            DeviceStrategy::Random => {
                let (job, attempt) = self.cursor.next(self.row(head));
                seed(job, attempt)
            }
            DeviceStrategy::Sequential | DeviceStrategy::Pack | DeviceStrategy::Spread => 0,
        }
    }

    /// Carries out the solution of a stage: evicts its victims, and starts the job at its place;
    /// `None` for a place that is free.
    fn start(
        &mut self,
        stage: Option<Stage>,
        head: &QueueHead,
        shape: &Shape,
        Solution { placed, victims }: Solution,
        queue: &mut QueueOrder<'_>,
    ) {
        let row = self.row(head);
        let (job, attempt) = self.cursor.next(row);
        let mut after: Vec<u32> = Vec::new();
        if let Some(stage) = stage {
            after.extend(victims.iter().map(|it| self.evict(stage, it, job, head, shape)));
        }
        for it in &victims {
            queue.settle(self.cluster.shared(), Some(it.leaf));
            self.parts.iter_mut().for_each(|parts| parts.leaves.push(it.leaf));
        }
        if after.is_empty() && stage.is_some() {
            after = self.cluster.capacity.frees(&self.plan.decisions, &placed);
        }
        let fit = &shape.fit;
        let resumes = !fit.at.is_empty() && after.is_empty();
        let placements = match fit.at.is_empty() {
            true => self.cluster.capacity.placements(&placed, fit),
            false => fit.at.clone(),
        };
        match &mut self.parts {
            Some(parts) => parts.add(placements, after),
            None if fit.at.is_empty() => {
                self.plan.decisions.push(Decision::Start { job, attempt, placements, after });
            }
            None => self.plan.decisions.push(Decision::Resume { job, attempt, placements, after }),
        }
        let PlannedCluster { capacity, timeline, snapshot, .. } = &mut self.cluster;
        for placed in &placed {
            capacity.book(job, placed, fit);
            timeline.start(capacity, job, row, shape, placed);
        }
        timeline.start_paused(capacity, row, resumes);
        if resumes {
            capacity.resume(snapshot.world, row);
            self.is_cut = self.scope.has_looked_ahead() || self.workspace.placing.is_any_failed();
        }
    }

    /// Evicts a job for a beneficiary of that shape. Returns the position of the decision.
    fn evict(
        &mut self,
        stage: Stage,
        it: &Evictable,
        beneficiary: JobId,
        head: &QueueHead,
        shape: &Shape,
    ) -> u32 {
        let why = match stage {
            Stage::Consolidate => TakenBack::Consolidate,
            Stage::Reclaim | Stage::ReclaimAtLimit => TakenBack::Reclaim,
            Stage::Preempt => preempt::why(self.scope.policy, it, shape, head.is_escalated),
        };
        let victim = self.world().job(it.job).expect("a job that holds something is there");
        let PlannedCluster { capacity, timeline, projects, .. } = &mut self.cluster;
        timeline.evict(capacity, victim, it.exit);
        for (node_pos, held) in &it.held {
            let node = &mut capacity.nodes[*node_pos];
            node.free = node.free.more(held.host.below_zero());
        }
        if let Some(projects) = projects {
            projects.ledger.remove(&projects.tree, it.leaf, &it.amounts, true);
        }
        let (job, attempt, exit) = (it.job, victim.job.attempt, it.exit);
        let at = u32::try_from(self.plan.decisions.len()).unwrap_or(u32::MAX);
        self.plan.decisions.push(Decision::Evict { job, attempt, why, beneficiary, exit });
        at
    }
}
