//! Holds jobs because a file that they need is missing.

use gpool_model::job::{Holder, JobState};
use gpool_model::launch::NodeLack;
use gpool_model::{Caller, JobId, Phase, Refusal, Reply};

use crate::control::Control;
use crate::control::nodes::admin;

impl Control {
    /// Holds the waiting jobs among these until a user restores the file and releases them. Skips
    /// jobs that have ended since the server looked.
    pub(crate) fn hold_missing(
        &mut self,
        caller: &Caller,
        jobs: &[JobId],
        missing: &NodeLack,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "hold jobs for the server".to_owned())?;
        for id in jobs {
            if id.element.is_none() {
                for element in self.waiting_rows(id.number, |state| state <= JobState::Pending) {
                    self.hold_one_missing(element, missing);
                }
            }
            self.hold_one_missing(*id, missing);
        }
        Ok(Reply::Done)
    }

    fn hold_one_missing(&mut self, id: JobId, missing: &NodeLack) {
        let phase = self.world.job(id).map(|row| row.job.phase.clone());
        let waits = matches!(
            phase,
            Some(
                Phase::Waiting { .. }
                    | Phase::Pending { .. }
                    | Phase::Held { by: Holder::User, missing: None, .. }
            )
        );
        if !waits {
            return;
        }
        self.hold_one(id, None);
        let mut job = self.job(id);
        if let Phase::Held { missing: noted, .. } = &mut job.phase {
            *noted = Some(missing.clone());
            self.put_job(job);
        }
    }
}
