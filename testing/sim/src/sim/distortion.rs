//! Wrong plans, for the planted bugs that are about them.

use gpool_control::Control;
use gpool_model::{Decision, Plan, Revision};

use crate::bug::Bug;

/// A state machine with the bug in its plans that is planted.
pub(crate) fn begun(mut control: Control, bug: Option<Bug>) -> Control {
    if let Some(distort) = bug.and_then(distortion) {
        control.distort_plans(distort);
    }
    control
}

/// What a bug does to each plan.
pub(crate) fn distortion(bug: Bug) -> Option<fn(&mut Plan)> {
    Some(match bug {
        Bug::TakenForNobody => |plan| {
            let claims =
                |it: &Decision| matches!(it, Decision::Start { after, .. } if !after.is_empty());
            plan.decisions.retain(|it| !claims(it));
        },
        Bug::VictimStays => |plan| {
            plan.decisions.retain(|it| matches!(it, Decision::Start { .. }));
            for decision in &mut plan.decisions {
                if let Decision::Start { after, .. } = decision {
                    after.clear();
                }
            }
        },
        Bug::PlanWrong => |plan| plan.basis = Revision(u64::MAX),
        Bug::PlanWrongForSome => |plan| {
            let is_wrong = |it: &&Decision| {
                it.started().is_some_and(|(job, _)| Bug::PlanWrongForSome.is_wrong_for(job))
            };
            let twice: Vec<Decision> = plan.decisions.iter().filter(is_wrong).cloned().collect();
            plan.decisions.extend(twice);
        },
        _ => return None,
    })
}
