//! The account of the last start, as it is shown.

use gpool_wire::{Became, Recovery};

/// The account, with the owner of each job.
#[derive(Debug)]
pub struct RecoveryAccount {
    recovery: Recovery,
    /// In the order of the jobs.
    uids: Vec<u32>,
}

impl RecoveryAccount {
    /// One of jobs of these users, in the order of the jobs.
    pub fn new(recovery: Recovery, uids: Vec<u32>) -> Self {
        Self { recovery, uids }
    }

    pub fn log(&self) {
        let n = |became| self.recovery.that(became).count();
        tracing::info!(
            before = ?self.recovery.before,
            went_on = n(Became::WentOn),
            again = n(Became::Again),
            ended = n(Became::Ended),
            lost = n(Became::Lost),
            waiting = self.recovery.n_waiting,
            "recovered"
        );
    }

    /// Returns the parts that a user may see. The cause of a job's end may name its files.
    pub fn visible_part(&self, unexpected: Vec<String>, may_see: impl Fn(u32) -> bool) -> Recovery {
        let mut recovery = Recovery { unexpected, ..self.recovery.clone() };
        for (job, uid) in recovery.jobs.iter_mut().zip(&self.uids) {
            job.cause_text = job.cause_text.take().filter(|_| may_see(*uid));
        }
        recovery
    }
}
