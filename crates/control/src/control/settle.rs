//! Consequences of ended jobs: jobs that waited for them are released or end, elements of other
//! arrays too, and an array ends with its last element. Works without recursion, because chains may
//! be long.

use gpool_model::job::Unmet;
use gpool_model::job::{DependencyKind, EndCause, StopCause};
use gpool_model::life::OnUnmet;
use gpool_model::{
    Dependency, Job, JobEnd, JobId, JobNumber, Outcome, Phase, Positions, Timestamp,
};
use gpool_world::JobRow;

use crate::control::Control;

/// Jobs with the same end, before any consequence.
#[derive(Debug, Clone)]
pub(crate) struct EndedJobs {
    /// The jobs that others may wait for by name.
    pub ids: Vec<JobId>,
    /// For elements: their array, and their positions.
    pub of_array: Option<(JobNumber, Positions)>,
    pub outcome: Outcome,
    pub started_at: Option<Timestamp>,
    pub at: Timestamp,
}

impl Control {
    /// Settles the consequences of an end, and their own consequences.
    pub(crate) fn settle(&mut self, gone: EndedJobs) {
        self.unsettled_ends.push(gone);
        if self.is_settling {
            return;
        }
        self.is_settling = true;
        while let Some(gone) = self.unsettled_ends.pop() {
            for id in &gone.ids {
                for dependent in self.world.dependents(*id).collect::<Vec<_>>() {
                    self.settle_one(dependent, *id, &gone);
                }
            }
            if let Some((number, positions)) = &gone.of_array {
                self.settle_alike(*number, positions, &gone);
                self.stop_after_failures(*number);
                self.conclude(*number);
            }
        }
        self.is_settling = false;
    }

    /// Updates a waiting job after a dependency has ended. A job that needed another end can never
    /// start: it ends, held or not.
    fn settle_one(&mut self, id: JobId, ended: JobId, gone: &EndedJobs) {
        let Some(row) = self.world.job(id).filter(|row| waits(row)) else { return };
        let (life, outcome) = (&row.spec.life, gone.outcome);
        let is_it = |it: &&Dependency| it.job == ended && it.kind != DependencyKind::Each;
        let mut never = row.spec.after.iter().filter(is_it).any(|it| !it.kind.is_met_by(outcome));
        let mut course = row.job.course.clone();
        let mut one = life.after_one.iter().filter(is_it).peekable();
        if one.peek().is_some() && !course.one_met {
            course.one_met = one.any(|it| it.kind.is_met_by(outcome));
            let is_open = || life.after_one.iter().any(|it| self.world.is_live(it.job));
            never |= !course.one_met && !is_open();
        }
        let started_at = gone.started_at.unwrap_or(gone.at);
        let begins = row.spec.after.iter().filter(is_it).filter_map(|it| it.begin(started_at));
        course.begin = course.begin.max(begins.max());
        if never && life.on_unmet == OnUnmet::Cancel {
            return self.end_waiting(id, EndCause::DependencyFailed { job: ended }, gone.at);
        }
        if never {
            course.unmet.get_or_insert(Unmet { job: ended, state: outcome.state() });
        }
        if course != row.job.course {
            let job = Job { course, ..row.job.clone() };
            self.put_job(job);
        }
        self.go_on(id);
    }

    /// Releases jobs that waited for another job to start.
    pub(crate) fn settle_start(&mut self, started: JobId) {
        for dependent in self.world.dependents(started).collect::<Vec<_>>() {
            let Some(row) = self.world.job(dependent).filter(|row| waits(row)) else { continue };
            let is_it = |it: &&Dependency| it.job == started && it.kind == DependencyKind::Start;
            let mut after = row.spec.after.iter().filter(is_it).peekable();
            if after.peek().is_none() {
                continue;
            }
            let now = self.now;
            let begin = after.filter_map(|it| it.begin(now)).max();
            if begin.is_some() {
                let mut job = row.job.clone();
                job.course.begin = job.course.begin.max(begin);
                self.put_job(job);
            }
            self.go_on(dependent);
        }
    }

