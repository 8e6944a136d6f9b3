//! Checks that a plan leaves no job waiting that fits, and that its waits count all waiting jobs.

use std::collections::BTreeMap;

use gpool_model::{JobNumber, NodeName, Plan, Policy, Shape};
use gpool_world::{JobRow, Snapshot};

use crate::arrays::{Running, row_of, waiting_rows};
use crate::course::{self, AllocationTimeline};
use crate::job::started;
use crate::plan_state::PlanState;
use crate::planned::comes_after;
use crate::shape::shape_of;
use crate::violation::Violation;

/// After the plan, no job that it leaves waiting fits any node, except where the job would delay an
/// earlier planned start or overlap a reservation. Tries every shape on every node; skips the jobs
/// of users that have reached a cap.
pub(crate) fn check_nothing_fits(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    after: &PlanState<'_>,
    found: &mut Vec<Violation>,
) {
    let world = snapshot.world;
    let started = started(plan);
    let running = Running::of(world, plan);
    let is_full = |row: &JobRow| running.is_full(world, row.job.id.number);
    // One course for each number of planned starts, from none to all.
    let mut course = AllocationTimeline::of(snapshot, world.job_rows(), None);
    for decision in &plan.decisions {
        let Some((job, placements)) = decision.started() else { continue };
        course.take_back_for(snapshot, plan, job);
        if let (Some(row), Some(when)) = (row_of(world, job), course::started(snapshot, job)) {
            course.add_all(placements, row, when);
        }
    }
    let mut courses = vec![course];
    for planned in &plan.planned {
        let mut course = courses.last().cloned().unwrap_or_default();
        if let Some(row) = row_of(world, planned.job) {
            let when = course::stretch(&shape_of(world, row), planned.at);
            course.add_all(&planned.placements, row, when);
        }
        courses.push(course);
    }
    let mut room = BTreeMap::<(Shape, usize), Option<NodeName>>::new();
    let left = waiting_rows(snapshot, &started).into_iter().map(|(row, _)| row);
    let is_kept = |row: &JobRow| is_full(row) || after.keeps(snapshot, policy, row);
    // Whether all parts of a job fit at once depends on where each goes.
    for row in left.filter(|row| !is_kept(row) && row.spec.parts.is_empty()) {
        let before = plan.planned.iter().map(|it| it.job);
        let n_before = before.take_while(|job| comes_after(snapshot, policy, row, *job)).count();
        let key = (shape_of(world, row), n_before);
        let node = room.entry(key).or_insert_with_key(|(shape, n_before)| {
            let when = course::stretch(shape, snapshot.now);
            courses[*n_before].has_places(snapshot, shape, when).cloned()
        });
        if let Some(node) = node {
            found.push(Violation::FitsAndWaits { job: row.job.id, node: node.clone() });
        }
    }
}

/// The waits of a plan count every job that it leaves waiting, each shape once, and each array that
/// has reached its own limit.
pub(crate) fn check_waits(snapshot: &Snapshot<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let started = started(plan);
    // By shape, the number of waiting jobs in the state and in the plan.
    let mut counts = BTreeMap::<Shape, (u64, u64)>::new();
    for (row, n) in waiting_rows(snapshot, &started) {
        counts.entry(shape_of(snapshot.world, row)).or_default().0 += n;
    }
    let mut seen = BTreeMap::<(&Shape, Option<JobNumber>), u64>::new();
    for wait in &plan.waits {
        let n_waits = seen.entry((&wait.shape, wait.array)).or_default();
        *n_waits += 1;
        if *n_waits == 2 {
            let shape = Box::new(Shape::clone(&wait.shape));
            found.push(Violation::WaitTwice { shape });
        }
        let planned = &mut counts.entry(Shape::clone(&wait.shape)).or_default().1;
        *planned = planned.saturating_add(wait.n_jobs);
    }
    for (shape, (waiting, planned)) in counts {
        // A wait without jobs is as wrong as jobs without a wait.
        if waiting != planned || waiting == 0 {
            found.push(Violation::WrongWait { shape: Box::new(shape), planned, waiting });
        }
    }
}
