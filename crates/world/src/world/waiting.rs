//! What a job waits for besides free capacity: other jobs, and moments. Also the moments at which
//! time alone changes a job.

use std::collections::BTreeMap;

use gpool_model::{
    Attempt, Course, Dependency, DependencyKind, Job, JobId, JobSpec, Lack, Life, Millis, NodeLack,
    Phase, Reason, Timestamp,
};

use crate::row::JobRow;
use crate::world::World;

/// Counts about dependencies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dependencies {
    /// How many dependencies each user's jobs name, met or not. Users without any are absent.
    pub n_by_user: BTreeMap<u32, u64>,
    /// How many of a waiting job's first dependencies are known to be met. They stay met, unless an
    /// element runs again.
    pub n_met: BTreeMap<JobId, usize>,
}

impl World {
    /// Whether a job still waits for other jobs. Repeated calls while those end one by one look at
    /// each of them only a few times in all.
    pub fn has_open_dependency(&mut self, id: JobId) -> bool {
        let Some(row) = self.job(id) else { return false };
        let n_met = self.dependencies.n_met.get(&id).copied().unwrap_or(0);
        let mut left = row.spec.after.iter().skip(n_met);
        let n_more = left.position(|it| self.reason_to_wait(id, *it).is_some());
        let (is_open, n_met) = match n_more {
            Some(n_more) => (true, n_met + n_more),
            None => (false, row.spec.after.len()),
        };
        if n_met > 0 {
            self.dependencies.n_met.insert(id, n_met);
        }
        is_open
    }

    fn reason_to_wait(
        &self,
        id: JobId,
        Dependency { job, kind, .. }: Dependency,
    ) -> Option<Reason> {
        let job = match (kind, id.element) {
            // Each element of an array waits for its own counterpart.
            (DependencyKind::Each, None) => return None,
            (DependencyKind::Each, element) => JobId { element, ..job },
            _ => job,
        };
        let awaited = self.is_awaited(Dependency::new(job, kind));
        awaited.then_some(Reason::WaitsForJob { job, kind })
    }

    /// Returns the reasons that keep a job from being considered; empty if there are none. `id` is
    /// the job's ID, or any ID without an element for a new job; `attempt` is the next one. A job
    /// may wait for very many others, so each reason is found only on demand.
    pub fn waits_for(
        &self,
        (id, attempt): (JobId, Attempt),
        after: &[Dependency],
        life: &Life,
        course: &Course,
        now: Timestamp,
    ) -> impl Iterator<Item = Reason> {
        let unmet = course.unmet;
        let unmet = unmet.map(|it| Reason::DependencyFailed { job: it.job, state: it.state });
        let others = after.iter().filter_map(move |it| self.reason_to_wait(id, *it));
        let one_met = course.one_met;
        let one = std::iter::once_with(move || {
            let mut open = life.after_one.iter().filter(|it| !one_met && self.is_live(it.job));
            let Dependency { job, kind, .. } = *open.next()?;
            Some(Reason::WaitsForOneOf { job, kind, n_jobs: 1 + open.count() as u64 })
        });
        let begin =
            life.begin.max(course.begin).filter(|at| *at > now).map(|at| Reason::BeginTime { at });
        let backoff = course.backoff_until.filter(|until| *until > now);
        let backoff = backoff.map(|until| Reason::BackoffAfterFailure { until, attempt });
        let pull = course.image_pull.as_ref().and_then(|it| self.image_pull(it));
        let backoff = backoff.into_iter().chain(pull);
        unmet.into_iter().chain(others).chain(one.flatten()).chain(begin).chain(backoff)
    }

    fn image_pull(&self, lack: &NodeLack) -> Option<Reason> {
        let NodeLack { node, lack: Lack::Pull(image) } = lack else { return None };
        let pulls = self.node(node).map(|row| &row.node.facts.images);
        let progress = pulls.and_then(|pulls| pulls.running.get(image));
        let progress = progress.cloned().unwrap_or_default();
        Some(Reason::ImagePull { node: node.clone(), image: image.clone(), progress })
    }

    /// Returns the earliest start that follows from dependencies on jobs that have started.
    #[must_use]
    pub fn begin_after(&self, after: &[Dependency]) -> Option<Timestamp> {
        let begin = |it: &Dependency| it.begin(first_start(&self.job(it.job)?.job)?);
        after.iter().filter_map(begin).max()
    }

