//! Evictions that help no job: the victim has nothing on the nodes of its beneficiary, and the
//! beneficiary's quota allows it beside the victim.

use gpool_model::{Decision, JobId, NodeName, Plan, Policy, TakenBack};
use gpool_world::{JobRow, Snapshot};

use crate::projects::Projects;
use crate::users;
use crate::violation::Violation;

/// Checks that each victim makes room for its beneficiary or frees quota that it needs.
pub(crate) fn check(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    projects: &Projects,
    found: &mut Vec<Violation>,
) {
    let most = projects.most(snapshot, plan);
    for (beneficiary, placements) in plan.decisions.iter().filter_map(Decision::started) {
        let victims: Vec<(JobId, TakenBack)> = victims_of(plan, beneficiary).collect();
        // Jobs that move to other nodes may need room there.
        if victims.iter().any(|(_, why)| *why == TakenBack::Consolidate) {
            continue;
        }
        for (victim, _) in &victims {
            let Some(row) = snapshot.world.job(*victim) else { continue };
            let nodes = placements.iter().map(|it| &it.node);
            if nodes.into_iter().any(|node| is_on(row, node)) {
                continue;
            }
            let others = victims.iter().map(|(job, _)| *job).filter(|job| job != victim);
            let rest =
                Plan { decisions: evictions(plan, &others.collect::<Vec<_>>()), ..Plan::default() };
            let projects = most.least(snapshot, &rest);
            if users::is_open(snapshot.world, policy)
                && projects.allow_with(snapshot.world, beneficiary)
            {
                let what = "it frees nothing that its beneficiary needs";
                found.push(Violation::WrongEviction { job: *victim, what });
            }
        }
    }
}

fn victims_of(plan: &Plan, of: JobId) -> impl Iterator<Item = (JobId, TakenBack)> {
    plan.decisions.iter().filter_map(move |decision| match decision {
        Decision::Evict { job, why, beneficiary, .. } if *beneficiary == of => Some((*job, *why)),
        _ => None,
    })
}

fn evictions(plan: &Plan, jobs: &[JobId]) -> Vec<Decision> {
    let is_one = |decision: &&Decision| match decision {
        Decision::Evict { job, .. } => jobs.contains(job),
        Decision::Start { .. } | Decision::Resume { .. } => false,
    };
    plan.decisions.iter().filter(is_one).cloned().collect()
}

fn is_on(row: &JobRow, node: &NodeName) -> bool {
    row.job.phase.allocations().iter().any(|it| it.node == *node)
}
