//! The end of an attempt: the job ends, or begins another attempt. Also requeueing.

use std::sync::Arc;

use gpool_model::job::{Again, PastAttempt};
use gpool_model::job::{EndCause, StopCause};
use gpool_model::life::Retry;
use gpool_model::{
    Caller, Course, Exit, GpuTime, JobEnd, JobId, JobSpec, JobVerb, Millis, OnNodeLost, Outcome,
    Phase, Refusal, Timestamp,
};
use gpool_world::{JobRow, latest_start};

use crate::control::Control;

impl Control {
    pub(crate) fn requeue(
        &mut self,
        caller: &Caller,
        jobs: &[JobId],
        hold: bool,
    ) -> Result<(), Refusal> {
        let verb = JobVerb::Requeue { hold };
        for id in jobs {
            let row = self.world.row_for(*id).expect("checked above");
            if row.spec.life.requeue == Some(false) {
                return Err(Refusal::NotRequeueable { id: *id });
            }
        }
        let mut running = self.rows_for(jobs, verb);
        self.check_verb(&running, verb)?;
        for id in &running {
            self.check_may_start(caller, *id, verb.name())?;
        }
        running.retain(|id| self.world.job(*id).is_some_and(|row| row.job.array.is_none()));
        for id in running {
            let by = Arc::clone(&caller.owner.user);
            let mut job = self.job(id);
            job.course.admin_hold = self.admin_hold(caller, id).filter(|_| hold);
            if job != self.job(id) {
                self.put_job(job);
            }
            self.stop(id, StopCause::Requeued { by, hold });
        }
        Ok(())
    }

    /// Handles the end of an attempt: the job ends too, unless it runs again.
    pub(crate) fn attempt_ended(&mut self, id: JobId, end: JobEnd, was_stopped: bool) {
        let row = self.world.job(id).expect("only jobs that are there end");
        match self.again(row, &end, was_stopped) {
            Some(again) => self.run_again(id, &end, again),
            None => self.end(id, end),
        }
    }

    fn again(&self, row: &JobRow, end: &JobEnd, was_stopped: bool) -> Option<Again> {
        match &row.job.phase {
            Phase::Stopping {
                cause: StopCause::Cancelled { .. } | StopCause::GangEnded { .. },
                ..
            } => return None,
            // The job may have finished before the order arrived.
            Phase::Stopping {
                cause: StopCause::Requeued { .. } | StopCause::TakenBack { .. },
                ..
            } if end.outcome == Outcome::Succeeded && !was_stopped => return None,
            Phase::Stopping { cause: StopCause::Requeued { by, .. }, .. } => {
                return Some(Again::Requeued { by: Arc::clone(by) });
            }
            Phase::Stopping { cause: StopCause::TakenBack { exit: Exit::Kill, .. }, .. } => {
                return None;
            }
            Phase::Stopping { cause: StopCause::TakenBack { why, beneficiary, exit }, .. } => {
                let (why, beneficiary, exit) = (*why, *beneficiary, *exit);
                return Some(Again::TakenBack { why, beneficiary, exit });
            }
            Phase::Stopping { cause: StopCause::TaskRefused { rank }, .. } => {
                return Some(Again::TaskRefused { rank: *rank });
            }
            _ => {}
        }
        let (course, life) = (&row.job.course, &row.spec.life);
        let retry = life.retry.as_deref();
        let covers = |retry: &&Retry| retry.covers(end.outcome, end.cause.as_ref(), end.exit);
        let covered = retry.filter(covers);
        // The failure of a node uses no retry of the user.
        let of_lost_node = life.on_node_lost == OnNodeLost::Requeue;
        let runs_elsewhere = match end.cause {
            // Whether a machine is back before its lease is over makes no difference.
            Some(EndCause::Rebooted) => {
                covered.is_some() || of_lost_node || life.requeue == Some(true)
            }
            Some(EndCause::NodeLost) => of_lost_node,
            _ => false,
        };
        if runs_elsewhere && course.n_node_failures < Course::NODE_FAILURES_MOST {
            return self.in_time(&row.spec, self.now).then_some(Again::NodeFailed);
        }
        let retry = covered.filter(|retry| course.n_retries < retry.most)?;
        let next = self.now.after(retry.pause(course.n_retries));
        self.in_time(&row.spec, next).then_some(Again::Retry)
    }

    /// Whether a job that starts at this time can still end by its deadline.
    pub(crate) fn in_time(&self, spec: &JobSpec, at: Timestamp) -> bool {
        latest_start(&spec.life, spec.time_limit).is_none_or(|latest| at <= latest)
    }

    fn run_again(&mut self, id: JobId, end: &JobEnd, again: Again) {
        let row = self.world.job(id).expect("it was just looked up");
        let spec = Arc::clone(&row.spec);
        let mut job = row.job.clone();
        // A paused job does not start again because its node failed meanwhile.
        let hold = job.holder().is_some()
            || job.course.admin_hold.is_some()
            || matches!(
                job.phase,
                Phase::Stopping { cause: StopCause::Requeued { hold: true, .. }, .. }
            );
        // Up to its end, not up to the report of it.
        let ran = end.started_at.map(|at| end.ended_at.since(at)).unwrap_or_default();
        let had = GpuTime::of(job.allocated_gpus(), ran.saturating_sub(job.course.paused));
        let had = had.corrected(job.course.resized);
        let course = &mut job.course;
        course.attained = course.attained.saturating_add(had);
        course.backoff_until = None;
        match (&again, &spec.life.retry) {
            (Again::Retry, Some(retry)) => {
                let pause = retry.pause(course.n_retries);
                course.backoff_until = Some(self.now.after(pause)).filter(|_| !pause.is_zero());
                course.n_retries += 1;
            }
            (Again::NodeFailed, _) => course.n_node_failures += 1,
            (
                Again::Retry
                | Again::Requeued { .. }
                | Again::TakenBack { .. }
                | Again::TaskRefused { .. },
                _,
            ) => {}
        }
        course.tasks.clear();
        course.n_joiners = 0;
        course.paused = Millis::ZERO;
        course.resized = 0;
        course.not_pausable = None;
        course.not_released = None;
        course.warned_limit = None;
        course.remember(PastAttempt {
            attempt: job.attempt,
            outcome: end.outcome,
            cause: end.cause.clone(),
            exit: end.exit,
            started_at: end.started_at,
            ended_at: end.ended_at,
            again,
        });
        job.attempt = job.attempt.next();
        job.generation = job.generation.next();
        let since = self.now;
        job.phase = match hold {
            true => Phase::Held { by: job.holder_next(), since, missing: None },
            false if self.world.is_waiting(&spec, &job, since) => Phase::Waiting { since },
            false => Phase::Pending { since },
        };
        self.put_job(job);
    }
}
