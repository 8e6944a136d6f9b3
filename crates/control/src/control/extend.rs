//! Time limits of live jobs, running or not.

use std::sync::Arc;

use gpool_model::agent::{Order, Terms};
use gpool_model::{
    Allocation, Caller, JobId, JobSpec, JobVerb, LimitChange, Millis, Phase, Refusal, Timestamp,
};
use gpool_world::JobRow;

use crate::control::Control;

impl Control {
    /// Ten years: a longer limit is a typing error.
    const LIMIT_MOST: Millis = Millis::from_hours(10 * 365 * 24);

    pub(crate) fn extend(
        &mut self,
        caller: &Caller,
        jobs: &[JobId],
        change: LimitChange,
    ) -> Result<(), Refusal> {
        self.check_verb(jobs, JobVerb::Extend { change })?;
        if let Some(id) = jobs.iter().find(|id| id.element.is_some()) {
            let whole = id.number;
            return Err(no_time(format!(
                "all elements of an array have the same time limit: gpool extend {whole}"
            )));
        }
        let limits: Vec<Option<Millis>> = jobs
            .iter()
            .map(|id| {
                let row = self.world.job(*id).expect("checked above");
                let limit = self.new_limit(caller, row, change)?;
                for row in self.world.elements(id.number) {
                    self.new_limit(caller, row, change)?;
                }
                Ok(limit)
            })
            .collect::<Result<_, Refusal>>()?;
        for (id, limit) in jobs.iter().zip(limits) {
            self.set_limit(*id, limit);
        }
        Ok(())
    }

    fn new_limit(
        &self,
        caller: &Caller,
        row: &JobRow,
        change: LimitChange,
    ) -> Result<Option<Millis>, Refusal> {
        let before = row.spec.time_limit;
        let limit = match (change, before) {
            (LimitChange::To { limit }, _) => limit,
            (LimitChange::Longer { by }, Some(before)) => Some(before.saturating_add(by)),
            (LimitChange::Shorter { by }, Some(before)) => Some(before.saturating_sub(by)),
            (LimitChange::Longer { .. } | LimitChange::Shorter { .. }, None) => {
                return Err(no_time(format!(
                    "job {} has no time limit to change; set one: --to 4h",
                    row.job.id
                )));
            }
        };
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err(no_time("the time limit would be 0; to end the job, cancel it".to_owned()));
        }
        if limit.is_some_and(|limit| limit > Self::LIMIT_MOST) {
            return Err(no_time(
                "a time limit is at most ten years; --to none removes it".to_owned(),
            ));
        }
        match &row.job.phase {
            Phase::Starting { .. } => self.check_longer(caller, row, limit)?,
            Phase::Running { .. } | Phase::Paused { .. } => {
                self.check_longer(caller, row, limit)?;
                let elapsed = row.job.ran(self.now);
                if limit.is_some_and(|limit| limit <= elapsed) {
                    return Err(no_time(format!(
                        "job {} has already run for {elapsed}; to end it, cancel it",
                        row.job.id
                    )));
                }
            }
            _ => {
                let mut spec = JobSpec::clone(&row.spec);
                spec.time_limit = limit;
                self.check_deadline(&spec)?;
            }
        }
        Ok(limit)
    }

    /// Planned starts of other jobs depend on the limits of running jobs.
    fn check_longer(
        &self,
        caller: &Caller,
        row: &JobRow,
        limit: Option<Millis>,
    ) -> Result<(), Refusal> {
        let most = self.world.policy().user_extend_max;
        if caller.admin {
            return Ok(());
        }
        match (row.spec.time_limit, limit) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Refusal::ExtendTooLong { asked: None, most }),
            (Some(before), Some(limit)) => {
                let more = limit.saturating_sub(before);
                let asked = row.job.course.extended.saturating_add(more);
                if more.is_zero() || asked <= most {
                    return Ok(());
                }
                Err(Refusal::ExtendTooLong { asked: Some(asked), most })
            }
        }
    }

    fn set_limit(&mut self, id: JobId, limit: Option<Millis>) {
        let row = self.world.job(id).expect("checked before");
        let before = row.spec.time_limit;
        if before == limit {
            return;
        }
        let mut spec = JobSpec::clone(&row.spec);
        spec.time_limit = limit;
        let spec = Arc::new(spec);
        let elements = self.world.elements(id.number).map(|row| row.job.id);
        let rows: Vec<JobId> = std::iter::once(id).chain(elements).collect();
        self.world.put_spec(&spec);
        for id in rows {
            let mut job = self.job(id);
            job.version = job.version.next();
            let is_under_way = matches!(
                job.phase,
                Phase::Starting { .. } | Phase::Running { .. } | Phase::Paused { .. }
            );
            if is_under_way {
                // A user may add again what they took off.
                let (before, after) = (before.unwrap_or_default(), limit.unwrap_or_default());
                let extended = job.course.extended.saturating_add(after.saturating_sub(before));
                job.course.extended = extended.saturating_sub(before.saturating_sub(after));
                job.generation = job.generation.next();
            }
            self.put_job(job.clone());
            if is_under_way {
                self.order_terms(&job);
            }
        }
    }

    /// Sends a job's time limit and the size of its shares to its nodes.
    pub(crate) fn order_terms(&mut self, job: &gpool_model::Job) {
        for allocation in job.phase.allocations() {
            self.order_terms_of(job, allocation);
        }
    }

    /// As [`Self::order_terms`], for one task.
    pub(crate) fn order_terms_of(&mut self, job: &gpool_model::Job, allocation: &Allocation) {
        let term = self.world.cluster().term;
        let limit = self.world.job(job.id).and_then(|row| row.spec.time_limit);
        let parts = allocation.slots.iter().map(|slot| slot.part).collect();
        let (task, generation) = (allocation.task, job.generation);
        let terms = Terms { limit, parts };
        self.order(&allocation.node, Order::Change { term, task, generation, terms });
    }

    /// Checks that a job with a deadline meets it if the job starts now, or at its begin.
    pub(crate) fn check_deadline(&self, spec: &JobSpec) -> Result<(), Refusal> {
        let first = spec.life.begin.unwrap_or(Timestamp::ZERO).max(self.now);
        self.check_in_time(&spec.life, spec.time_limit, first)
    }

    pub(crate) fn check_in_time(
        &self,
        life: &gpool_model::Life,
        limit: Option<Millis>,
        first: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(deadline) = life.deadline else { return Ok(()) };
        let why = if deadline <= self.now {
            "it is in the past".to_owned()
        } else if deadline <= first {
            "it is before the begin time of the job".to_owned()
        } else if let Some(limit) = limit.filter(|limit| first.after(*limit) > deadline) {
            format!("a job with a time limit of {limit} can't end by then; request less time")
        } else {
            return Ok(());
        };
        Err(Refusal::Invalid { field: "deadline".to_owned(), why })
    }
}

/// Checks that the exits of a job are possible, and its reaction to the loss of its node.
pub(crate) fn check_exits(life: &gpool_model::Life) -> Result<(), Refusal> {
    let errors = [("exits", life.wrong_exits()), ("on_node_lost", life.wrong_on_node_lost())];
    let error = errors.into_iter().find_map(|(field, why)| Some((field, why?)));
    error.map_or(Ok(()), |(field, why)| {
        Err(Refusal::Invalid { field: field.to_owned(), why: why.to_owned() })
    })
}

fn no_time(why: String) -> Refusal {
    Refusal::Invalid { field: "time".to_owned(), why }
}
