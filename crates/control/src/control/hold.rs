//! Holds of users and admins. Only an admin with the same rights starts a job that an admin
//! stopped, whichever command would start it; its owner may end it.

use std::sync::Arc;

use gpool_model::job::{Holder, JobState};
use gpool_model::refusal::Permitted;
use gpool_model::{AdminHold, Caller, Job, JobId, JobVerb, Phase, Refusal, Timestamp};

use crate::control::Control;
use crate::project_tree;

impl Control {
    pub(crate) fn hold(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<(), Refusal> {
        self.check_verb(jobs, JobVerb::Hold)?;
        self.set_apart(jobs);
        for id in jobs {
            let hold = self.admin_hold(caller, *id);
            self.hold_one(*id, hold.as_ref());
            if id.element.is_none() {
                for id in self.waiting_rows(id.number, |state| state <= JobState::Pending) {
                    self.hold_one(id, hold.as_ref());
                }
            }
        }
        Ok(())
    }

    /// Returns the hold of a caller on a job: an admin's, or `None` for the job's own user.
    pub(crate) fn admin_hold(&self, caller: &Caller, id: JobId) -> Option<AdminHold> {
        let spec = &self.world.row_for(id)?.spec;
        let is_own = spec.owner.uid == caller.owner.uid;
        let project = (!caller.admin).then(|| spec.project.clone());
        (!is_own).then(|| AdminHold { by: Arc::clone(&caller.owner.user), project })
    }

    pub(crate) fn hold_one(&mut self, id: JobId, hold: Option<&AdminHold>) {
        if matches!(self.job(id).phase, Phase::Paused { .. }) {
            return self.hold_paused(id, hold);
        }
        let mut job = self.job(id);
        match job.phase {
            // An array with no elements left to hold is held through its running elements.
            Phase::Underway { .. } => return,
            Phase::Held { .. } if !is_stronger(&job, hold) => {
                // The same hold again, but without the release time.
                if hold.is_none() == (job.holder() == Some(Holder::User))
                    && job.course.release_at.take().is_some()
                {
                    job.version = job.version.next();
                    self.put_job(job);
                }
                return;
            }
            Phase::Pending { since } => {
                job.waited = job.waited.saturating_add(self.now.since(since));
            }
            _ => {}
        }
        job.version = job.version.next();
        job.course.release_at = None;
        job.course.admin_hold = hold.cloned();
        job.phase = Phase::Held { by: job.holder_next(), since: self.now, missing: None };
        self.put_job(job);
    }

    /// Keeps a paused job from resuming.
    pub(crate) fn hold_paused(&mut self, id: JobId, hold: Option<&AdminHold>) {
        let mut job = self.job(id);
        if !is_stronger(&job, hold) {
            return;
        }
        job.course.admin_hold = hold.cloned();
        let by = job.holder_next();
        if let Phase::Paused { held, .. } = &mut job.phase {
            *held = Some(by);
        }
        job.version = job.version.next();
        self.put_job(job);
    }

    /// Lets held jobs be considered again, now or at a certain time.
    pub(crate) fn release(
        &mut self,
        caller: &Caller,
        jobs: &[JobId],
        at: Option<Timestamp>,
    ) -> Result<(), Refusal> {
        let verb = JobVerb::Release { at };
        self.check_verb(jobs, verb)?;
        self.set_apart(jobs);
        let mut held: Vec<JobId> = Vec::new();
        for id in jobs {
            held.push(*id);
            if id.element.is_none() {
                held.extend(self.waiting_rows(id.number, |state| verb.applies_in(state)));
            }
        }
        held.retain(|id| self.job(*id).holder().is_some());
        for id in &held {
            self.check_may_start(caller, *id, verb.name())?;
        }
        for id in held {
            let row = self.world.job(id).expect("checked above");
            let since = self.now;
            let is_ready = !self.awaits_others(row);
            let mut job = row.job.clone();
            job.version = job.version.next();
            if let Phase::Paused { held, .. } = &mut job.phase {
                *held = None;
                job.course.admin_hold = None;
                self.put_job(job);
                continue;
            }
            job.course.release_at = at.filter(|at| *at > since);
            if job.course.release_at.is_none() {
                job.course.admin_hold = None;
                // The nodes may have it now.
                job.course.lacking_nodes.clear();
                job.phase =
                    if is_ready { Phase::Pending { since } } else { Phase::Waiting { since } };
            }
            self.put_job(job);
        }
        Ok(())
    }

    /// Checks whether a caller with the right to act on a job may also start it: not against the
    /// admin that stopped it.
    pub(crate) fn check_may_start(
        &self,
        caller: &Caller,
        id: JobId,
        action: &str,
    ) -> Result<(), Refusal> {
        let job = &self.world.row_for(id).expect("asked only for jobs that are there").job;
        if job.holder() == Some(Holder::Budget) && !caller.admin {
            let what = format!("{action} job {id} while its budget is used up");
            return Err(Refusal::NotPermitted { what, by: Permitted::Admin });
        }
        if job.holder() != Some(Holder::Admin) || caller.admin {
            return Ok(());
        }
        // The job may be in another project now.
        let hold = job.course.admin_hold.clone();
        let project = hold.as_ref().and_then(|hold| hold.project.as_ref());
        let projects = self.world.projects();
        if project.is_some_and(|name| project_tree::is_admin_of(projects, caller, name)) {
            return Ok(());
        }
        Err(Refusal::HeldByAdmin { id, action: action.to_owned(), hold })
    }
}

/// Whether a hold binds more callers than the present one: an admin's binds the owner, and a server
/// admin's binds the admins of the project.
fn is_stronger(job: &Job, hold: Option<&AdminHold>) -> bool {
    match (job.holder(), hold) {
        (None | Some(Holder::Idle), _) => true,
        (Some(Holder::User | Holder::Scheduler | Holder::Budget), Some(_)) => true,
        (Some(Holder::Admin), Some(hold)) => {
            hold.project.is_none() && !job.is_held_by_server_admin()
        }
        (Some(_), None) => false,
    }
}
