//! Whether a plan leaves nothing waiting that fits, and says of all that waits that it does.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{JobId, JobNumber, Millis, NodeName, OrderKey, Plan, Policy, Shape, Whom};
use gpool_world::{JobRow, Snapshot, World};

use crate::arrays::{Running, left};
use crate::order::{fit_of, started};
use crate::tally::Tally;
use crate::users::Users;
use crate::violation::Violation;

/// After the plan, no job that it leaves waiting fits any node: every fit against every node. But
/// those whose users have all that they may have wait for that.
pub(crate) fn check_nothing_fits(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    (after, users): (&Tally<'_>, &Users),
    found: &mut Vec<Violation>,
) {
    let started = started(plan);
    let running = Running::of(snapshot.world, plan);
    let is_full = |row: &JobRow| running.is_full(snapshot.world, row.job.id.number);
    let mut room = BTreeMap::<Fit, Option<NodeName>>::new();
    let left = left(snapshot, &started).into_iter().map(|(row, _)| row);
    let is_kept = |row: &JobRow| is_full(row) || users.is_capped(policy, row);
    for row in left.filter(|row| !is_kept(row)) {
        let fit = fit_of(row);
        let node = room.entry(fit).or_insert_with_key(|fit| {
            let node = after.nodes.values().find(|node| node.has_room(fit));
            node.map(|node| node.node.name.clone())
        });
        if let Some(node) = node {
            found.push(Violation::FitsAndWaits { job: row.job.id, node: node.clone() });
        }
    }
}

/// The waits of a plan count every job that it leaves waiting, each shape once, and each array that
/// keeps itself from more.
pub(crate) fn check_waits(snapshot: &Snapshot<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let started = started(plan);
    // What the state says beside what the plan says.
    let mut counts = BTreeMap::<Shape, (u64, u64)>::new();
    for (row, n) in left(snapshot, &started) {
        counts.entry(shape_of(snapshot.world, row)).or_default().0 += n;
    }
    let mut seen = BTreeMap::<(&Shape, Option<JobNumber>), u64>::new();
    for wait in &plan.waits {
        let n_waits = seen.entry((&wait.shape, wait.array)).or_default();
        *n_waits += 1;
        if *n_waits == 2 {
            found.push(Violation::WaitTwice { shape: Box::new(wait.shape.clone()) });
        }
        let planned = &mut counts.entry(wait.shape.clone()).or_default().1;
        *planned = planned.saturating_add(wait.n_jobs);
    }
    for (shape, (waiting, planned)) in counts {
        // A wait of nobody is as wrong as nobody's wait.
        if waiting != planned || waiting == 0 {
            found.push(Violation::WrongWait { shape: Box::new(shape), planned, waiting });
        }
    }
}

/// What a job has in common with others, from its records alone.
pub(crate) fn shape_of(world: &World, row: &JobRow) -> Shape {
    let asks = world.policy().order.contains(&OrderKey::Predicted);
    let step = Shape::LIMIT_STEP.get();
    let whole = JobId { element: None, ..row.job.id };
    let own = Whom::Job { id: whole };
    let is_reserved = world.reservations().values().any(|it| it.whom == own);
    Shape {
        project: row.spec.project.clone(),
        uid: row.spec.owner.uid,
        reserved_as: is_reserved.then_some(whole),
        pool: None,
        priority: row.job.priority,
        preemptible: false,
        time_limit: row.spec.time_limit.map(|limit| {
            let n_steps = limit.get().div_ceil(step);
            Millis::new(n_steps.saturating_mul(step))
        }),
        predicted: world.prediction(&row.spec).filter(|_| asks).map(|prediction| {
            let length = prediction.p50.get();
            let shifts = (0..u64::BITS).find(|shift| 1 << shift >= length);
            Millis::new(shifts.map_or(u64::MAX, |shift| 1 << shift))
        }),
        fit: fit_of(row),
    }
}
