//! Submissions: checked as a whole, then taken as a whole.

use std::sync::Arc;

use gpool_model::command::{RequestKey, SubmitForecast};
use gpool_model::effect::Change;
use gpool_model::job::{DependencyKind, Holder};
use gpool_model::record::IdempotencyRecord;
use gpool_model::{
    ArrayState, Attempt, Caller, Dependency, Generation, Job, JobId, JobNumber, JobSpec, Millis,
    NewJob, Outcome, Phase, Reason, Refusal, Reply, Version,
};
use gpool_world::Snapshot;

use crate::admission::Admission;
use crate::control::Control;
use crate::outbox::as_named_by;

/// How jobs ended that have left memory, as the caller looked them up.
pub(crate) type KnownEnds = [(JobId, Outcome)];

impl Control {
    /// More live jobs than this are refused, so that memory stays bounded.
    const LIVE_JOBS_MAX: usize = 2_000_000;

    pub(crate) fn submit(
        &mut self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        key: Option<RequestKey>,
        ends: &KnownEnds,
    ) -> Result<Reply, Refusal> {
        if let Some(key) = &key
            && let Some(reply) = self.answered_before(caller, key)
        {
            return reply;
        }
        self.check_all(caller, &jobs, ends)?;
        let first = self.world.cluster().last_job.next();
        let n_jobs = jobs.len() as u64;
        for (number, job) in (first.0..).zip(jobs) {
            self.take_job(caller, JobNumber(number), job);
        }
        let mut cluster = self.world.cluster().clone();
        cluster.last_job = JobNumber(first.0 + n_jobs - 1);
        self.world.put_cluster(cluster);
        if let Some(RequestKey { name, digest }) = key {
            let (uid, at) = (caller.owner.uid, self.now);
            self.world.put_request(IdempotencyRecord { uid, name, digest, at, first, n_jobs });
            let kept_since = self.now.get().saturating_sub(Self::REQUESTS_KEPT.get());
            self.world.forget_requests(gpool_model::Timestamp::new(kept_since));
        }
        Ok(Reply::Submitted { first, n_jobs, repeated: false })
    }

    fn answered_before(&self, caller: &Caller, key: &RequestKey) -> Option<Result<Reply, Refusal>> {
        let record = self.world.request(&IdempotencyRecord::key_of(caller.owner.uid, &key.name))?;
        if record.digest != key.digest {
            return Some(Err(Refusal::KeyReused { key: key.name.clone() }));
        }
        let (first, n_jobs) = (record.first, record.n_jobs);
        Some(Ok(Reply::Submitted { first, n_jobs, repeated: true }))
    }

    fn check_all(&self, caller: &Caller, jobs: &[NewJob], ends: &KnownEnds) -> Result<(), Refusal> {
        if jobs.is_empty() {
            let why = "at least one job must be given".to_owned();
            return Err(Refusal::Invalid { field: "jobs".to_owned(), why });
        }
        if self.world.jobs().len() + jobs.len() > Self::LIVE_JOBS_MAX {
            let most = format!("{} jobs that have not ended", Self::LIVE_JOBS_MAX);
            return Err(Refusal::TooLarge { what: "the queue".to_owned(), most });
        }
        let mut admission = Admission::new(&self.world);
        (0..).zip(jobs).try_for_each(|(index, job)| {
            let admitted = admission.admit(caller, job);
            admitted.and_then(|()| self.check_dependencies(caller, job, ends)).map_err(|refusal| {
                match jobs.len() {
                    1 => refusal,
                    _ => Refusal::OfJob { index, refusal: Box::new(refusal) },
                }
            })
        })
    }

