//! Changes of jobs at a certain time: they may be considered, are released, become too late for
//! their deadline, or near their time limit.

use std::sync::Arc;

use gpool_model::event::{Journaled, Upkeep};
use gpool_model::job::EndCause;
use gpool_model::notify::NearLimit;
use gpool_model::{Event, JobId, Phase};

use crate::control::Control;

impl Control {
    /// Processes every job with a moment that has come.
    pub(crate) fn wake_jobs(&mut self) {
        let due = self.world.pop_due_jobs(self.now);
        if due.is_empty() {
            return;
        }
        let before = self.world.n_changes();
        self.seq = self.world.cluster().last_seq.next();
        for id in due {
            self.wake(id);
        }
        if self.world.n_changes() != before {
            self.note(Journaled::Event(Event::TimerFired));
        }
    }

    fn wake(&mut self, id: JobId) {
        // The change of an earlier job may have ended this one.
        let Some(row) = self.world.job(id) else { return };
        let waits = matches!(
            row.job.phase,
            Phase::Held { .. } | Phase::Waiting { .. } | Phase::Pending { .. }
        );
        if waits && !self.in_time(&row.spec, self.now) {
            return self.end_waiting(id, EndCause::Deadline, self.now);
        }
        let mut job = row.job.clone();
        let is_ready = !self.awaits_others(row);
        let since = self.now;
        match job.phase {
            Phase::Held { .. } if job.course.release_at.is_some_and(|at| at <= since) => {
                job.course.release_at = None;
                job.course.admin_hold = None;
                job.phase = match is_ready {
                    true => Phase::Pending { since },
                    false => Phase::Waiting { since },
                };
            }
            Phase::Waiting { .. } if is_ready => job.phase = Phase::Pending { since },
            Phase::Running { .. } => return self.warn_near_limit(id),
            _ => return,
        }
        self.put_job(job);
    }

    /// Warns the owner of a job that has used most of its time limit, once for each limit of an
    /// attempt.
    fn warn_near_limit(&mut self, id: JobId) {
        let Some(row) = self.world.job(id) else { return };
        let Some(limit) = row.spec.time_limit else { return };
        if row.job.near_limit_at(limit).is_none_or(|at| at > self.now) {
            return;
        }
        let (spec, mut job) = (Arc::clone(&row.spec), row.job.clone());
        let left = limit.saturating_sub(job.ran(self.now));
        job.course.warned_limit = Some(limit);
        // After the limit, another message reports the end.
        if !left.is_zero() {
            let near = NearLimit { limit, left };
            self.tell_near_limit(&spec, &job, near);
            self.unsaid.push(Upkeep::NearLimit { job: id, near });
        }
        self.put_job(job);
    }
}
