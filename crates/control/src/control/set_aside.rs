//! A plan that breaks an invariant must not stop all jobs: the job that causes it is held, and the
//! next plan is made without it.

use gpool_model::event::{Journaled, Upkeep};
use gpool_model::job::Holder;
use gpool_model::{Alert, Decision, Effect, JobId, Phase, Plan, Policy};
use gpool_world::Snapshot;

use crate::control::Control;

impl Control {
    /// Raises the alert and holds the job that it names. Returns whether a job was held: otherwise
    /// the next plan would be the same.
    pub(crate) fn set_aside(&mut self, mut alert: Alert) -> bool {
        alert.set_aside = alert.set_aside.and_then(|job| self.hold_aside(job));
        let violations = alert.violations.clone();
        let held = alert.set_aside;
        self.effect(Effect::Alert(Box::new(alert)));
        let Some(job) = held else { return false };
        self.note(Journaled::Kept { kept: vec![Upkeep::SetAside { job, violations }] });
        true
    }

    /// Holds a job in the scheduler's name, or the array of an element without a row. Returns the
    /// job if it was not held before.
    fn hold_aside(&mut self, job: JobId) -> Option<JobId> {
        let array = JobId { element: None, ..job };
        let id = [job, array].into_iter().find(|id| self.world.job(*id).is_some())?;
        if self.job(id).holder().is_some() {
            return None;
        }
        self.seq = self.world.cluster().last_seq.next();
        self.hold_one(id, None);
        let mut job = self.job(id);
        match &mut job.phase {
            Phase::Held { by, .. } | Phase::Paused { held: Some(by), .. } => {
                *by = Holder::Scheduler;
            }
            _ => return None,
        }
        self.put_job(job);
        Some(id)
    }
}

/// Returns the job that causes a violation: the plan up to its decision breaks an invariant, and
/// the plan before it does not. `None` if an empty plan breaks one too.
pub(crate) fn wrong_for(snapshot: &Snapshot<'_>, policy: &Policy, plan: &Plan) -> Option<JobId> {
    let is_wrong = |n_decisions: usize, n_planned: usize| {
        let cut = Plan {
            basis: plan.basis,
            decisions: plan.decisions[..n_decisions].to_vec(),
            planned: plan.planned[..n_planned].to_vec(),
            waits: Vec::new(),
        };
        !gpool_verify::verify(snapshot, policy, &cut).is_empty()
    };
    if is_wrong(0, 0) {
        return None;
    }
    // A start and the evictions before it belong together: a half of them breaks an invariant.
    let is_end = |n: &usize| {
        let next = plan.decisions.get(*n);
        next.is_none() || !matches!(plan.decisions[*n - 1], Decision::Evict { .. })
    };
    let ends: Vec<usize> = (1..=plan.decisions.len()).filter(is_end).collect();
    let n_right = ends.partition_point(|n| !is_wrong(*n, 0));
    if let Some(n) = ends.get(n_right) {
        return Some(match &plan.decisions[*n - 1] {
            Decision::Start { job, .. } | Decision::Resume { job, .. } => *job,
            Decision::Evict { beneficiary, .. } => *beneficiary,
        });
    }
    let counts: Vec<usize> = (1..=plan.planned.len()).collect();
    let n_right = counts.partition_point(|n| !is_wrong(plan.decisions.len(), *n));
    plan.planned.get(n_right).map(|planned| planned.job)
}