    /// Whether a job exists that has yet to end, or to start, for this dependency.
    #[must_use]
    pub fn is_awaited(&self, dependency: Dependency) -> bool {
        let has_begun = || self.job(dependency.job).is_some_and(|row| has_begun(&row.job));
        self.is_live(dependency.job) && (dependency.kind != DependencyKind::Start || !has_begun())
    }

    /// Returns the reasons that keep this job, or all that is left of an array, from being
    /// considered.
    pub fn waits(&self, spec: &JobSpec, job: &Job, now: Timestamp) -> impl Iterator<Item = Reason> {
        let who = (job.id, job.attempt);
        let only_alike = job.array.as_ref().is_some_and(|array| array.unstarted.is_empty());
        let alike =
            spec.after.iter().filter(move |it| only_alike && it.kind == DependencyKind::Each);
        let alike = alike.map(|it| Reason::WaitsForJob { job: it.job, kind: it.kind });
        self.waits_for(who, &spec.after, &spec.life, &job.course, now).chain(alike)
    }

    /// Whether any reason keeps this job from being considered.
    #[must_use]
    pub fn is_waiting(&self, spec: &JobSpec, job: &Job, now: Timestamp) -> bool {
        self.waits(spec, job, now).next().is_some()
    }

    /// Takes the jobs with a moment that has come since the last call: each once, in the order of
    /// their IDs. The order must not depend on the number of calls: one that changes nothing is not
    /// in the journal, so a replay takes the moments of several calls at once.
    pub fn pop_due_jobs(&mut self, now: Timestamp) -> Vec<JobId> {
        let mut due = Vec::new();
        while let Some((at, job)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, job));
            due.push(job);
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    /// The future moments at which time alone changes a job, the earliest first.
    pub fn due_later(&self) -> impl Iterator<Item = (Timestamp, JobId)> {
        self.timers.iter().copied()
    }

    pub(crate) fn set_timers(&mut self, row: &JobRow) {
        // Past moments too: the set must not depend on when it was last read.
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

/// Returns when a job first started, if it ever did.
#[must_use]
pub fn first_start(job: &Job) -> Option<Timestamp> {
    let past = job.course.past.first().and_then(|attempt| attempt.started_at);
    past.or(match &job.phase {
        Phase::Running { started_at, .. } | Phase::Paused { started_at, .. } => Some(*started_at),
        Phase::Stopping { started_at, .. } => *started_at,
        Phase::Held { .. }
        | Phase::Waiting { .. }
        | Phase::Pending { .. }
        | Phase::Underway { .. }
        | Phase::Starting { .. } => None,
        Phase::Ended(end) => end.started_at,
    })
}

/// Whether a job that is neither an array nor an element has started, in this attempt or an earlier
/// one. Once true, this stays true.
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

/// Returns the last moment at which a job may start and still end by its deadline.
#[must_use]
pub fn latest_start(life: &Life, time_limit: Option<Millis>) -> Option<Timestamp> {
    let limit = time_limit.unwrap_or_default();
    let deadline = life.deadline?;
    Some(Timestamp::new(deadline.get().saturating_sub(limit.get())))
}

/// Returns when time alone changes a job: when it may be considered, when it is too late for its
/// deadline, and when its owner is warned about its time limit.
fn moments(row: &JobRow) -> [Option<Timestamp>; 2] {
    let late = || {
        let latest = latest_start(&row.spec.life, row.spec.time_limit)?;
        Some(latest.after(Millis::new(1)))
    };
    match &row.job.phase {
        Phase::Held { .. } => [row.job.course.release_at, late()],
        Phase::Waiting { .. } => {
            let course = &row.job.course;
            [row.spec.life.begin.max(course.begin).max(course.backoff_until), late()]
        }
        Phase::Pending { .. } => [None, late()],
        Phase::Running { .. } => {
            [row.spec.time_limit.and_then(|limit| row.job.near_limit_at(limit)), None]
        }
        Phase::Underway { .. }
        | Phase::Starting { .. }
        | Phase::Paused { .. }
        | Phase::Stopping { .. }
        | Phase::Ended(_) => [None, None],
    }
}
