//! Starts one job: the stages place, consolidate, reclaim and preempt, in this order, each over the
//! flavors of GPUs that quotas allow.

use gpool_model::{Decision, DeviceStrategy, Reason, Shape, TakenBack};
use gpool_world::{FitIx, Head};

use super::consolidate::consolidate;
use super::find_placement::{self, find_placement, waits_for_capacity};
use super::preempt::{self, Preemptor};
use super::queue_order::QueueOrder;
use super::{Cycle, Failed, Request};
use crate::capacity::{Demand, Placed, seed};
use crate::fairshare::Row;
use crate::fragmentation::Look;
use crate::quota_state::Amounts;
use crate::quota_state::resource_flavors::Flavor;
use crate::victims::{Evictable, Input, Solution};

/// A stage that makes room for a job.
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

impl Cycle<'_, '_> {
    /// Takes a job through the stages place, consolidate, reclaim and preempt. Returns its charge
    /// if it starts, else why it waits, if it may start in some flavor.
    pub(super) fn start_job(
        &mut self,
        head: &Head,
        request: &Request<'_>,
        queue: &mut QueueOrder<'_>,
    ) -> Result<Amounts, Option<Reason>> {
        let waits = match self.place_first(head, request) {
            Ok(charge) => return Ok(charge),
            Err(waits) => waits,
        };
        if let Some(charge) = self.start_mixed(head, request) {
            return Ok(charge);
        }
        let may_wait = request.open.len() > 1
            && waits.iter().any(|it| self.fits_on_leaving(head, request, it.flavor));
        if !may_wait && let Some(charge) = self.make_room(head, request, &waits, queue) {
            return Ok(charge);
        }
        Err(self.reason_of(head, request, &waits))
    }