    /// Ends a job, or all of an array, that has not started.
    pub(crate) fn end_waiting(&mut self, id: JobId, cause: EndCause, at: Timestamp) {
        match self.world.job(id).and_then(|row| row.job.array.as_ref()) {
            None => self.end_unstarted(id, cause, at),
            Some(array) => {
                let mut left = array.unstarted.clone();
                left.extend(&array.waiting);
                self.end_elements(id.number, &left, cause, at);
            }
        }
    }

    /// Makes a waiting job pending if nothing keeps it any more.
    pub(crate) fn go_on(&mut self, id: JobId) {
        let is_waiting = |row: &JobRow| matches!(row.job.phase, Phase::Waiting { .. });
        if self.world.job(id).is_some_and(is_waiting)
            && !self.world.has_open_dependency(id)
            && let Some(row) = self.world.job(id)
            && !self.awaits_others(row)
        {
            let mut job = row.job.clone();
            job.phase = Phase::Pending { since: self.now };
            self.put_job(job);
        }
    }

    /// Whether a job, or all that is left of an array, waits for other jobs or for a moment.
    pub(crate) fn awaits_others(&self, row: &JobRow) -> bool {
        let only_alike = row.job.array.as_ref().is_some_and(|array| array.unstarted.is_empty());
        only_alike || self.world.is_waiting(&row.spec, &row.job, self.now)
    }

    /// Releases elements of other arrays that waited for the same elements of this one.
    fn settle_alike(&mut self, number: JobNumber, positions: &Positions, gone: &EndedJobs) {
        let whole = JobId { number, element: None };
        let is_met = DependencyKind::Each.is_met_by(gone.outcome);
        for dependent in self.world.dependents(whole).collect::<Vec<_>>() {
            let Some(row) = self.world.job(dependent) else { continue };
            let is_alike = |kind| kind == DependencyKind::Each;
            if !row.spec.after.iter().any(|it| it.job == whole && is_alike(it.kind)) {
                continue;
            }
            let own = match &row.job.array {
                Some(array) => array.waiting.clone(),
                None => self.world.positions(&[dependent]),
            };
            let (is_array, at) = (row.job.array.is_some(), gone.at);
            let mut freed: Positions = positions.iter().filter(|at| own.contains(*at)).collect();
            if is_met && is_array {
                freed = self.without_counterparts(row, &freed);
            }
            let Some(first) = freed.next_after(None) else { continue };
            let cause = EndCause::DependencyFailed { job: self.id_at(number, first) };
            match (is_met, is_array) {
                (true, true) => {
                    self.world.change_array(dependent.number, self.now, |array| {
                        array.waiting.subtract(&freed);
                        array.unstarted.extend(&freed);
                    });
                    self.go_on(dependent);
                }
                (true, false) => self.go_on(dependent),
                (false, true) => self.end_elements(dependent.number, &freed, cause, at),
                (false, false) => self.end_unstarted(dependent, cause, at),
            }
        }
    }

    /// Ends the rest of an array if more of its elements failed than allowed.
    pub(crate) fn stop_after_failures(&mut self, number: JobNumber) {
        let array = self.world.array(number).and_then(|row| row.job.array.as_ref());
        let most = array.and_then(|array| array.max_fails.filter(|most| array.n_failed() > *most));
        if let Some(most) = most {
            self.stop_array(number, &StopCause::TooManyFailed { most });
        }
    }

    /// Ends an array if all its elements have ended.
    fn conclude(&mut self, number: JobNumber) {
        let Some(row) = self.world.array(number) else { return };
        let array = row.job.array.as_ref().expect("it is an array");
        if array.n_unstarted() > 0 || self.world.n_rows_of(number) > 0 {
            return;
        }
        let end = JobEnd {
            outcome: array.outcome(),
            cause: array.cause(),
            exit: array.exit,
            started_at: array.started_at,
            ended_at: array.ended_at.unwrap_or(self.now),
            usage: array.usage,
            allocations: Vec::new(),
            resized: 0,
            steps: gpool_model::Rare::default(),
        };
        self.end(row.job.id, end);
    }
}

/// Whether a job waits or is held, so that the start or end of another one matters.
fn waits(row: &JobRow) -> bool {
    matches!(row.job.phase, Phase::Waiting { .. } | Phase::Held { .. })
}
