//! What users do to jobs. A request names several jobs and is carried out for all or none.

use gpool_model::agent::Order;
use gpool_model::job::{Dependency, EndCause, Holder, JobState, StopCause, Usage};
use gpool_model::{
    Allocation, AllocationState, Caller, JobEnd, JobId, JobPatch, Outcome, Phase, Refusal, Reply,
    RequestId, Timestamp, Version,
};

use crate::admission;
use crate::control::Control;

impl Control {
    /// Longest note, in bytes.
    const NOTE_MAX: usize = 4096;

    pub(crate) fn cancel(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<Reply, Refusal> {
        self.check_live(caller, jobs, "cancel")?;
        for id in jobs {
            // An earlier one of the list may have taken this one with it.
            if self.world.job(*id).is_some() {
                self.cancel_one(caller, *id);
            }
        }
        Ok(self.states(jobs))
    }

    fn cancel_one(&mut self, caller: &Caller, id: JobId) {
        let mut job = self.job(id);
        let by = std::sync::Arc::clone(&caller.owner.user);
        let (allocations, started_at) = match job.phase {
            Phase::Held { .. } | Phase::Waiting { .. } | Phase::Pending { .. } => {
                return self.end_unstarted(id, EndCause::Cancelled { by });
            }
            Phase::Starting { allocations, .. } => (allocations, None),
            Phase::Running { allocations, started_at } => (allocations, Some(started_at)),
            Phase::Stopping { .. } | Phase::Ended(_) => return,
        };
        let row = self.world.job(id).expect("it was just looked up");
        let grace = row.spec.grace;
        let deadline = self.now.after(grace);
        let release = |allocation: Allocation| Allocation {
            state: AllocationState::Releasing { deadline },
            ..allocation
        };
        let allocations: Vec<Allocation> = allocations.into_iter().map(release).collect();
        let generation = job.generation;
        job.phase = Phase::Stopping {
            allocations: allocations.clone(),
            started_at,
            cause: StopCause::Cancelled { by },
            since: self.now,
        };
        self.put_job(job);
        let term = self.world.cluster().term;
        for Allocation { task, node, .. } in allocations {
            let order = Order::Stop { term, task, generation, grace };
            self.order(&node, order);
        }
    }

    pub(crate) fn hold(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<Reply, Refusal> {
        self.check_live(caller, jobs, "hold")?;
        self.check_states(jobs, "hold", |state| state <= JobState::Pending)?;
        let own = |row: &gpool_world::JobRow| row.spec.owner.uid == caller.owner.uid;
        for id in jobs {
            let row = self.world.job(*id).expect("checked above");
            let by = if own(row) { Holder::User } else { Holder::Admin };
            let mut job = row.job.clone();
            match job.phase {
                Phase::Held { by: before, .. } if before == by || before == Holder::Admin => {
                    continue;
                }
                Phase::Pending { since } => {
                    job.waited = job.waited.saturating_add(self.now.since(since));
                }
                _ => {}
            }
            job.version = job.version.next();
            job.phase = Phase::Held { by, since: self.now, missing: None };
            self.put_job(job);
        }
        Ok(self.states(jobs))
    }

    pub(crate) fn release(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<Reply, Refusal> {
        self.check_live(caller, jobs, "release")?;
        self.check_states(jobs, "release", |state| state == JobState::Held)?;
        for id in jobs {
            let held_by_admin =
                matches!(self.job(*id).phase, Phase::Held { by: Holder::Admin, .. });
            if held_by_admin && !caller.admin {
                let what = format!("release job {id}, which an admin holds");
                return Err(Refusal::NotPermitted { what });
            }
        }
        for id in jobs {
            let row = self.world.job(*id).expect("checked above");
            let since = self.now;
            let waits = row.spec.after.iter().any(|after| self.world.job(after.job).is_some());
            let mut job = row.job.clone();
            job.version = job.version.next();
            job.phase = if waits { Phase::Waiting { since } } else { Phase::Pending { since } };
            self.put_job(job);
        }
        Ok(self.states(jobs))
    }

    pub(crate) fn signal(
        &mut self,
        caller: &Caller,
        jobs: &[JobId],
        signal: i32,
        request: RequestId,
    ) -> Result<Reply, Refusal> {
        self.check_live(caller, jobs, "signal")?;
        self.check_states(jobs, "signal", |state| state == JobState::Running)?;
        let term = self.world.cluster().term;
        for id in jobs {
            for Allocation { task, node, .. } in self.job(*id).phase.allocations() {
                let order = Order::Signal { term, task: *task, signal, request };
                self.order_once(node, order);
            }
        }
        Ok(self.states(jobs))
    }

    pub(crate) fn edit(
        &mut self,
        caller: &Caller,
        id: JobId,
        version: Option<u64>,
        patch: &JobPatch,
    ) -> Result<Reply, Refusal> {
        self.check_live(caller, &[id], "edit")?;
        let mut job = self.job(id);
        if let Some(expected) = version
            && Version(expected) != job.version
        {
            return Err(Refusal::VersionConflict { id, expected, found: job.version.0 });
        }
        if let Some(priority) = patch.priority {
            // Lowering what an admin raised is no claim to go before others.
            if priority > job.priority {
                admission::priority(&self.world, caller, priority)?;
            }
            self.check_states(&[id], "change the priority of", |state| state <= JobState::Pending)?;
            job.priority = priority;
        }
        if let Some(note) = &patch.note {
            if note.len() > Self::NOTE_MAX {
                let most = format!("{} bytes", Self::NOTE_MAX);
                return Err(Refusal::TooLarge { what: "the note".to_owned(), most });
            }
            job.note = Some(note.clone()).filter(|note| !note.is_empty());
        }
        job.version = job.version.next();
        self.put_job(job);
        Ok(self.states(&[id]))
    }

    /// Ends a job that never started, and those that waited for it to end otherwise.
    pub(crate) fn end_unstarted(&mut self, id: JobId, cause: EndCause) {
        let end = JobEnd {
            outcome: Outcome::Cancelled,
            cause: Some(cause),
            exit: None,
            started_at: None,
            ended_at: self.now,
            usage: Usage::default(),
            allocations: Vec::new(),
        };
        self.end(id, end);
    }

    /// Ends a job and settles every job that waited for it, without recursion: chains of
    /// dependencies may be long.
    pub(crate) fn end(&mut self, id: JobId, end: JobEnd) {
        let mut ends = vec![(id, end)];
        while let Some((id, end)) = ends.pop() {
            let dependents: Vec<JobId> = self.world.dependents(id).collect();
            let outcome = end.outcome;
            let ended_at = end.ended_at;
            let mut job = self.job(id);
            if let Phase::Pending { since } = job.phase {
                job.waited = job.waited.saturating_add(self.now.since(since));
            }
            job.phase = Phase::Ended(Box::new(end));
            self.put_job(job);
            for dependent in dependents {
                ends.extend(self.settle(dependent, id, outcome, ended_at));
            }
        }
    }

    /// Lets a waiting job go on after one that it waited for has ended; answers with its own end
    /// if that was not the end it waited for, held or not: it could never start.
    fn settle(
        &mut self,
        id: JobId,
        ended: JobId,
        outcome: Outcome,
        ended_at: Timestamp,
    ) -> Option<(JobId, JobEnd)> {
        let row = self.world.job(id)?;
        let unmet = |after: &Dependency| after.job == ended && !after.kind.is_met_by(outcome);
        if row.spec.after.iter().any(unmet) {
            let end = JobEnd {
                outcome: Outcome::Cancelled,
                cause: Some(EndCause::DependencyFailed { job: ended }),
                exit: None,
                started_at: None,
                ended_at,
                usage: Usage::default(),
                allocations: Vec::new(),
            };
            return Some((id, end));
        }
        let still_waits = row.spec.after.iter().any(|after| self.world.job(after.job).is_some());
        if !still_waits && matches!(row.job.phase, Phase::Waiting { .. }) {
            let mut job = row.job.clone();
            job.phase = Phase::Pending { since: self.now };
            self.put_job(job);
        }
        None
    }

    /// Every job is there and the caller may act on it.
    fn check_live(&self, caller: &Caller, jobs: &[JobId], action: &str) -> Result<(), Refusal> {
        if jobs.is_empty() {
            let why = "at least one job must be named".to_owned();
            return Err(Refusal::Invalid { field: "jobs".to_owned(), why });
        }
        for id in jobs {
            if self.world.job(*id).is_none() {
                return Err(match self.world.recent_end(*id) {
                    Some(outcome) => Refusal::AlreadyEnded { id: *id, state: outcome.state() },
                    None => Refusal::NoSuchJob { id: *id },
                });
            }
            self.check_owner(caller, *id, action)?;
        }
        Ok(())
    }

    pub(crate) fn check_owner(
        &self,
        caller: &Caller,
        id: JobId,
        action: &str,
    ) -> Result<(), Refusal> {
        let row = self.world.job(id).expect("asked only for jobs that are there");
        if caller.admin || row.spec.owner.uid == caller.owner.uid {
            return Ok(());
        }
        let what = format!("{action} job {id} of user {}", row.spec.owner.user);
        Err(Refusal::NotPermitted { what })
    }

    fn check_states(
        &self,
        jobs: &[JobId],
        action: &str,
        is_right: impl Fn(JobState) -> bool,
    ) -> Result<(), Refusal> {
        for id in jobs {
            let state = self.job(*id).phase.state();
            if !is_right(state) {
                let action = action.to_owned();
                return Err(Refusal::WrongState { id: *id, state, action });
            }
        }
        Ok(())
    }

    /// Each job with the state that it is in now.
    fn states(&self, jobs: &[JobId]) -> Reply {
        let state = |id: &JobId| match self.world.job(*id) {
            Some(row) => row.job.phase.state(),
            None => self.world.recent_end(*id).map_or(JobState::Cancelled, Outcome::state),
        };
        Reply::Jobs(jobs.iter().map(|id| (*id, state(id))).collect())
    }
}