    /// Every job that is waited for exists, belongs to the caller, and can still end as asked.
    fn check_dependencies(
        &self,
        caller: &Caller,
        job: &NewJob,
        ends: &KnownEnds,
    ) -> Result<(), Refusal> {
        for after in &job.after {
            if self.world.is_live(after.job) {
                self.check_owner(caller, after.job, "wait for")?;
                self.check_alike(job, after)?;
                continue;
            }
            let known = ends.iter().find(|(id, _)| *id == after.job).map(|(_, end)| *end);
            let outcome = self.world.recent_end(after.job).or(known);
            let outcome = outcome.ok_or(Refusal::NoSuchJob { id: after.job })?;
            if !after.kind.is_met_by(outcome) {
                let state = outcome.state();
                return Err(Refusal::DependencyNeverMet { job: after.job, state });
            }
        }
        Ok(())
    }

    fn take_job(&mut self, caller: &Caller, number: JobNumber, mut new: NewJob) {
        let id = JobId { number, element: None };
        let setup = new.after_setup.then(|| JobId::single(number.0 - 1));
        new.after.extend(setup.map(|job| Dependency { job, kind: DependencyKind::Ok }));
        let waits = new
            .after
            .iter()
            .any(|after| after.kind != DependencyKind::Each && self.world.is_live(after.job));
        let since = self.now;
        let phase = match (new.hold, waits) {
            (true, _) => Phase::Held { by: Holder::User, since, missing: None },
            (false, true) => Phase::Waiting { since },
            (false, false) => Phase::Pending { since },
        };
        let job = Job {
            id,
            version: Version(1),
            priority: new.priority,
            note: new.note,
            notify: as_named_by(caller, new.notify),
            attempt: Attempt::FIRST,
            generation: Generation(1),
            waited: Millis::ZERO,
            array: new.array.as_ref().map(|array| Box::new(ArrayState::new(array))),
            phase,
        };
        let spec = JobSpec {
            id,
            owner: caller.owner.clone(),
            name: new.name,
            project: new.project,
            command: new.command,
            script: new.script,
            context: new.context,
            directory: new.directory,
            stdin: new.stdin,
            stdout: new.stdout,
            stderr: new.stderr,
            pty: new.pty,
            activate: new.activate,
            setup,
            gpus: new.gpus,
            gpus_written: new.gpus_written,
            cpus: new.cpus,
            memory: new.memory,
            time_limit: new.time_limit,
            grace: new.grace,
            after: new.after,
            array: new.array.map(|array| Box::new(array.spec)),
            retry_of: new.retry_of,
            allow_unsatisfiable: new.allow_unsatisfiable,
            compat: new.compat,
            submitted_at: self.now,
        };
        let state = job.phase.state();
        self.world.add_job(Arc::new(spec), job);
        self.publish(Change::JobState { job: id, state, exit_code: None });
        self.wait_for_alike(number);
    }

    /// What submitting would do, each job by itself.
    pub(crate) fn would_submit(
        &mut self,
        caller: &Caller,
        jobs: &[NewJob],
        ends: &KnownEnds,
    ) -> Result<Reply, Refusal> {
        self.check_all(caller, jobs, ends)?;
        self.world.advance(self.now);
        let snapshot = Snapshot { world: &self.world, now: self.now };
        let first = self.world.cluster().last_job.next().0;
        let forecasts = (first..).zip(jobs).map(|(number, job)| {
            let mut reasons: Vec<Reason> = Vec::new();
            if job.hold {
                reasons.push(Reason::HeldByUser { since: self.now });
            }
            let unmet = job.after.iter().filter(|after| self.world.is_live(after.job));
            reasons.extend(job.after_setup.then(|| Reason::WaitsForJob {
                job: JobId::single(number - 1),
                kind: DependencyKind::Ok,
            }));
            reasons.extend(
                unmet.map(|after| Reason::WaitsForJob { job: after.job, kind: after.kind }),
            );
            let place = gpool_sched::would_place(
                &snapshot,
                self.world.policy(),
                &self.world.shape_of_new(job, caller.owner.uid),
            );
            let placements = match place {
                Ok(placement) if reasons.is_empty() => vec![placement],
                Ok(_) => Vec::new(),
                Err(reason) => {
                    reasons.push(reason);
                    Vec::new()
                }
            };
            SubmitForecast { placements, reasons }
        });
        Ok(Reply::WouldSubmit { forecasts: forecasts.collect() })
    }
}
