//! Pending jobs that did not start by their first forecast: their owners get a message. The
//! forecasts are made outside the state machine, which stores only that the message was sent.

use std::sync::Arc;

use gpool_model::notify::LateJob;
use gpool_model::{Caller, Refusal, Reply};

use crate::control::Control;
use crate::control::nodes::admin;

impl Control {
    /// Sends a message about each of these jobs that still waits and has not sent one.
    pub(crate) fn report_late(
        &mut self,
        caller: &Caller,
        jobs: Vec<LateJob>,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "report late jobs".to_owned())?;
        for LateJob { job, version, late } in jobs {
            let Some(row) = self.world.job(job) else { continue };
            if row.job.version != version || !row.job.reports_late() {
                continue;
            }
            let (spec, mut job) = (Arc::clone(&row.spec), row.job.clone());
            job.course.late_sent = true;
            self.tell_late(&spec, &job, late);
            self.put_job(job);
        }
        Ok(Reply::Done)
    }
}
