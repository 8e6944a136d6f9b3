//! Actions of users on jobs. A request names several jobs and is carried out for all or none.

use gpool_model::agent::Order;
use gpool_model::job::{EndCause, JobState, StopCause, Usage};
use gpool_model::refusal::Permitted;
use gpool_model::verb::Rules;
use gpool_model::{
    Allocation, AllocationState, Caller, Checkpoint, Exit, Job, JobEnd, JobId, JobSpec, JobVerb,
    Millis, Outcome, Phase, Refusal, Reply, RequestId, ResourceKind, Timestamp,
};
use gpool_world::World;

use crate::control::Control;
use crate::control::claims::is_claim;
use crate::control::gang::has_ended;
use crate::control::settle::EndedJobs;
use crate::project_tree;

impl Control {
    /// Carries out a verb for all of the jobs or for none.
    pub(crate) fn on_jobs(
        &mut self,
        caller: &Caller,
        jobs: &[JobId],
        verb: JobVerb,
        request: RequestId,
    ) -> Result<Reply, Refusal> {
        let Rules { name, is_for_project_admins, .. } = verb.rules();
        self.check_live(caller, jobs, name, is_for_project_admins)?;
        match verb {
            JobVerb::Cancel => self.cancel(caller, jobs),
            JobVerb::Hold => self.hold(caller, jobs)?,
            JobVerb::Release { at } => self.release(caller, jobs, at)?,
            JobVerb::Pause => self.pause(caller, jobs)?,
            JobVerb::Resume => self.resume(caller, jobs)?,
            JobVerb::Signal { .. } => self.signal(jobs, verb, request)?,
            JobVerb::Extend { change } => self.extend(caller, jobs, change)?,
            JobVerb::Requeue { hold } => self.requeue(caller, jobs, hold)?,
        }
        Ok(self.states(jobs))
    }

    fn cancel(&mut self, caller: &Caller, jobs: &[JobId]) {
        for id in jobs {
            // The end of an earlier job of the list may have ended this one.
            if self.world.is_live(*id) {
                self.cancel_one(caller, *id);
            }
        }
    }

    fn cancel_one(&mut self, caller: &Caller, id: JobId) {
        let by = std::sync::Arc::clone(&caller.owner.user);
        self.stop(id, StopCause::Cancelled { by });
    }

    /// Ends a job: a waiting one at once, a running one by an order to its node.
    pub(crate) fn stop(&mut self, id: JobId, cause: StopCause) {
        let Some(row) = self.world.job(id) else {
            let only = self.world.positions(&[id]);
            return self.end_elements(id.number, &only, cause.end_cause(), self.now);
        };
        if row.job.array.is_some() {
            return self.stop_array(id.number, &cause);
        }
        let (grace, signal) = terms_of(&self.world, &row.spec, &cause);
        let mut job = row.job.clone();
        let first = job.course.tasks.iter().filter_map(|course| course.started_at).min();
        let (allocations, started_at) = match job.phase {
            Phase::Held { .. } | Phase::Waiting { .. } | Phase::Pending { .. } => {
                return self.end_unstarted(id, cause.end_cause(), self.now);
            }
            // No agent was ordered to start it.
            Phase::Starting { allocations, .. } if is_claim(&allocations) => {
                return self.give_up_claim(id, &cause);
            }
            Phase::Starting { allocations, .. } => (allocations, first),
            Phase::Running { allocations, started_at } => (allocations, Some(started_at)),
            // The job does not own the devices that it claims to resume.
            Phase::Paused { allocations, started_at, since, .. } => {
                let pause = self.now.since(since);
                job.course.paused = job.course.paused.saturating_add(pause);
                let has_left = |mut it: Allocation| {
                    if matches!(it.state, AllocationState::Claimed { .. }) {
                        let host_bytes = it.resources.get(&ResourceKind::PauseMemory);
                        it.resources = row.spec.resources_paused();
                        it.resources.set(ResourceKind::PauseMemory, host_bytes);
                    }
                    it
                };
                (allocations.into_iter().map(has_left).collect(), Some(started_at))
            }
            // A cancellation overrides a requeue.
            Phase::Stopping {
                cause:
                    before @ (StopCause::Requeued { .. }
                    | StopCause::TakenBack { .. }
                    | StopCause::TaskFailed { .. }
                    | StopCause::TaskRefused { .. }),
                allocations,
                started_at,
                since,
            } if is_final(&cause) => {
                let was_saving = terms_of(&self.world, &row.spec, &before).1.is_some();
                job.phase = Phase::Stopping { allocations, started_at, cause, since };
                self.put_job(job.clone());
                // A cancelled job must not spend its time on a checkpoint that is not needed.
                if was_saving {
                    self.order_stop(&job, grace, None);
                }
                return;
            }
            Phase::Stopping { .. } | Phase::Underway { .. } | Phase::Ended(_) => return,
        };
        let deadline = self.now.after(grace);
        let release = |allocation: Allocation| Allocation {
            state: AllocationState::Releasing { deadline },
            ..allocation
        };
        let allocations: Vec<Allocation> = allocations.into_iter().map(release).collect();
        job.phase = Phase::Stopping { allocations, started_at, cause, since: self.now };
        self.put_job(job.clone());
        self.order_stop(&job, grace, signal);
    }

