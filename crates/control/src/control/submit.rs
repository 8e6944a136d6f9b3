//! Submissions: checked as a whole, then accepted as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::array::ArrayEnds;
use gpool_model::command::{ArchivedDependency, RequestKey, SubmitForecast};
use gpool_model::effect::Change;
use gpool_model::job::{DependencyKind, Holder};
use gpool_model::record::IdempotencyRecord;
use gpool_model::{
    ArrayState, Attempt, Caller, Course, Dependency, Job, JobId, JobNumber, JobSpec, NewJob, Phase,
    ProjectName, Reason, Refusal, Reply, Timestamp,
};
use gpool_sched::user_quota;
use gpool_world::{Snapshot, World};

use crate::admission::Admission;
use crate::control::Control;
use crate::control::edit::Waits;
use crate::control::extend::check_exits;
use crate::control::known_ends::KnownEnds;
use crate::control::outbox::as_named_by;
use crate::project_tree;

/// Ends of jobs and of arrays that others wait for.
type Ends<'e> = (&'e [ArchivedDependency], &'e [(JobId, ArrayEnds)]);

impl Control {
    /// The largest number of live jobs, so that memory stays bounded.
    const LIVE_JOBS_MAX: usize = 2_000_000;

    pub(crate) fn submit(
        &mut self,
        caller: &Caller,
        jobs: Vec<NewJob>,
        key: Option<RequestKey>,
        ends: KnownEnds<'_>,
    ) -> Result<Reply, Refusal> {
        if let Some(key) = &key
            && let Some(reply) = self.answered_before(caller, key)
        {
            return reply;
        }
        let jobs = self.under_terms(jobs);
        let waits = self.check_all(caller, &jobs, ends)?;
        let first = self.world.cluster().last_job.next();
        let n_jobs = jobs.len() as u64;
        for ((number, job), waits) in (first.0..).zip(jobs).zip(waits) {
            self.take_job(caller, JobNumber(number), job, waits);
            self.wait_for_alike(JobNumber(number), ends);
        }
        let mut cluster = self.world.cluster().clone();
        cluster.last_job = JobNumber(first.0 + n_jobs - 1);
        self.world.put_cluster(cluster);
        if let Some(RequestKey { name, digest }) = key {
            let (uid, at) = (caller.owner.uid, self.now);
            self.world.put_request(IdempotencyRecord { uid, name, digest, at, first, n_jobs });
            let kept_since = self.now.get().saturating_sub(Self::REQUEST_RETENTION.get());
            self.world.forget_requests(gpool_model::Timestamp::new(kept_since));
            self.world.forget_requests_of(uid, Self::REQUESTS_OF_USER_MAX);
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

    /// Checks each job, and returns its dependencies that have ended already.
    fn check_all(
        &self,
        caller: &Caller,
        jobs: &[NewJob],
        ends: KnownEnds<'_>,
    ) -> Result<Vec<Waits>, Refusal> {
        if jobs.is_empty() {
            let why = "give at least one job".to_owned();
            return Err(Refusal::Invalid { field: "jobs".to_owned(), why });
        }
        if self.world.jobs().len() + jobs.len() > Self::LIVE_JOBS_MAX {
            let most = format!("{} jobs that have not ended", Self::LIVE_JOBS_MAX);
            return Err(Refusal::TooLarge { what: "the queue".to_owned(), most });
        }
        let n_elements = |job: &NewJob| match &job.array {
            None => 1,
            Some(array) => u64::from(array.indexes.len()),
        };
        self.check_user_cap(caller, jobs.iter().map(n_elements).sum())?;
        let mut n_by_project = BTreeMap::<&ProjectName, u64>::new();
        for job in jobs {
            *n_by_project.entry(&job.project).or_default() += n_elements(job);
        }
        for (project, n_asked) in n_by_project {
            self.check_project_cap(caller, project, n_asked)?;
        }
        let mut admission = Admission::new(&self.world);
        let check = |(index, job): (u64, &NewJob)| {
            let first = job.life.begin.unwrap_or_default().max(self.now);
            let checked = admission
                .admit(caller, job)
                .and_then(|()| self.check_in_time(&job.life, job.time_limit, first))
                .and_then(|()| check_exits(&job.life))
                .and_then(|()| self.check_waits(caller, &job.after, &job.life, ends))
                .and_then(|waits| {
                    let mut after = job.after.iter();
                    after.try_for_each(|it| self.check_alike(job, it, ends)).map(|()| waits)
                });
            checked.map_err(|refusal| match jobs.len() {
                1 => refusal,
                _ => Refusal::OfJob { index, refusal: Box::new(refusal) },
            })
        };
        (0..).zip(jobs).map(check).collect()
    }

    /// Checks the cap on pending jobs of one user.
    fn check_user_cap(&self, caller: &Caller, n_asked: u64) -> Result<(), Refusal> {
        let owner = &caller.owner;
        let n_found = self.world.user(owner.uid).map_or(0, |user| user.n_waiting);
        let most = self.world.policy().user_caps.of(&owner.user).pending_jobs;
        match most.filter(|most| n_found.saturating_add(n_asked) > *most) {
            Some(most) => Err(Refusal::UserCap { n_found, n_asked, most, project: None }),
            None => Ok(()),
        }
    }

    /// Checks the cap on pending jobs of one user in a project.
    fn check_project_cap(
        &self,
        caller: &Caller,
        name: &ProjectName,
        n_asked: u64,
    ) -> Result<(), Refusal> {
        let project = self.world.projects().get(name);
        let Some(most) = project.and_then(|it| it.user_caps.pending_jobs) else { return Ok(()) };
        let user = self.world.user(caller.owner.uid);
        let n_found = user.and_then(|user| user.waiting_in.get(name)).copied().unwrap_or(0);
        match n_found.saturating_add(n_asked) > most {
            true => Err(Refusal::UserCap { n_found, n_asked, most, project: Some(name.clone()) }),
            false => Ok(()),
        }
    }

    /// Fills in the defaults of the projects, and sizes GPU requests by the devices of the cluster.
    fn under_terms(&self, mut jobs: Vec<NewJob>) -> Vec<NewJob> {
        let projects = self.world.projects();
        for job in &mut jobs {
            job.gpus = self.world.sized(&job.gpus, job.pool.as_ref());
            if job.has_parts() {
                let pool = job.pool.clone();
                for part in job.parts.iter_mut() {
                    part.gpus = self.world.sized(&part.gpus, pool.as_ref());
                }
            }
            let Some(project) = projects.get(&job.project) else { continue };
            let terms = project_tree::terms(projects, project);
            job.time_limit = job.time_limit.or(terms.default_time);
            let usual = terms.preemptible && job.life.requeue != Some(false);
            let preemptible = job.life.preemptible.or(usual.then_some(true));
            job.life.preemptible = preemptible;
        }
        jobs
    }

    fn take_job(&mut self, caller: &Caller, number: JobNumber, mut new: NewJob, waits: Waits) {
        let id = JobId { number, element: None };
        let setup = new.after_setup.then(|| JobId::single(number.0 - 1));
        new.after.extend(setup.map(|job| Dependency::new(job, DependencyKind::Ok)));
        let Waits { one_met, unmet, begin } = waits;
        let course = Course { one_met, unmet, begin, ..Course::default() };
        let since = self.now;
        let who = (id, Attempt::FIRST);
        let waits = self.world.waits_for(who, &new.after, &new.life, &course, since).next();
        let waits = waits.is_some();
        let is_over = self.world.is_over_budget(&new.project, &caller.owner.user);
        let phase = match (new.standing.hold, waits) {
            (true, _) => Phase::Held { by: Holder::User, since, missing: None },
            _ if is_over => Phase::Held { by: Holder::Budget, since, missing: None },
            (false, true) => Phase::Waiting { since },
            (false, false) => Phase::Pending { since },
        };
        let NewJob { mut request, script, context, retry_of, .. } = new;
        let standing = std::mem::take(&mut request.standing).into_inner();
        let array = request.array.as_deref();
        let job = Job {
            array: array.map(|array| Box::new(ArrayState::new(array, &standing))),
            note: standing.note,
            notify: as_named_by(caller, standing.notify),
            course: course.into(),
            ..Job::new(id, standing.priority, phase)
        };
        // Jobs share the name of their project.
        if let Some(project) = self.world.projects().get(&request.project) {
            request.project = project.name.clone();
        }
        let retry_of = retry_of.map(Box::new);
        let (owner, submitted_at) = (caller.owner.clone(), self.now);
        let joins = None;
        let spec =
            JobSpec { id, owner, request, script, context, setup, joins, retry_of, submitted_at };
        self.add_job(Arc::new(spec), job);
    }

    pub(crate) fn add_job(&mut self, spec: Arc<JobSpec>, job: Job) {
        let (id, state) = (job.id, job.phase.state());
        self.world.add_job(spec, job);
        self.publish(Change::JobState { job: id, state, exit_code: None });
    }

    /// Returns the result of a submission to a world that is needed for nothing else.
    pub fn would_submit_to(
        world: World,
        now: Timestamp,
        caller: &Caller,
        jobs: &[NewJob],
        (ends, array_ends): Ends<'_>,
    ) -> Result<Reply, Refusal> {
        let ends = KnownEnds { jobs: ends, arrays: array_ends };
        Self::imagined(world, now).would_submit(caller, jobs, ends)
    }

    /// Returns the result of a submission, each job by itself.
    pub(crate) fn would_submit(
        &mut self,
        caller: &Caller,
        jobs: &[NewJob],
        ends: KnownEnds<'_>,
    ) -> Result<Reply, Refusal> {
        let jobs = &self.under_terms(jobs.to_vec())[..];
        let waits = self.check_all(caller, jobs, ends)?;
        self.world.advance(self.now);
        let snapshot = Snapshot { world: &self.world, now: self.now };
        let first = self.world.cluster().last_job.next().0;
        let forecasts = (first..).zip(jobs).zip(waits).map(|((number, job), waits)| {
            let mut reasons: Vec<Reason> = Vec::new();
            if job.standing.hold {
                reasons.push(Reason::HeldByUser { since: self.now });
            }
            reasons.extend(job.after_setup.then(|| Reason::WaitsForJob {
                job: JobId::single(number - 1),
                kind: DependencyKind::Ok,
            }));
            let Waits { one_met, unmet, begin } = waits;
            let course = Course { one_met, unmet, begin, ..Course::default() };
            let who = (JobId::single(number), Attempt::FIRST);
            let now = self.now;
            let waits = self.world.waits_for(who, &job.after, &job.life, &course, now);
            let (waits, n_more) = Reason::first_of(waits, Reason::SHOWN_MAX);
            reasons.extend(waits);
            let shape = self.world.shape_of_new(job, caller.owner.uid);
            reasons.extend(user_quota(&self.world, &caller.owner, &shape));
            let place = gpool_sched::would_place(&snapshot, self.world.policy(), &shape);
            let placements = match place {
                Ok(placements) if reasons.is_empty() => placements,
                Ok(_) => Vec::new(),
                Err(reason) => {
                    reasons.push(reason);
                    Vec::new()
                }
            };
            SubmitForecast { placements, reasons, n_more_reasons: n_more }
        });
        Ok(Reply::WouldSubmit { forecasts: forecasts.collect() })
    }
}