    /// Stage place: starts the job in the first flavor that is free; else returns why each is not.
    fn place_first<'x, 'f>(
        &mut self,
        head: &Head,
        request: &'x Request<'f>,
    ) -> Result<Amounts, Vec<NoPlace<'x, 'f>>> {
        let mut waits = Vec::new();
        for flavor in &request.open {
            match self.find(head, flavor) {
                Ok(placed) if !flavor.is_mixed => {
                    self.start(head, &flavor.shape, &placed, Vec::new());
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
        head: &Head,
        request: &Request<'_>,
        waits: &[NoPlace<'_, '_>],
        queue: &mut QueueOrder<'_>,
    ) -> Option<Amounts> {
        let (leaf, row) = (request.charged?, self.row(head));
        let n_moved = self.scope.policy.n_moved_for(&row.job, &row.spec, self.cluster.snapshot.now);
        let n_moved_most = usize::try_from(n_moved).unwrap_or(usize::MAX);
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
            let solution = self.solve(stage, head, flavor, leaf, n_moved_most)?;
            self.evict_and_start(stage, head, &flavor.shape, solution, queue);
            Some(flavor.charge.clone())
        })
    }

    /// One stage for one flavor: the place of a job, and the jobs that move or leave for it.
    fn solve(
        &mut self,
        stage: Stage,
        head: &Head,
        flavor: &Flavor<'_>,
        leaf: Row,
        n_moved_most: usize,
    ) -> Option<Solution> {
        let policy = self.scope.policy;
        let (charge, preemptible) = (&flavor.charge[..], flavor.shape.preemptible);
        let is_limited = self.cluster.projects.as_ref()?;
        let is_useful = match stage {
            Stage::Consolidate => n_moved_most > 0,
            Stage::Reclaim => true,
            Stage::ReclaimAtLimit => is_limited.is_limited_above(leaf, charge, preemptible),
            Stage::Preempt => preempt::happens(self.world(), policy),
        };
        if !is_useful {
            return None;
        }
        let free = match stage {
            Stage::ReclaimAtLimit => self.find(head, flavor).ok(),
            Stage::Consolidate | Stage::Reclaim | Stage::Preempt => None,
        };
        let demand = Demand::new(&flavor.shape, policy, self.seed(head));
        let (view, projects) = (self.cluster.view(), self.cluster.projects.as_ref()?);
        let input = Input { view, projects, demand, leaf, charge };
        let evictions = &mut self.evictions;
        match stage {
            Stage::Consolidate => {
                consolidate(input, evictions, &mut self.workspace.movables, n_moved_most)
            }
            Stage::Reclaim => self.reclaiming.reclaim(input, evictions),
            Stage::ReclaimAtLimit => {
                self.reclaiming.reclaim_at_limit(input, evictions, free.as_deref())
            }
            Stage::Preempt => {
                let may_borrow = !projects.are_shared || self.is_lending;
                let may_have = |gone: &[&Evictable]| input.has_quota_after(gone, may_borrow);
                let is_escalated = head.is_escalated;
                let preemptor = Preemptor { is_escalated, n_moved_most, may_have: &may_have };
                self.preempting.preempt(input, evictions, &mut self.workspace.movables, preemptor)
            }
        }
    }

    /// Whether a flavor fits once jobs that are leaving already have left: the job waits for that,
    /// and no job leaves for it in another flavor.
    fn fits_on_leaving(&mut self, head: &Head, request: &Request<'_>, flavor: &Flavor<'_>) -> bool {
        let demand = Demand::new(&flavor.shape, self.scope.policy, self.seed(head));
        let view = self.cluster.view();
        let Some((projects, leaf)) = self.cluster.projects.as_ref().zip(request.charged) else {
            return false;
        };
        let input = Input { view, projects, demand, leaf, charge: &flavor.charge };
        let placed = self.evictions.place_on_leaving(&input);
        placed.inspect(|placed| self.evictions.claim(placed)).is_some()
    }

    /// Why a job waits: the reason of its one flavor, or of all together.
    fn reason_of(
        &mut self,
        head: &Head,
        request: &Request<'_>,
        waits: &[NoPlace<'_, '_>],
    ) -> Option<Reason> {
        match waits {
            [] => request.refused.first().map(|(_, reason)| reason.clone()),
            [NoPlace { flavor, reason }] if flavor.class.is_none() => Some(reason.clone()),
            _ => {
                let world = self.world();
                let shape = &world.shape(head.shape_ix).shape;
                let refused = request.refused.last().map(|(_, reason)| reason);
                let refused = refused.or(waits.last().map(|it| &it.reason)).cloned();
                // There may be capacity, but not where the quota allows it.
                self.find(head, &Flavor::as_asked(world, shape)).err().or(refused)
            }
        }
    }

    /// Starts a job with GPUs of several flavors, if it may have those that are free. If its quota
    /// refuses the best place, one pool or fewer models may be within it.
    fn start_mixed(&mut self, head: &Head, request: &Request<'_>) -> Option<Amounts> {
        let leaf = request.charged.filter(|_| request.is_mixed)?;
        let world = self.world();
        let shape = &world.shape(head.shape_ix).shape;
        let placed = self.find(head, &Flavor::as_asked(world, shape)).ok()?;
        if let Some(charge) = self.start_within_quota(head, request, shape, &placed) {
            return Some(charge);
        }
        let narrower = self.cluster.projects.as_ref()?.narrower(world, shape, leaf);
        narrower.into_iter().find_map(|narrower| {
            let demand = Demand::new(&narrower, self.scope.policy, self.seed(head));
            let placed = self.place(demand)?;
            self.start_within_quota(head, request, &narrower, &placed)
        })
    }

    /// Starts a job at a place if its charge there is within the quota.
    fn start_within_quota(
        &mut self,
        head: &Head,
        request: &Request<'_>,
        shape: &Shape,
        placed: &[Placed],
    ) -> Option<Amounts> {
        let (world, projects) = (self.world(), self.cluster.projects.as_ref()?);
        let leaf = request.charged?;
        let placements = self.cluster.capacity.placements(placed, &shape.fit);
        let charge = projects.charge_at(world, shape, &placements);
        let may_have = projects.refuses(leaf, &charge, shape.preemptible, &[]).is_none()
            && (!request.by_right || projects.is_entitled(leaf, &charge));
        may_have.then(|| {
            self.start(head, shape, placed, Vec::new());
            charge
        })
    }

    /// Returns where a job can start at once, or why it waits.
    pub(super) fn find(&mut self, head: &Head, flavor: &Flavor<'_>) -> Result<Vec<Placed>, Reason> {
        let FitIx(fit_ix) = self.world().shape(head.shape_ix).fit_ix;
        let shape = &*flavor.shape;
        let (length, access) = (shape.takes, self.cluster.holds.access(shape));
        let is_usual = access.is_empty() && flavor.class.is_none();
        let key = (fit_ix, flavor.class, access);
        let failed = match is_usual {
            true => self.workspace.failed[fit_ix].as_ref(),
            false => self.workspace.failed_inside.get(&key),
        };
        if let Some(failed) = failed.filter(|failed| failed.covers(length)) {
            return Err(failed.reason.clone());
        }
        let demand = Demand::new(shape, self.scope.policy, self.seed(head));
        if let Some(placed) = self.place(demand) {
            return Ok(placed);
        }
        let reason = find_placement::reason(self.cluster.view(), demand, !self.waiting.is_silent);
        let failed = Failed { length, reason: reason.clone() };
        match is_usual {
            true => self.workspace.failed[fit_ix] = Some(failed),
            false => drop(self.workspace.failed_inside.insert(key, failed)),
        }
        Err(reason)
    }

    fn place(&mut self, demand: Demand<'_>) -> Option<Vec<Placed>> {
        let (snapshot, capacity) = (&self.cluster.snapshot, &self.cluster.capacity);
        let mut look = self.workspace.fragmentation.look(snapshot, capacity, demand.shape);
        let placed = find_placement(self.cluster.view(), demand, look.as_mut());
        look.into_iter().for_each(Look::end);
        placed
    }

    /// The seed of the next start of a job, where the policy chooses devices at random.
    fn seed(&self, head: &Head) -> u64 {
        match self.scope.policy.device_strategy {
            DeviceStrategy::Random => {
                let (job, attempt) = self.cursor.next(self.row(head));
                seed(job, attempt)
            }
            DeviceStrategy::Sequential | DeviceStrategy::Pack | DeviceStrategy::Spread => 0,
        }
    }

    /// Evicts the victims of a stage and starts the job on their capacity.
    fn evict_and_start(
        &mut self,
        stage: Stage,
        head: &Head,
        shape: &Shape,
        Solution { placed, victims }: Solution,
        queue: &mut QueueOrder<'_>,
    ) {
        let (beneficiary, _) = self.cursor.next(self.row(head));
        let mut after = Vec::new();
        for it in victims {
            let why = match stage {
                Stage::Consolidate => TakenBack::Consolidate,
                Stage::Reclaim | Stage::ReclaimAtLimit => TakenBack::Reclaim,
                Stage::Preempt => preempt::why(self.scope.policy, &it, shape, head.is_escalated),
            };
            let victim = self.world().job(it.job).expect("a job that holds something is there");
            self.cluster.timeline.evict(&self.cluster.capacity, victim, it.exit);
            let (job, attempt, exit) = (it.job, victim.job.attempt, it.exit);
            after.push(u32::try_from(self.plan.decisions.len()).unwrap_or(u32::MAX));
            self.plan.decisions.push(Decision::Evict { job, attempt, why, beneficiary, exit });
            if let Some(projects) = &mut self.cluster.projects {
                projects.ledger.remove(&projects.tree, it.leaf, &it.amounts, true);
            }
            queue.settle(self.cluster.shared(), Some(it.leaf));
        }
        if after.is_empty() {
            after = self.cluster.capacity.frees(&self.plan.decisions, &placed);
        }
        self.start(head, shape, &placed, after);
    }

    /// Adds the start of a job to the plan, after these evictions by their positions in it.
    fn start(&mut self, head: &Head, shape: &Shape, placed: &[Placed], after: Vec<u32>) {
        let row = self.row(head);
        let (job, attempt) = self.cursor.next(row);
        let fit = &shape.fit;
        self.plan.decisions.push(match fit.at.is_empty() {
            true => {
                let placements = self.cluster.capacity.placements(placed, fit);
                Decision::Start { job, attempt, placements, after }
            }
            false => Decision::Resume { job, attempt, placements: fit.at.clone(), after },
        });
        let cluster = &mut self.cluster;
        for placed in placed {
            cluster.capacity.book(placed, fit);
            cluster.timeline.start(&cluster.capacity, job, row, shape, placed);
        }
    }
}
