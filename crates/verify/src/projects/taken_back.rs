//! Whether a job may be taken back for another: because it is on loan, comes after the other in
//! its project, or can be moved.

use gpool_model::{Exit, JobId, OrderKey, Phase, Policy, TakenBack, Timestamp};
use gpool_world::{JobRow, Snapshot, World};

use super::Projects;
use super::loans::Loans;
use crate::arrays::row_of;
use crate::job;
use crate::violation::Violation;

/// A job that a plan takes back.
pub(super) struct TakenJob<'a> {
    pub row: &'a JobRow,
    pub why: TakenBack,
    pub exit: Exit,
    pub beneficiary: JobId,
}

/// Checks that a job may be taken back for its beneficiary, for the reason that the plan gives.
pub(super) fn check(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    (projects, loans): (&Projects, &mut Loans<'_>),
    taken: &TakenJob<'_>,
    found: &mut Vec<Violation>,
) {
    let TakenJob { row, why, exit, beneficiary } = *taken;
    let (world, job) = (snapshot.world, row.job.id);
    let taker = row_of(world, beneficiary).map(|it| &it.spec.project);
    let taker = taker.unwrap_or(&row.spec.project);
    if why == TakenBack::Reclaim && !loans.has(projects, row, taker) {
        found.push(Violation::OwnTakenBack { job });
    }
    let is_too_new = match why {
        TakenBack::Reclaim => loans.is_too_new(row, |it| it.reclaim),
        TakenBack::Preempt | TakenBack::Rotate | TakenBack::Shrink => {
            loans.is_too_new(row, |it| it.preempt)
        }
        TakenBack::Consolidate => false,
    };
    if is_too_new {
        let what = "it was started too lately";
        found.push(Violation::WrongEviction { job, what });
    }
    let what = match why {
        TakenBack::Consolidate if !is_moved(snapshot, policy, (row, exit), beneficiary) => {
            "it does not save its work, or it or the other came just now"
        }
        TakenBack::Preempt if !gives_way(snapshot, policy, row, beneficiary) => {
            "it has no lower priority than another of its project"
        }
        TakenBack::Rotate if !has_had_more(snapshot, policy, row, beneficiary) => {
            "it has not had more GPU-time than another of its project, or was started just now"
        }
        TakenBack::Shrink if !is_extra(world, policy, row, beneficiary) => {
            "it makes no job larger, or room for nobody who goes before that"
        }
        _ => return,
    };
    found.push(Violation::WrongEviction { job, what });
}

/// Whether a job gives way to another for its priority, and not before that for the GPU-time that
/// it has had.
fn gives_way(snapshot: &Snapshot<'_>, policy: &Policy, row: &JobRow, other: JobId) -> bool {
    row_of(snapshot.world, other).is_some_and(|other| {
        let is_of_one = are_of_one(policy, row, other);
        let now = snapshot.now;
        let by_priority = match policy.of_pool(row.spec.pool.as_ref()).order[..] {
            [OrderKey::Priority, ..] => true,
            [OrderKey::Attained, OrderKey::Priority, ..] => {
                level_asked(policy, other, now) == job::level(policy, row, now)
            }
            _ => false,
        };
        is_of_one && by_priority && row.job.priority < other.job.priority
    })
}

/// Whether one of two jobs may go before the other one that runs: they are of one project, and the
/// same policy decides about them.
fn are_of_one(policy: &Policy, row: &JobRow, other: &JobRow) -> bool {
    (row.spec.project == other.spec.project || !policy.shares())
        && job::domain(policy, row) == job::domain(policy, other)
}

/// How much GPU-time counts for a job that waits: none once it is escalated.
fn level_asked(policy: &Policy, row: &JobRow, now: Timestamp) -> usize {
    match job::is_escalated(row, policy, now) {
        Some(true) => 0,
        _ => job::level(policy, row, now),
    }
}

/// Whether a job has run for long enough and gives way to another that has had less GPU-time.
fn has_had_more(snapshot: &Snapshot<'_>, policy: &Policy, row: &JobRow, other: JobId) -> bool {
    let Snapshot { world, now } = *snapshot;
    let started_at = match &row.job.phase {
        Phase::Starting { since, .. } => *since,
        Phase::Running { started_at, .. } => *started_at,
        _ => return false,
    };
    row_of(world, other).is_some_and(|other| {
        let own_policy = policy.of_pool(row.spec.pool.as_ref());
        are_of_one(policy, row, other)
            && own_policy.order.contains(&OrderKey::Attained)
            && level_asked(policy, other, now) < job::level(policy, row, now)
            && started_at.after(own_policy.min_run) <= now
    })
}

/// Whether a job may be moved for another: where its policy moves any, it has run for a while and
/// saves its work, and the other has waited for a while.
fn is_moved(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    (row, exit): (&JobRow, Exit),
    other: JobId,
) -> bool {
    let own_policy = policy.of_pool(row.spec.pool.as_ref());
    let Phase::Running { started_at, .. } = &row.job.phase else { return false };
    own_policy.consolidate
        && exit == Exit::Checkpoint
        && started_at.after(row.job.course.paused).after(own_policy.min_run) <= snapshot.now
        && row_of(snapshot.world, other).is_some_and(|it| {
            policy.of_pool(it.spec.pool.as_ref()).n_moved_for(&it.job, &it.spec, snapshot.now) > 0
        })
}

/// Whether a job makes another one larger, and gives way for that to one of its project.
fn is_extra(world: &World, policy: &Policy, row: &JobRow, other: JobId) -> bool {
    row_of(world, other).is_some_and(|other| {
        let order = &policy.of_pool(row.spec.pool.as_ref()).order;
        let by_priority = order.first() == Some(&OrderKey::Priority);
        are_of_one(policy, row, other)
            && row.spec.joins.is_some()
            && other.spec.joins.is_none()
            && (!by_priority || row.job.priority <= other.job.priority)
    })
}
