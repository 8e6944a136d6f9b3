//! Decides whether a job may be evicted for another: because it is over quota, comes after the
//! other one in its project, or can be moved.

use gpool_model::{Exit, JobId, OrderKey, Phase, Policy, TakenBack, Timestamp};
use gpool_world::{JobRow, Snapshot, World};

use super::Projects;
use super::loans::Loans;
use crate::arrays::row_of;
use crate::job;
use crate::violation::Violation;

/// A job that a plan evicts.
pub(super) struct TakenJob<'a> {
    pub row: &'a JobRow,
    pub why: TakenBack,
    pub exit: Exit,
    pub beneficiary: JobId,
}

/// Checks that a job may be evicted for its beneficiary, for the reason in the plan.
pub(super) fn check(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    (projects, loans): (&Projects, &mut Loans<'_>),
    victim: &TakenJob<'_>,
    found: &mut Vec<Violation>,
) {
    let TakenJob { row, why, exit, beneficiary } = *victim;
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
        let what = "it is within its minimum run time";
        found.push(Violation::WrongEviction { job, what });
    }
    let what = match why {
        TakenBack::Consolidate if !is_moved(snapshot, policy, (row, exit), beneficiary) => {
            "it can't be moved: it has no checkpoints, or it ran or its beneficiary waited too \
             briefly"
        }
        TakenBack::Preempt if !gives_way(snapshot, policy, row, beneficiary) => {
            "its priority is not lower than that of its beneficiary"
        }
        TakenBack::Rotate if !has_had_more(snapshot, policy, row, beneficiary) => {
            "its attained GPU time is not above that of its beneficiary, or it is within its \
             minimum run time"
        }
        TakenBack::Shrink if !is_extra(world, policy, row, beneficiary) => {
            "it does not make a job larger, or its beneficiary does not go before that job"
        }
        _ => return,
    };
    found.push(Violation::WrongEviction { job, what });
}

/// Whether a job may be preempted for another because of its priority; attained GPU-time must not
/// come first in the order, unless both are at one level.
fn gives_way(snapshot: &Snapshot<'_>, policy: &Policy, row: &JobRow, other: JobId) -> bool {
    row_of(snapshot.world, other).is_some_and(|other| {
        let is_of_one = are_of_one(policy, row, other);
        let now = snapshot.now;
        let by_priority = match policy.of_pool(row.spec.pool.as_ref()).order[..] {
            [OrderKey::Priority, ..] => true,
            [OrderKey::Attained, OrderKey::Priority, ..] => {
                pending_level(policy, other, now) == job::level(policy, row, now)
            }
            _ => false,
        };
        is_of_one && by_priority && row.job.priority < other.job.priority
    })
}

/// Whether the order may put one of two jobs before the other, which runs: they are in one project,
/// and the same policy decides about them.
fn are_of_one(policy: &Policy, row: &JobRow, other: &JobRow) -> bool {
    (row.spec.project == other.spec.project || !policy.shares())
        && job::domain(policy, row) == job::domain(policy, other)
}

/// The level of a pending job: the first one once it is escalated.
fn pending_level(policy: &Policy, row: &JobRow, now: Timestamp) -> usize {
    match job::is_escalated(row, policy, now) {
        Some(true) => 0,
        _ => job::level(policy, row, now),
    }
}

/// Whether a job has run for long enough to be preempted for another with less attained GPU-time.
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
            && pending_level(policy, other, now) < job::level(policy, row, now)
            && started_at.after(own_policy.min_run) <= now
    })
}

/// Whether a job may be moved for another: its policy consolidates, the job has run for long enough
/// and saves its work, and the other one has waited for long enough.
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

/// Whether a job makes another one larger and may therefore be preempted for a job of its project.
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