    /// Orders the nodes of a job to end its tasks.
    fn order_stop(&mut self, job: &Job, grace: Millis, signal: Option<i32>) {
        let (term, generation) = (self.world.cluster().term, job.generation);
        let goes_on = |it: &&Allocation| !has_ended(job, it.task);
        for Allocation { task, node, .. } in job.phase.allocations().iter().filter(goes_on) {
            let task = *task;
            let order = Order::Stop { term, task, generation, grace, signal };
            self.order(node, order);
        }
    }

    fn signal(&mut self, jobs: &[JobId], verb: JobVerb, request: RequestId) -> Result<(), Refusal> {
        let JobVerb::Signal { signal, to } = verb else { return Ok(()) };
        let running = self.rows_for(jobs, verb);
        self.check_verb(&running, verb)?;
        let term = self.world.cluster().term;
        for id in &running {
            let Some(job) = self.world.job(*id).map(|row| row.job.clone()) else { continue };
            let allocations = job.phase.allocations().iter();
            for Allocation { task, node, .. } in allocations.filter(|it| !has_ended(&job, it.task))
            {
                let order = Order::Signal { term, task: *task, signal, to, request };
                self.order_once(node, order);
            }
        }
        Ok(())
    }

    /// Ends a job that never started, and jobs that need another end of it.
    pub(crate) fn end_unstarted(&mut self, id: JobId, cause: EndCause, at: Timestamp) {
        let end = JobEnd {
            outcome: Outcome::Cancelled,
            cause: Some(cause),
            exit: None,
            started_at: None,
            ended_at: at,
            usage: Usage::default(),
            allocations: Vec::new(),
            resized: 0,
            steps: gpool_model::Rare::default(),
        };
        self.end(id, end);
    }

    /// Ends a job and settles the consequences.
    pub(crate) fn end(&mut self, id: JobId, end: JobEnd) {
        let mut job = self.job(id);
        let (outcome, at, started_at) = (end.outcome, end.ended_at, end.started_at);
        let position = self.world.position_of(id).map(|(_, position)| position);
        if let Phase::Pending { since } = job.phase {
            job.waited = job.waited.saturating_add(self.now.since(since));
        }
        job.phase = Phase::Ended(Box::new(end));
        self.put_job(job);
        let of_array = position.map(|position| (id.number, [position].into_iter().collect()));
        self.settle(EndedJobs { ids: vec![id], of_array, outcome, started_at, at });
    }

