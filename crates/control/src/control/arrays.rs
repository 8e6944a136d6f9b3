//! Arrays: actions on all elements of an array, and the consequences of an element's end.

use std::collections::BTreeSet;

use gpool_model::array::ArrayEnds;
use gpool_model::effect::Change;
use gpool_model::job::{DependencyKind, EndCause, JobState, StopCause};
use gpool_model::{
    Caller, Dependency, Generation, Job, JobId, JobNumber, JobPatch, NewJob, Outcome, Phase,
    Positions, Refusal, Reply, Timestamp,
};
use gpool_world::JobRow;

use crate::control::Control;
use crate::control::known_ends::KnownEnds;
use crate::control::settle::EndedJobs;

impl Control {
    /// Returns the row that an element without one would have had from the start.
    pub(crate) fn element(&self, id: JobId) -> Option<Job> {
        let (row, position) = self.world.position_of(id)?;
        let array = row.job.array.as_ref()?;
        let mut waited = row.job.waited;
        if let Phase::Pending { since } = row.job.phase {
            waited = waited.saturating_add(self.now.since(since));
        }
        let phase = match &row.job.phase {
            Phase::Pending { .. } if array.waiting.contains(position) => {
                Phase::Waiting { since: self.now }
            }
            Phase::Pending { .. } => Phase::Pending { since: self.now },
            phase => phase.clone(),
        };
        Some(Job {
            id,
            attempt: array.attempt_of(position),
            generation: Generation(1),
            waited,
            note: None,
            // Only the whole array sends messages.
            notify: Vec::new(),
            array: None,
            phase,
            ..row.job.clone()
        })
    }

    /// Returns the element at a position of an array.
    pub(crate) fn id_at(&self, number: JobNumber, position: u32) -> JobId {
        let indexes = self.world.array(number).and_then(|row| row.spec.array.as_ref());
        JobId { number, element: indexes.and_then(|array| array.indexes.at(position)) }
    }

    /// Ends elements that have no row. The common end of many elements is recorded once, and one
    /// event of the array tells of it.
    pub(crate) fn end_elements(
        &mut self,
        number: JobNumber,
        positions: &Positions,
        cause: EndCause,
        at: Timestamp,
    ) {
        if positions.is_empty() {
            return;
        }
        self.world.change_array(number, at, |array| array.end_unstarted(positions, cause, at));
        if let Some(row) = self.world.array(number) {
            let (job, state) = (row.job.id, row.job.phase.state());
            self.publish(Change::JobState { job, state, exit_code: None });
        }
        let is_gone =
            |id: &JobId| self.world.positions(&[*id]).iter().any(|it| positions.contains(it));
        let ids: Vec<JobId> = self.world.awaited_elements(number).filter(is_gone).collect();
        let outcome = Outcome::Cancelled;
        let of_array = Some((number, positions.clone()));
        self.settle(EndedJobs { ids, of_array, outcome, started_at: None, at });
    }

    /// Ends the rest of an array.
    pub(crate) fn stop_array(&mut self, number: JobNumber, cause: &StopCause) {
        let Some(row) = self.world.array(number) else { return };
        let array = row.job.array.as_ref().expect("it is an array");
        let mut left = array.unstarted.clone();
        left.extend(&array.waiting);
        let rows: Vec<JobId> = self.world.elements(number).map(|row| row.job.id).collect();
        // First, because the array is gone with its last element.
        self.end_elements(number, &left, cause.end_cause(), self.now);
        for id in rows {
            if self.world.job(id).is_some() {
                self.stop(id, cause.clone());
            }
        }
    }

    /// Makes the elements of a new array wait for their counterparts in other arrays. Counterparts
    /// that have ended decide at once.
    pub(crate) fn wait_for_alike(&mut self, number: JobNumber, ends: KnownEnds<'_>) {
        self.wait_for_counterparts(number);
        let Some(row) = self.world.array(number) else { return };
        let mut unmet = Vec::<(JobNumber, Positions)>::new();
        for after in row.spec.after.iter().filter(|it| it.kind == DependencyKind::Each) {
            let Some(other) = self.world.array(after.job.number) else {
                let ended = self.ended_elements(after.job, ends);
                unmet.extend(ended.map(|ended| (after.job.number, ended.unmet(after.kind))));
                continue;
            };
            let array = other.job.array.as_ref().expect("it is an array");
            unmet.push((after.job.number, array.unsuccessful()));
        }
        for (other, positions) in unmet {
            let own = self.world.array(number).and_then(|row| row.job.array.as_ref());
            let left = |at: &u32| own.is_some_and(|own| own.outcome_of(*at).is_none());
            let positions: Positions = positions.iter().filter(left).collect();
            if let Some(first) = positions.next_after(None) {
                let element = self.id_at(number, first).element;
                let job = JobId { number: other, element };
                let cause = EndCause::DependencyFailed { job };
                self.end_elements(number, &positions, cause, self.now);
            }
        }
    }

