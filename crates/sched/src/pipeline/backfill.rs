//! Stage backfill: planned starts. The first jobs that find no place get the earliest time and
//! place at which they fit. That capacity is held, so jobs later in the order never delay them.

use gpool_model::{OrderKey, PlannedStart, PlannedStarts, Reason};
use gpool_world::Head;

use super::Cycle;
use super::find_placement::waits_for_capacity;
use crate::resource_flavors::Way;

/// The most planned starts under [`PlannedStarts::All`]: the cost of one grows with the others.
const ALL_MAX: usize = 100;
/// After this many jobs that wait for capacity without a known end, no start is planned.
pub(super) const UNKNOWN_MAX: usize = 8;

impl Cycle<'_, '_> {
    /// The most planned starts of the policy.
    pub(super) fn n_planned_max(&self) -> usize {
        match self.domain.policy.planned_starts {
            PlannedStarts::AtMost(most) => usize::try_from(most).unwrap_or(usize::MAX).min(ALL_MAX),
            PlannedStarts::All => ALL_MAX,
        }
    }

    /// Holds the earliest time and place for a job that waits, if it is its turn to have them kept.
    /// Answers whether the next of its shape could have that turn too.
    pub(super) fn plan_start(&mut self, head: &Head, ways: &[Way<'_>], reason: &Reason) -> bool {
        if self.domain.n_planned >= self.n_planned_max()
            || self.domain.unknown.len() >= UNKNOWN_MAX
            || !waits_for_capacity(reason)
        {
            return false;
        }
        let queue = self.snapshot.world.shape(head.shape_ix);
        let shape = &queue.shape;
        if shape.joins {
            return false;
        }
        let by_priority = self.domain.policy.order.contains(&OrderKey::Priority);
        let is_top = self.domain.tops.insert(if by_priority { shape.priority } else { 0 });
        let by_right = head.is_escalated || self.domain.policy.planned_starts == PlannedStarts::All;
        if !(is_top || by_right) || self.domain.unknown.contains(&head.shape_ix) {
            return false;
        }
        let next = self.cursor.next(self.row(head));
        let mut earliest = None;
        for way in ways {
            let planned = self.timeline.plan(
                &self.capacity,
                &self.holds,
                &way.shape,
                next,
                self.domain.policy,
            );
            let Some((planned, kept)) = planned else { continue };
            let is_earlier = |(than, ..): &(PlannedStart, Vec<_>, &Way<'_>)| planned.at < than.at;
            if earliest.as_ref().is_none_or(is_earlier) {
                earliest = Some((planned, kept, way));
            }
        }
        match earliest {
            Some((planned, kept, way)) => {
                self.plan.planned.push(planned);
                self.domain.n_planned += 1;
                // They count for its user: other jobs of that user must not take them.
                self.users.started(self.snapshot.world, self.domain.policy, shape);
                if let Some(projects) = &mut self.projects {
                    let row = projects.leaf(queue);
                    projects.add(row, &way.charge, shape.preemptible);
                }
                kept.into_iter().for_each(|(node_pos, keep)| self.holds.add(node_pos, keep));
                by_right
            }
            None => {
                self.domain.unknown.insert(head.shape_ix);
                false
            }
        }
    }
}
