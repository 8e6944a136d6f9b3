//! Stage backfill: planned starts. The first jobs that find no place get the earliest time and
//! place at which they fit. That capacity is held, so jobs later in the order never delay them.

use gpool_model::{JobId, OrderKey, PlannedStarts, Reason, Shape};
use gpool_world::QueueHead;

use super::find_placement::waits_for_capacity;
use super::{PlannedCluster, PolicyScope};
use crate::capacity::{Demand, Planned};

/// The most planned starts under [`PlannedStarts::All`]: the cost of one grows with the others.
const ALL_MAX: usize = 100;
/// After this many jobs that wait for capacity without a known end, no start is planned.
const UNKNOWN_MAX: usize = 8;

impl PolicyScope<'_> {
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
    pub(super) fn plans_always(&self, head: &QueueHead) -> bool {
        head.is_escalated || self.policy.planned_starts == PlannedStarts::All
    }

    /// Whether a start is planned for a job that waits for that reason. Counts the job as waiting.
    pub(super) fn plans(&mut self, head: &QueueHead, shape: &Shape, reason: &Reason) -> bool {
        if !self.may_plan() || !waits_for_capacity(reason) || shape.joins {
            return false;
        }
        let is_first = self.waiting_priorities.insert(self.priority_of(shape.priority));
        (is_first || self.plans_always(head)) && !self.unknown.contains(&head.shape_ix)
    }
}

/// Returns the earliest start of a job that waits, among the demands that quotas allow it, with the
/// position of its demand.
pub(super) fn backfill<'a, 'd>(
    cluster: &mut PlannedCluster<'a>,
    demands: impl Iterator<Item = Demand<'d>>,
    job: JobId,
) -> Option<(Planned<'a>, usize)> {
    let PlannedCluster { capacity, holds, timeline, .. } = cluster;
    let plan = |(at, demand)| Some((timeline.plan(capacity, holds, demand, job)?, at));
    demands.enumerate().filter_map(plan).min_by_key(|(planned, _)| planned.start.at)
}
