//! Stage backfill: planned starts. The first jobs that find no place get the earliest time and
//! place at which they fit. That capacity is held, so jobs later in the order never delay them.

use gpool_model::{OrderKey, PlannedStarts, Reason};
use gpool_world::Head;

use super::find_placement::waits_for_capacity;
use super::{Cycle, Request, Scope};
use crate::capacity::{Demand, Planned, seed};
use crate::quota_state::resource_flavors::Flavor;

/// The most planned starts under [`PlannedStarts::All`]: the cost of one grows with the others.
const ALL_MAX: usize = 100;
/// After this many jobs that wait for capacity without a known end, no start is planned.
const UNKNOWN_MAX: usize = 8;

impl Scope<'_> {
    /// Whether more starts may be planned.
    pub(super) fn may_plan(&self) -> bool {
        let most = match self.policy.planned_starts {
            PlannedStarts::AtMost(most) => usize::try_from(most).unwrap_or(usize::MAX).min(ALL_MAX),
            PlannedStarts::All => ALL_MAX,
        };
        self.n_planned < most && self.unknown.len() < UNKNOWN_MAX
    }

    /// The priority that counts for planned starts: one start is planned for each.
    pub(super) fn priority_of(&self, priority: i32) -> i32 {
        if self.policy.order.contains(&OrderKey::Priority) { priority } else { 0 }
    }

    /// Whether a job gets a planned start even if another job of its priority waits before it.
    pub(super) fn plans_always(&self, head: &Head) -> bool {
        head.is_escalated || self.policy.planned_starts == PlannedStarts::All
    }
}

impl Cycle<'_, '_> {
    /// Plans the earliest start of a waiting job, if the policy plans one for it, and holds its
    /// capacity. Returns whether the next job of its shape may get a planned start too.
    pub(super) fn plan_start(
        &mut self,
        head: &Head,
        request: &Request<'_>,
        reason: &Reason,
    ) -> bool {
        let shape = &self.world().shape(head.shape_ix).shape;
        if !self.scope.may_plan() || !waits_for_capacity(reason) || shape.joins {
            return false;
        }
        let priority = self.scope.priority_of(shape.priority);
        let is_first = self.scope.waiting_priorities.insert(priority);
        let plans_always = self.scope.plans_always(head);
        if !(is_first || plans_always) || self.scope.unknown.contains(&head.shape_ix) {
            return false;
        }
        let (job, attempt) = self.cursor.next(self.row(head));
        let (cluster, policy) = (&mut self.cluster, self.scope.policy);
        let mut earliest: Option<(Planned<'_>, &Flavor<'_>)> = None;
        for flavor in &request.open {
            let (capacity, holds) = (&cluster.capacity, &cluster.holds);
            let demand = Demand::new(&flavor.shape, policy, seed(job, attempt));
            let planned = cluster.timeline.plan(capacity, holds, demand, job);
            let Some(planned) = planned else { continue };
            if earliest.as_ref().is_none_or(|(than, _)| planned.start.at < than.start.at) {
                earliest = Some((planned, flavor));
            }
        }
        let Some((Planned { start, holds }, flavor)) = earliest else {
            self.scope.unknown.insert(head.shape_ix);
            return false;
        };
        self.plan.planned.push(start);
        self.scope.n_planned += 1;
        holds.into_iter().for_each(|(node_pos, hold)| cluster.holds.add(node_pos, hold));
        // Other jobs of its user and project must not take its quota.
        self.charge(shape, request.charged, &flavor.charge);
        plans_always
    }
}
