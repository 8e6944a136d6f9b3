//! Holds jobs when their budget is used up, and releases them when it no longer is.

use std::sync::Arc;

use gpool_model::budget::Overspent;
use gpool_model::job::{Holder, JobState};
use gpool_model::{Caller, JobId, Phase, Policy, Refusal, Reply};

use crate::control::Control;
use crate::control::nodes::admin;

impl Control {
    /// Replaces the budgets that are used up; the server itself asks for this. A job is held when
    /// its budget is used up, not again after an admin has released it.
    pub(crate) fn set_overspent(
        &mut self,
        caller: &Caller,
        all: Vec<Overspent>,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "report costs".to_owned())?;
        let is_over = |this: &Self| -> Vec<(JobId, bool)> {
            let rows = this.world.job_rows();
            rows.map(|row| (row.job.id, this.world.overspent(&row.spec).is_some())).collect()
        };
        let before = is_over(self);
        let policy = Policy { overspent: Arc::new(all), ..self.world.policy().clone() };
        self.world.put_policy(policy);
        for ((id, was_over), (_, is_over)) in before.into_iter().zip(is_over(self)) {
            match (was_over, is_over) {
                (false, true) => self.hold_for_budget(id),
                (true, false) => self.release_for_budget(id),
                (true, true) | (false, false) => {}
            }
        }
        Ok(Reply::Done)
    }

    fn hold_for_budget(&mut self, id: JobId) {
        if !matches!(self.job(id).phase, Phase::Waiting { .. } | Phase::Pending { .. }) {
            return;
        }
        self.hold_one(id, None);
        let mut job = self.job(id);
        if let Phase::Held { by, .. } = &mut job.phase {
            *by = Holder::Budget;
            self.put_job(job);
        }
    }

    fn release_for_budget(&mut self, id: JobId) {
        let Some(row) = self.world.job(id) else { return };
        if row.job.phase.state() != JobState::Held || row.job.holder() != Some(Holder::Budget) {
            return;
        }
        let since = self.now;
        let is_ready = !self.awaits_others(row);
        let mut job = row.job.clone();
        job.phase = if is_ready { Phase::Pending { since } } else { Phase::Waiting { since } };
        job.version = job.version.next();
        self.put_job(job);
    }
}