    /// Checks that each job has not ended and that the caller may act on it.
    pub(crate) fn check_live(
        &self,
        caller: &Caller,
        jobs: &[JobId],
        action: &str,
        is_for_project_admins: bool,
    ) -> Result<(), Refusal> {
        if jobs.is_empty() {
            let why = "give at least one job".to_owned();
            return Err(Refusal::Invalid { field: "jobs".to_owned(), why });
        }
        for id in jobs {
            if !self.world.is_live(*id) {
                return Err(match self.world.recent_end(*id) {
                    Some(outcome) => Refusal::AlreadyEnded { id: *id, state: outcome.state() },
                    None => Refusal::NoSuchJob { id: *id },
                });
            }
            if !is_for_project_admins || !self.is_admin_of(caller, *id) {
                self.check_owner(caller, *id, action)?;
            }
        }
        Ok(())
    }

    /// Returns whether the caller is an admin of the job's project.
    fn is_admin_of(&self, caller: &Caller, id: JobId) -> bool {
        let project = self.world.row_for(id).map(|row| &row.spec.project);
        let projects = self.world.projects();
        project.is_some_and(|name| project_tree::is_admin_of(projects, caller, name))
    }

    pub(crate) fn check_owner(
        &self,
        caller: &Caller,
        id: JobId,
        action: &str,
    ) -> Result<(), Refusal> {
        let row = self.world.row_for(id).expect("asked only for jobs that are there");
        if caller.admin || row.spec.owner.uid == caller.owner.uid {
            return Ok(());
        }
        let what = format!("{action} job {id} of user {}", row.spec.owner.user);
        Err(Refusal::NotPermitted { what, by: Permitted::Owner })
    }

    /// The jobs that a verb changes: an array stands for its elements that the verb applies to, if
    /// there are any.
    pub(crate) fn rows_for(&self, jobs: &[JobId], verb: JobVerb) -> Vec<JobId> {
        let mut rows = Vec::new();
        for id in jobs {
            let elements = self.waiting_rows(id.number, |state| verb.applies_in(state));
            match id.element {
                None if !elements.is_empty() => rows.extend(elements),
                _ => rows.push(*id),
            }
        }
        rows
    }

    /// Checks that a verb applies to each job.
    pub(crate) fn check_verb(&self, jobs: &[JobId], verb: JobVerb) -> Result<(), Refusal> {
        self.check_states(jobs, verb.name(), |state| verb.applies_in(state))
    }

    pub(crate) fn check_states(
        &self,
        jobs: &[JobId],
        action: &str,
        is_right: impl Fn(JobState) -> bool,
    ) -> Result<(), Refusal> {
        for id in jobs {
            let row = self.world.row_for(*id).expect("asked only for jobs that are there");
            let state = row.job.phase.state();
            if !is_right(state) {
                let action = action.to_owned();
                return Err(Refusal::WrongState { id: *id, state, action });
            }
        }
        Ok(())
    }

    /// Returns each job with its present state.
    pub(crate) fn states(&self, jobs: &[JobId]) -> Reply {
        let state = |id: &JobId| match self.world.row_for(*id) {
            Some(row) => row.job.phase.state(),
            None => self.world.recent_end(*id).map_or(JobState::Cancelled, Outcome::state),
        };
        Reply::Jobs(jobs.iter().map(|id| (*id, state(id))).collect())
    }
}

/// Returns the time between the signal and KILL, and the signal if it is not TERM, for a job that
/// is stopped for this cause. An evicted job gets no longer than allowed, because another job waits
/// for its devices.
pub(crate) fn terms_of(world: &World, spec: &JobSpec, cause: &StopCause) -> (Millis, Option<i32>) {
    let StopCause::TakenBack { exit, .. } = cause else { return (spec.grace, None) };
    let Checkpoint { signal, .. } = spec.life.checkpoint.unwrap_or_default();
    (world.grace_for(spec, *exit), (*exit == Exit::Checkpoint).then_some(signal))
}

/// Whether a stop for this cause overrides causes that would run the job again.
fn is_final(cause: &StopCause) -> bool {
    match cause {
        StopCause::Cancelled { .. }
        | StopCause::TooManyFailed { .. }
        | StopCause::GangEnded { .. } => true,
        StopCause::Requeued { .. }
        | StopCause::TakenBack { .. }
        | StopCause::TaskFailed { .. }
        | StopCause::TaskRefused { .. } => false,
    }
}
