//! Whether a plan starts somebody on what is reserved for others, now or before he has left.

use gpool_model::{JobSpec, Millis, Placement, Plan, Reservation, Timestamp};
use gpool_world::Snapshot;

use crate::arrays::row_of;
use crate::violation::Violation;

/// Nobody is started on what a reservation keeps for others while he would run.
pub(crate) fn check(snapshot: &Snapshot<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let reservations = snapshot.world.reservations();
    if reservations.is_empty() {
        return;
    }
    for decision in &plan.decisions {
        let Some((job, placements)) = decision.started() else { continue };
        let Some(row) = row_of(snapshot.world, job) else { continue };
        for placement in placements {
            let keeps = |it: &&Reservation| {
                !it.whom.is_for(&row.spec)
                    && is_on(it, placement)
                    && is_met(it, &row.spec, snapshot.now)
            };
            let mut by = reservations.values().filter(keeps);
            found.extend(by.next().map(|it| Violation::Reserved {
                job,
                node: placement.node.clone(),
                reservation: it.name.clone(),
            }));
        }
    }
}

/// Whether it has the node, or one of the devices.
fn is_on(it: &Reservation, placement: &Placement) -> bool {
    let mut slots = placement.slots.iter();
    it.what.has_node(&placement.node)
        || slots.any(|slot| it.what.has_device(&placement.node, &slot.device))
}

/// Whether it holds now, or begins before a job that starts now is gone for certain.
fn is_met(it: &Reservation, spec: &JobSpec, now: Timestamp) -> bool {
    let length = |limit: Millis| limit.saturating_add(spec.grace);
    let gone = spec.time_limit.map(|limit| now.after(length(limit)));
    let window = it.occurrence(now);
    window.is_some_and(|window| gone.is_none_or(|gone| window.from < gone))
}
