//! Jobs with parts: all parts start, or none. Each part goes through the stages like a job, beside
//! the parts before it. If one has no place, the cycle returns to the state before the first, and
//! no job leaves for any of them.

use std::sync::Arc;

use gpool_model::{Decision, Placement, Reason, Shape};
use gpool_world::QueueHead;

use super::consolidate::Movables;
use super::find_placement::{Placing, hardest_first};
use super::queue_order::QueueOrder;
use super::reclaim::Reclaiming;
use super::{Cycle, JobFlavors, PlannedCluster};
use crate::capacity::{Demand, Planned, seed};
use crate::fairshare::TreeIx;
use crate::quota_state::{Amounts, Leaf};
use crate::victims::Evictions;

/// The starts of the parts of one job, until all have one.
#[derive(Default)]
pub(super) struct PartStarts {
    /// The position of the part that is being placed.
    pub part: usize,
    /// By part, in the order of the job.
    pub placements: Vec<Vec<Placement>>,
    /// The evictions that free their devices, by position in the plan.
    pub after: Vec<u32>,
    /// The projects that jobs left.
    pub leaves: Vec<TreeIx>,
}

impl PartStarts {
    /// Adds the start of the present part.
    pub fn add(&mut self, placements: Vec<Placement>, after: Vec<u32>) {
        self.placements[self.part] = placements;
        self.after.extend(after);
    }
}

/// The state of a cycle before the parts of a job.
struct Checkpoint<'a> {
    cluster: PlannedCluster<'a>,
    evictions: Evictions,
    placing: Placing,
    movables: Movables,
    n_decisions: usize,
    is_unsettled: bool,
}

/// Why a job with parts does not start.
enum NoStart {
    /// A part may have a place once capacity is lent.
    BeyondShare,
    /// A part has no place. `is_entitled` if all parts so far are within the share of the project.
    NoPlace { reason: Reason, is_entitled: bool },
}

