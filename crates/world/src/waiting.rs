//! What a job waits for beside room on a node: other jobs, and moments. And the moments at which
//! something becomes of a job although nothing happens.

use gpool_model::{
    Attempt, Course, Dependency, DependencyKind, Job, JobId, JobSpec, Life, Millis, Phase, Reason,
    Timestamp,
};

use crate::world::{JobRow, World};

impl World {
    /// What keeps a job from being considered; empty if nothing does. `id` is the job's, or any
    /// without an element for one that is not there yet; `attempt` is the one that comes.
    #[must_use]
    pub fn waits_for(
        &self,
        (id, attempt): (JobId, Attempt),
        after: &[Dependency],
        life: &Life,
        course: &Course,
        now: Timestamp,
    ) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if let Some(unmet) = course.unmet {
            reasons.push(Reason::DependencyFailed { job: unmet.job, state: unmet.state });
        }
        for dependency in after {
            let Dependency { job, kind } = *dependency;
            let job = match (kind, id.element) {
                // Each element of an array waits for itself.
                (DependencyKind::Each, None) => continue,
                (DependencyKind::Each, element) => JobId { element, ..job },
                _ => job,
            };
            if self.is_awaited(Dependency { job, kind }) {
                reasons.push(Reason::WaitsForJob { job, kind });
            }
        }
        if !course.one_met {
            let mut open = life.after_one.iter().filter(|it| self.is_live(it.job));
            if let Some(first) = open.next() {
                let n_jobs = 1 + open.count() as u64;
                let Dependency { job, kind } = *first;
                reasons.push(Reason::WaitsForOneOf { job, kind, n_jobs });
            }
        }
        if let Some(at) = life.begin.filter(|at| *at > now) {
            reasons.push(Reason::BeginTime { at });
        }
        if let Some(until) = course.backoff_until.filter(|until| *until > now) {
            reasons.push(Reason::BackoffAfterFailure { until, attempt });
        }
        reasons
    }

    /// Whether a job is there that others wait for to end, or to start.
    #[must_use]
    pub fn is_awaited(&self, dependency: Dependency) -> bool {
        let has_begun = || self.job(dependency.job).is_some_and(|row| has_begun(&row.job));
        self.is_live(dependency.job) && (dependency.kind != DependencyKind::Start || !has_begun())
    }

    /// What keeps a job that is here, or all that is left of an array, from being considered.
    #[must_use]
    pub fn waits(&self, spec: &JobSpec, job: &Job, now: Timestamp) -> Vec<Reason> {
        let who = (job.id, job.attempt);
        let mut reasons = self.waits_for(who, &spec.after, &spec.life, &job.course, now);
        if job.array.as_ref().is_some_and(|array| array.unstarted.is_empty()) {
            let alike = spec.after.iter().filter(|it| it.kind == DependencyKind::Each);
            reasons.extend(alike.map(|it| Reason::WaitsForJob { job: it.job, kind: it.kind }));
        }
        reasons
    }

    /// The jobs for which a moment has come since this was asked last.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<JobId> {
        let mut due = Vec::new();
        while let Some((at, job)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, job));
            due.push(job);
        }
        due
    }

    /// Jobs of which something becomes at a moment to come, the next first.
    pub fn due_later(&self) -> impl Iterator<Item = (Timestamp, JobId)> {
        self.timers.iter().copied()
    }

    pub(crate) fn set_timers(&mut self, row: &JobRow) {
        // Also one that is past: whether anybody looked since it came must not matter.
        for at in moments(row).into_iter().flatten() {
            self.timers.insert((at, row.job.id));
        }
    }

    pub(crate) fn unset_timers(&mut self, row: &JobRow) {
        for at in moments(row).into_iter().flatten() {
            self.timers.remove(&(at, row.job.id));
        }
    }
}

/// Whether a job that is neither an array nor an element has started, in this run of it or an
/// earlier one: once it has, it stays so.
#[must_use]
pub fn has_begun(job: &Job) -> bool {
    let is_alone = job.array.is_none() && job.id.element.is_none();
    is_alone
        && (job.attempt != Attempt::FIRST
            || matches!(
                job.phase,
                Phase::Running { .. } | Phase::Paused { .. } | Phase::Stopping { .. }
            ))
}

/// The last moment at which a job may start and still end by its deadline.
#[must_use]
pub fn latest_start(life: &Life, time_limit: Option<Millis>) -> Option<Timestamp> {
    let limit = time_limit.unwrap_or_default();
    let deadline = life.deadline?;
    Some(Timestamp::new(deadline.get().saturating_sub(limit.get())))
}

/// When something becomes of a job by itself: it may be considered, or can't be in time any more.
fn moments(row: &JobRow) -> [Option<Timestamp>; 2] {
    let late = || {
        let latest = latest_start(&row.spec.life, row.spec.time_limit)?;
        Some(latest.after(Millis::new(1)))
    };
    match &row.job.phase {
        Phase::Held { .. } => [row.job.course.release_at, late()],
        Phase::Waiting { .. } => [row.spec.life.begin.max(row.job.course.backoff_until), late()],
        Phase::Pending { .. } => [None, late()],
        Phase::Underway { .. }
        | Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Paused { .. }
        | Phase::Stopping { .. }
        | Phase::Ended(_) => [None, None],
    }
}