    /// Makes unstarted elements of an array wait for their counterparts that have not ended.
    fn wait_for_counterparts(&mut self, number: JobNumber) {
        let Some(row) = self.world.array(number) else { return };
        let Some(array) = &row.job.array else { return };
        let ready = self.without_counterparts(row, &array.unstarted);
        if ready.len() < array.unstarted.len() {
            self.world.change_array(number, self.now, |array| {
                let mut waiting = std::mem::replace(&mut array.unstarted, ready);
                waiting.subtract(&array.unstarted);
                array.waiting.extend(&waiting);
            });
        }
    }

    /// Returns the elements without a live counterpart in another array.
    pub(crate) fn without_counterparts(&self, row: &JobRow, elements: &Positions) -> Positions {
        let mut ready = elements.clone();
        for after in row.spec.after.iter().filter(|it| it.kind == DependencyKind::Each) {
            let Some(other) = self.world.array(after.job.number) else { continue };
            let array = other.job.array.as_ref().expect("it is an array");
            ready.subtract(&array.unstarted);
            ready.subtract(&array.waiting);
            let rows = self.world.elements(after.job.number).map(|row| row.job.id);
            ready.subtract(&self.world.positions(&rows.collect::<Vec<_>>()));
        }
        ready
    }

    /// Returns how the elements of an array ended that has left memory.
    pub(crate) fn ended_elements<'a>(
        &'a self,
        array: JobId,
        ends: KnownEnds<'a>,
    ) -> Option<&'a ArrayEnds> {
        let known = || ends.arrays.iter().find(|(id, _)| *id == array).map(|(_, ends)| ends);
        match array.element {
            Some(_) => None,
            None => self.world.recent_array(array.number).or_else(known),
        }
    }

    /// Gives ended elements another attempt.
    pub(crate) fn retry(&mut self, caller: &Caller, jobs: &[JobId]) -> Result<Reply, Refusal> {
        let mut again = Vec::<(JobNumber, Positions)>::new();
        for id in jobs {
            let whole = JobId { element: None, ..*id };
            let Some(row) = self.world.array(id.number) else {
                return Err(match self.world.job(whole).map(|row| row.job.phase.state()) {
                    Some(state) => {
                        Refusal::WrongState { id: *id, state, action: "retry".to_owned() }
                    }
                    None => Refusal::NoSuchJob { id: *id },
                });
            };
            self.check_owner(caller, whole, "retry")?;
            let array = row.job.array.as_ref().expect("it is an array");
            let positions = match self.world.position_of(*id) {
                _ if id.element.is_none() && array.unsuccessful().is_empty() => {
                    let why = format!("no element of job {id} has ended without success");
                    return Err(Refusal::Invalid { field: "jobs".to_owned(), why });
                }
                _ if id.element.is_none() => array.unsuccessful(),
                None => return Err(Refusal::NoSuchJob { id: *id }),
                Some((_, position)) if array.outcome_of(position).is_none() => {
                    let state = self.world.row_for(*id).map(|row| row.job.phase.state());
                    let state = state.unwrap_or(JobState::Pending);
                    return Err(Refusal::WrongState { id: *id, state, action: "retry".to_owned() });
                }
                Some((_, position)) => [position].into_iter().collect(),
            };
            again.push((id.number, positions));
        }
        for (number, positions) in again {
            let now = self.now;
            self.world.change_array(number, now, |array| array.retry(&positions));
            self.wait_again(JobId { number, element: None });
            self.await_again(number, &positions);
        }
        Ok(self.states(jobs))
    }

    /// Makes a pending job, or the rest of an array, wait again if it depends on a live job.
    fn wait_again(&mut self, id: JobId) {
        self.wait_for_counterparts(id.number);
        let Some(row) = self.world.job(id) else { return };
        if let Phase::Pending { since } = row.job.phase
            && self.awaits_others(row)
        {
            let waited = row.job.waited.saturating_add(self.now.since(since));
            let phase = Phase::Waiting { since: self.now };
            let job = Job { phase, waited, ..row.job.clone() };
            self.put_job(job);
        }
        self.go_on(id);
    }

    /// Jobs that have not started wait again for retried elements.
    fn await_again(&mut self, number: JobNumber, positions: &Positions) {
        let is_retried =
            |id: &JobId| self.world.positions(&[*id]).iter().any(|it| positions.contains(it));
        let elements = self.world.awaited_elements(number).filter(is_retried);
        let awaited = elements.chain([JobId { number, element: None }]);
        let dependents: BTreeSet<JobId> =
            awaited.flat_map(|id| self.world.dependents(id)).collect();
        dependents.into_iter().for_each(|id| self.wait_again(id));
    }

    /// Elements can wait for their counterparts only in arrays with the same indexes.
    pub(crate) fn check_alike(
        &self,
        job: &NewJob,
        after: &Dependency,
        ends: KnownEnds<'_>,
    ) -> Result<(), Refusal> {
        if after.kind != DependencyKind::Each {
            return Ok(());
        }
        let refuse = |why: String| Err(Refusal::Invalid { field: "after".to_owned(), why });
        let own = job.array.as_ref().map(|array| &array.indexes);
        let other = self.world.array(after.job.number).filter(|_| after.job.element.is_none());
        let other = other.and_then(|row| row.spec.array.as_ref()).map(|array| &array.indexes);
        let ended = || self.ended_elements(after.job, ends).map(|ended| &ended.indexes);
        let other = other.or_else(ended);
        match (own, other) {
            (Some(own), Some(other)) if own == other => Ok(()),
            (None, _) => refuse(format!(
                "each:{} is only for arrays, because it links elements of two arrays; write ok:{} \
                 to wait for the whole array",
                after.job, after.job
            )),
            (_, None) => refuse(format!("each:{}: job {} is not an array", after.job, after.job)),
            (Some(own), Some(other)) => refuse(format!(
                "each:{}: that array has the elements {other}, this one {own}; they must be the \
                 same",
                after.job
            )),
        }
    }

    /// Checks that a patch of array settings is for an array.
    pub(crate) fn check_array_patch(&self, id: JobId, patch: &JobPatch) -> Result<(), Refusal> {
        let of_arrays = ["max_parallel", "max_fails"];
        let Some(field) = of_arrays.into_iter().find(|key| patch.changes(key)) else {
            return Ok(());
        };
        if id.element.is_none() && self.world.array(id.number).is_some() {
            return Ok(());
        }
        let why = match id.element {
            None => format!("job {id} is not an array"),
            Some(_) => {
                format!("all elements share this setting; change the whole array: {}", id.number)
            }
        };
        Err(Refusal::Invalid { field: field.to_owned(), why })
    }

    /// Changes an array and the rows of its waiting elements.
    pub(crate) fn edit_elements(&mut self, id: JobId, patch: &JobPatch) {
        if id.element.is_some() || self.world.array(id.number).is_none() {
            return;
        }
        let standing = &patch.to.standing;
        self.world.change_array(id.number, self.now, |array| {
            if patch.changes("max_parallel") {
                array.max_parallel = standing.max_parallel.filter(|most| *most > 0);
            }
            if patch.changes("max_fails") {
                array.max_fails = standing.max_fails;
            }
        });
        if patch.changes("priority") {
            for id in self.waiting_rows(id.number, |state| state <= JobState::Pending) {
                let job = Job { priority: standing.priority, ..self.job(id) };
                self.put_job(job);
            }
        }
    }

    /// Returns the elements of an array that have a row and are in a wanted state.
    pub(crate) fn waiting_rows(
        &self,
        number: JobNumber,
        is_wanted: impl Fn(JobState) -> bool,
    ) -> Vec<JobId> {
        let rows = self.world.elements(number);
        rows.filter(|row| is_wanted(row.job.phase.state())).map(|row| row.job.id).collect()
    }

    /// Gives elements without a row one of their own, so that they can be changed alone.
    pub(crate) fn set_apart(&mut self, jobs: &[JobId]) {
        for id in jobs {
            if self.world.job(*id).is_none()
                && let Some(job) = self.element(*id)
            {
                self.world.add_element(job);
            }
        }
    }

    /// Skips attempts of waiting elements, which may have run since the backup.
    pub(crate) fn skip_attempts_of(&mut self, number: JobNumber) {
        let now = self.now;
        self.world.change_array(number, now, |array| {
            let mut waits = array.unstarted.clone();
            waits.extend(&array.waiting);
            array.next_attempt(&waits);
        });
    }
}