impl<'a> Cycle<'a, '_> {
    /// The shape that is being placed: of a job, or of one of its parts.
    pub(super) fn shape(&self, head: &QueueHead) -> &'a Shape {
        let queue = self.world().shape(head.shape_ix);
        match &self.parts {
            Some(starts) => &queue.parts[starts.part],
            None => &queue.shape,
        }
    }

    /// Schedules a job with parts: it starts, gets a planned start, or waits for a reason.
    pub(super) fn schedule_parts(
        &mut self,
        leaf: Leaf,
        head: QueueHead,
        queue: &mut QueueOrder<'_>,
    ) {
        let (world, policy) = (self.world(), self.scope.policy);
        let by_right = leaf.is_some() && !self.is_lending;
        let before = self.checkpoint();
        let answer = self.start_parts(&head, by_right, queue);
        let Err(answer) = answer else {
            match self.cursor.take(self.row(&head)) {
                true => queue.heads(leaf).push_again(head),
                false => queue.heads(leaf).push_next(world, policy, &head),
            }
            return;
        };
        self.restore(before, queue);
        let NoStart::NoPlace { reason, is_entitled } = answer else {
            return queue.set_aside(leaf, head, false);
        };
        if by_right && is_entitled {
            let projects = self.cluster.projects.as_ref().zip(leaf);
            self.waiters.extend(projects.map(|(projects, leaf)| projects.project(leaf)));
        }
        // A planned start must not hold the place of an earlier job of the project.
        if by_right && queue.has_borrower(leaf) {
            self.is_unsettled = true;
            return queue.set_aside(leaf, head, false);
        }
        self.waiting.of_shape(head.shape_ix, &reason);
        if self.plan_parts(&head, by_right, &reason) {
            queue.heads(leaf).push_next(world, policy, &head);
        }
    }

    /// Starts all parts of a job.
    fn start_parts(
        &mut self,
        head: &QueueHead,
        by_right: bool,
        queue: &mut QueueOrder<'_>,
    ) -> Result<(), NoStart> {
        let row = self.world().shape(head.shape_ix);
        let placements = vec![Vec::new(); row.parts.len()];
        self.parts = Some(PartStarts { placements, ..PartStarts::default() });
        for part in hardest_first(&row.parts) {
            self.parts.get_or_insert_default().part = part;
            let request = self.request(head, by_right);
            let may_start = !request.by_right
                || !request.open.is_empty()
                || request.is_mixed
                || request.is_limited_above;
            let answer = match may_start {
                true => self.start_job(head, &request, queue),
                false => Err(None),
            };
            match answer {
                Ok(charge) => self.charge_part(request.leaf, &charge, &row.parts[part]),
                Err(Some(reason)) if !by_right || request.borrowable.is_empty() => {
                    let name = Arc::clone(&row.shape.parts[part].name);
                    let reason = Reason::OfPart { part: name, reason: Box::new(reason) };
                    return Err(NoStart::NoPlace { reason, is_entitled: has_right(&request) });
                }
                Err(_) => return Err(NoStart::BeyondShare),
            }
        }
        let PartStarts { placements, mut after, .. } = self.parts.take().unwrap_or_default();
        after.sort_unstable();
        after.dedup();
        let (job, attempt) = self.cursor.next(self.row(head));
        let placements = placements.concat();
        self.plan.decisions.push(Decision::Start { job, attempt, placements, after });
        self.note_start(head);
        Ok(())
    }

    fn charge_part(&mut self, leaf: Option<TreeIx>, charge: &Amounts, part: &Shape) {
        if let (Some(projects), Some(leaf)) = (&mut self.cluster.projects, leaf) {
            projects.ledger.add(&projects.tree, leaf, charge, part.preemptible);
            projects.take_slots(leaf, &part.fit);
        }
    }

    /// Plans the earliest start of all parts of a waiting job, if the policy plans one for it, and
    /// holds their capacity. Returns whether the next job of its shape may get a planned start too.
    fn plan_parts(&mut self, head: &QueueHead, by_right: bool, reason: &Reason) -> bool {
        let row = self.world().shape(head.shape_ix);
        let Some(requests) = self.open_requests(head, by_right) else { return false };
        if !self.scope.plans(head, &row.shape, reason) {
            return false;
        }
        let (job, attempt) = self.cursor.next(self.row(head));
        let (policy, seed) = (self.scope.policy, seed(job, attempt));
        let mut demands: Vec<Vec<Demand<'_>>> = Vec::new();
        for request in &requests {
            let of_flavors = request.open.iter().map(|it| Demand::new(&it.shape, policy, seed));
            demands.push(of_flavors.collect());
        }
        let PlannedCluster { capacity, holds, timeline, .. } = &self.cluster;
        let order = hardest_first(&row.parts);
        let found = timeline.plan_parts(capacity, holds, (&demands, &order), job);
        let Some((Planned { start, holds }, chosen)) = found else {
            self.scope.unknown.insert(head.shape_ix);
            return false;
        };
        let mut rest = &start.placements[..];
        let mut charges = Vec::new();
        for ((part, request), at) in row.parts.iter().zip(&requests).zip(chosen) {
            let n_tasks = usize::try_from(part.fit.gang.n_tasks()).unwrap_or(usize::MAX);
            let (own, others) = rest.split_at(n_tasks.min(rest.len()));
            rest = others;
            charges.push((request.leaf, self.charge_at(&request.open[at], own)));
        }
        self.plan.planned.push(start);
        self.scope.n_planned += 1;
        holds.into_iter().for_each(|(node_pos, hold)| self.cluster.holds.add(node_pos, hold));
        self.cursor.plan(self.row(head));
        self.users.started(self.world(), policy, &row.shape);
        for (leaf, charge) in charges {
            if let (Some(projects), Some(leaf)) = (&mut self.cluster.projects, leaf) {
                projects.ledger.plan(&projects.tree, leaf, &charge, row.shape.preemptible);
            }
        }
        self.scope.plans_always(head)
    }

    /// The flavors of each part that quotas allow, if the parts before it have theirs; `None` if a
    /// part may have none.
    fn open_requests(&mut self, head: &QueueHead, by_right: bool) -> Option<Vec<JobFlavors<'a>>> {
        let row = self.world().shape(head.shape_ix);
        let projects = self.cluster.projects.clone();
        let mut requests = Vec::new();
        for (at, part) in row.parts.iter().enumerate() {
            self.parts.get_or_insert_default().part = at;
            let request = self.request(head, by_right);
            if let Some(flavor) = request.open.first() {
                self.charge_part(request.leaf, &flavor.charge.clone(), part);
            }
            requests.push(request);
        }
        self.parts = None;
        self.cluster.projects = projects;
        requests.iter().all(|it| !it.open.is_empty()).then_some(requests)
    }

    fn checkpoint(&self) -> Checkpoint<'a> {
        Checkpoint {
            cluster: self.cluster.clone(),
            evictions: self.evictions.clone(),
            placing: self.workspace.placing.clone(),
            movables: self.workspace.movables.clone(),
            n_decisions: self.plan.decisions.len(),
            is_unsettled: self.is_unsettled,
        }
    }

    fn restore(&mut self, before: Checkpoint<'a>, queue: &mut QueueOrder<'_>) {
        let leaves = self.parts.take().map(|starts| starts.leaves).unwrap_or_default();
        self.cluster = before.cluster;
        self.evictions = before.evictions;
        self.workspace.placing = before.placing;
        self.workspace.movables = before.movables;
        self.plan.decisions.truncate(before.n_decisions);
        self.is_unsettled = before.is_unsettled;
        // They may have been read when the first parts were charged.
        self.reclaiming = Reclaiming::default();
        self.preempting.forget();
        for leaf in leaves {
            queue.settle(self.cluster.shared(), Some(leaf));
        }
    }
}

/// Whether a request is within the share of its project.
fn has_right(request: &JobFlavors<'_>) -> bool {
    !request.open.is_empty() || request.is_limited_above
}
