//! Checks that a plan starts no job on reserved devices of others, now or while the job still runs.

use gpool_model::{Millis, Placement, Plan, Reservation, Timestamp};
use gpool_world::{JobRow, Snapshot};

use crate::arrays::row_of;
use crate::course::is_reserved_for;
use crate::job::ran;
use crate::shape::shape_of;
use crate::violation::Violation;

/// No job starts on capacity that is reserved for others while the job would run.
pub(crate) fn check(snapshot: &Snapshot<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let reservations = snapshot.world.reservations();
    let reserved_only = snapshot.world.policy().reserved_only;
    if reservations.is_empty() && !reserved_only {
        return;
    }
    for decision in &plan.decisions {
        let Some((job, placements)) = decision.started() else { continue };
        let Some(row) = row_of(snapshot.world, job) else { continue };
        for placement in placements {
            if reserved_only && !is_given(snapshot, row, placement) {
                let node = placement.node.clone();
                found.push(Violation::NotReserved { job, node });
            }
            let keeps = |it: &&Reservation| {
                !it.beneficiary.is_for(&row.spec)
                    && is_on(it, placement)
                    && is_met(it, row, snapshot.now)
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

/// Whether every device of a placement is reserved for the job.
fn is_given(snapshot: &Snapshot<'_>, row: &JobRow, placement: &Placement) -> bool {
    let shape = shape_of(snapshot.world, row);
    let Some(node) = snapshot.world.node(&placement.node) else { return false };
    placement.slots.iter().all(|slot| {
        let mut devices = node.node.devices.iter();
        let device = devices.find(|device| device.uuid == slot.device);
        device.is_some_and(|it| is_reserved_for(snapshot, &node.node, it, &shape, snapshot.now))
    })
}

/// Whether the reservation has the node, or one of the devices.
fn is_on(it: &Reservation, placement: &Placement) -> bool {
    let mut slots = placement.slots.iter();
    it.what.has_node(&placement.node)
        || slots.any(|slot| it.what.has_device(&placement.node, &slot.device))
}

/// Whether the reservation holds now, or begins before a job that starts now is certain to be gone.
fn is_met(it: &Reservation, row: &JobRow, now: Timestamp) -> bool {
    let length = |limit: Millis| limit.saturating_sub(ran(row)).saturating_add(row.spec.grace);
    let gone = row.spec.time_limit.map(|limit| now.after(length(limit)));
    let window = it.occurrence(now);
    window.is_some_and(|window| gone.is_none_or(|gone| window.from < gone))
}
