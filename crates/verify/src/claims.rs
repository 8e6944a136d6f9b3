//! Checks that each claim can be used: it waits only for tasks that leave, and its job starts once
//! they have left.

use gpool_model::{Allocation, AllocationState, TaskId};
use gpool_world::World;

use crate::violation::Violation;

/// Checks the claims of all jobs.
pub(crate) fn check(world: &World, found: &mut Vec<Violation>) {
    for row in world.job_rows() {
        let claims: Vec<(&Allocation, &[TaskId])> =
            row.job.phase.allocations().iter().filter_map(claimed).collect();
        let mut is_waiting = false;
        for (claim, after) in &claims {
            is_waiting |= !world.node(&claim.node).is_some_and(|it| it.node.is_reachable());
            for task in *after {
                let Some(held) = allocation_of(world, *task) else { continue };
                is_waiting |= !held.is_paused();
                if !held.is_paused() && !held.is_leaving() {
                    found.push(Violation::ClaimBehindOther(row.job.id, *task));
                }
            }
        }
        if !claims.is_empty() && !is_waiting {
            found.push(Violation::ClaimUnused(row.job.id));
        }
    }
}

fn claimed(allocation: &Allocation) -> Option<(&Allocation, &[TaskId])> {
    match &allocation.state {
        AllocationState::Claimed { after } => Some((allocation, after)),
        _ => None,
    }
}

fn allocation_of(world: &World, task: TaskId) -> Option<&Allocation> {
    let mut held = world.job(task.job)?.job.phase.allocations().iter();
    held.find(|it| it.task == task)
}
