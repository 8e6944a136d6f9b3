//! Submissions: checked as a whole, then taken as a whole.

use std::sync::Arc;

use gpool_model::command::{RequestKey, SubmitForecast};
use gpool_model::effect::Change;
use gpool_model::job::{DependencyKind, Holder};
use gpool_model::policy::{Caps, Held};
use gpool_model::record::IdempotencyRecord;
use gpool_model::{
    ArrayState, Attempt, Caller, Course, Dependency, Generation, Job, JobId, JobNumber, JobSpec,
    Millis, NewJob, Outcome, Phase, Reason, Refusal, Reply, Version,
};
use gpool_world::Snapshot;

use crate::admission::Admission;
use crate::control::Control;
use crate::edit::Waits;
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
        let waits = self.check_all(caller, &jobs, ends)?;
        let first = self.world.cluster().last_job.next();
        let n_jobs = jobs.len() as u64;
        for ((number, job), waits) in (first.0..).zip(jobs).zip(waits) {
            self.take_job(caller, JobNumber(number), job, waits);
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

    /// Checks each job, and says what of it waits for jobs that have ended.
    fn check_all(
        &self,
        caller: &Caller,
        jobs: &[NewJob],
        ends: &KnownEnds,
    ) -> Result<Vec<Waits>, Refusal> {
        if jobs.is_empty() {
            let why = "at least one job must be given".to_owned();
            return Err(Refusal::Invalid { field: "jobs".to_owned(), why });
        }
        if self.world.jobs().len() + jobs.len() > Self::LIVE_JOBS_MAX {
            let most = format!("{} jobs that have not ended", Self::LIVE_JOBS_MAX);
            return Err(Refusal::TooLarge { what: "the queue".to_owned(), most });
        }
        let n_elements = |job: &NewJob| match &job.array {
            None => 1,
            Some(array) => u64::from(array.spec.indexes.len()),
        };
        self.check_user_cap(caller, jobs.iter().map(n_elements).sum())?;
        let mut admission = Admission::new(&self.world);
        let check = |(index, job): (u64, &NewJob)| {
            let first = job.life.begin.unwrap_or_default().max(self.now);
            let checked = admission
                .admit(caller, job)
                .and_then(|()| self.check_in_time(&job.life, job.time_limit, first))
                .and_then(|()| self.check_waits(caller, &job.after, &job.life, ends))
                .and_then(|waits| {
                    let mut live = job.after.iter().filter(|it| self.world.is_live(it.job));
                    live.try_for_each(|it| self.check_alike(job, it)).map(|()| waits)
                });
            checked.map_err(|refusal| match jobs.len() {
                1 => refusal,
                _ => Refusal::OfJob { index, refusal: Box::new(refusal) },
            })
        };
        (0..).zip(jobs).map(check).collect()
    }

    fn caps_and_held(&self, caller: &Caller) -> (Caps, Held) {
        let owner = &caller.owner;
        (self.world.policy().user_caps.of(&owner.user), self.world.held_by(owner.uid))
    }

    /// One user does not fill the queue for all, where the policy says so.
    fn check_user_cap(&self, caller: &Caller, n_asked: u64) -> Result<(), Refusal> {
        let owner = &caller.owner;
        let n_found = self.world.user(owner.uid).map_or(0, |user| user.n_waiting);
        let most = self.world.policy().user_caps.of(&owner.user).pending_jobs;
        match most.filter(|most| n_found.saturating_add(n_asked) > *most) {
            Some(most) => Err(Refusal::UserCap { n_found, n_asked, most }),
            None => Ok(()),
        }
    }

    fn take_job(&mut self, caller: &Caller, number: JobNumber, mut new: NewJob, waits: Waits) {
        let id = JobId { number, element: None };
        let setup = new.after_setup.then(|| JobId::single(number.0 - 1));
        new.after.extend(setup.map(|job| Dependency { job, kind: DependencyKind::Ok }));
        let course = Course { one_met: waits.one_met, unmet: waits.unmet, ..Course::default() };
        let since = self.now;
        let who = (id, Attempt::FIRST);
        let waits = self.world.waits_for(who, &new.after, &new.life, &course, since);
        let waits = !waits.is_empty();
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
            course,
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
            life: new.life,
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
        let waits = self.check_all(caller, jobs, ends)?;
        self.world.advance(self.now);
        let snapshot = Snapshot { world: &self.world, now: self.now };
        let first = self.world.cluster().last_job.next().0;
        let forecasts = (first..).zip(jobs).zip(waits).map(|((number, job), waits)| {
            let mut reasons: Vec<Reason> = Vec::new();
            if job.hold {
                reasons.push(Reason::HeldByUser { since: self.now });
            }
            reasons.extend(job.after_setup.then(|| Reason::WaitsForJob {
                job: JobId::single(number - 1),
                kind: DependencyKind::Ok,
            }));
            let Waits { one_met, unmet } = waits;
            let course = Course { one_met, unmet, ..Course::default() };
            let who = (JobId::single(number), Attempt::FIRST);
            let now = self.now;
            reasons.extend(self.world.waits_for(who, &job.after, &job.life, &course, now));
            let (caps, held) = self.caps_and_held(caller);
            if let Some((what, used, most)) = caps.exceeded(held, job.gpus.size()) {
                reasons.push(Reason::QuotaUser { what, used, most });
            }
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
