//! Conversion of a job's records to the job in the API.

use gpool_model::job::{EndCause, ExitStatus, JobEnd, JobSpec, JobState, Phase, StopCause};
use gpool_model::{Allocation, Node, RunTotals, Timestamp};

use crate::array::{ArrayElement, ArrayStatus, Elements};
use crate::cause::{cause_word, cause_words};
use crate::course::Attempted;
use crate::create::JobCreate;
use crate::eta::Eta;
use crate::exits;
use crate::field::fields;
use crate::gang::GangStatus;
use crate::gpu::xid::JobXid;
use crate::job::{Job, JobForecast, JobRun, JobStep, JobUsage, JobWait, PRIVATE, PlacedOn, Usage};
use crate::reason::Reason;
use crate::time::{Time, gpu_hours, seconds};

/// Facts about a job that are not in its records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFacts {
    /// Why the job waits, most important reasons first.
    pub reasons: Vec<gpool_model::Reason>,
    /// Number of further reasons.
    pub n_more_reasons: u64,
    /// Whether the caller may not see the owner's private fields.
    pub private: bool,
    /// Forecast start, and the time at which the server computed it.
    pub eta: Option<(gpool_model::Eta, Timestamp)>,
    /// Totals over the elements of an array that has not ended.
    pub elements: Option<Elements>,
    /// The nodes on which it shares devices or is idle.
    pub nodes: Vec<Node>,
    /// Maximum time that the job gets to save its state and end if it becomes a victim.
    pub save_time_max: Option<gpool_model::Millis>,
}

impl Job {
    /// Returns a job at one time: the requested values, from the table of fields, and its state.
    #[must_use]
    pub fn new(spec: &JobSpec, job: &gpool_model::Job, now: Timestamp, shown: &JobFacts) -> Self {
        let mut request = JobCreate::default();
        let fields = fields().filter(|field| !(shown.private && field.is_private));
        for show in fields.filter_map(|field| field.show) {
            show(spec, job, &mut request);
        }
        let array = ArrayStatus::of(spec, job, shown.elements.as_ref());
        let is_underway = array.as_ref().is_some_and(|array| {
            array.n_in(&[JobState::Starting, JobState::Running, JobState::Stopping]) > 0
        });
        let allocations = run_of(job).1;
        let placed = |it: &Allocation| {
            let mut placed = PlacedOn::new(&it.node, &it.slots);
            if let Some(node) = shown.nodes.iter().find(|node| node.name == it.node) {
                placed.spread(node, it.task, &it.slots);
            }
            placed
        };
        let totals = match &job.array {
            Some(array) => shown.elements.as_ref().map_or(array.totals, |it| it.totals),
            None => RunTotals::of(&job.phase, now),
        };
        Self {
            id: job.id.to_string(),
            name: request.name.take().unwrap_or_else(|| PRIVATE.to_owned()),
            user: spec.owner.user.to_string(),
            project: request.project.take().unwrap_or_default(),
            state: if is_underway { JobState::Running } else { job.phase.state() },
            submitted_at: spec.submitted_at.into(),
            version: job.version.0,
            private: shown.private,
            request,
            placement: allocations.iter().map(placed).collect(),
            run: JobRun::new(spec, job, shown),
            wait: JobWait::new(spec, job, now, shown),
            forecast: JobForecast {
                eta: shown.eta.map(|(eta, as_of)| Eta::new(eta, as_of)),
                expected_run_s: None,
            },
            usage: JobUsage {
                gpu_hours: gpu_hours(totals.gpu_time),
                total: end_of(job).map(|end| {
                    let usage = Usage::from(end.usage);
                    Usage { objective: usage.objective.filter(|_| !shown.private), ..usage }
                }),
                ..JobUsage::default()
            },
            array,
            element: ArrayElement::of(spec, job),
            group: None,
            gang: GangStatus::of(spec, job),
            joins: spec.joins.as_ref().map(|joins| joins.job.to_string()),
            retry_of: spec.retry_of.as_ref().map(ToString::to_string),
            setup_job: spec.setup.map(|job| job.to_string()),
            notes: exits::capped(spec, job, shown.save_time_max).into_iter().collect(),
            hints: Vec::new(),
        }
    }
}

impl JobWait {
    fn new(spec: &JobSpec, job: &gpool_model::Job, now: Timestamp, facts: &JobFacts) -> Self {
        let started_at = run_of(job).0;
        let until = started_at.or(end_of(job).map(|end| end.ended_at)).unwrap_or(now);
        let reason = |reason| {
            let reason = Reason::of_job(job, reason, true);
            if facts.private { reason.for_stranger() } else { reason }
        };
        Self {
            waited_s: seconds(until.since(spec.submitted_at)),
            reasons: facts.reasons.iter().map(reason).collect(),
            n_more_reasons: facts.n_more_reasons,
            held_by: exits::holder_word(job),
            held_by_admin: exits::holder_name(job),
            release_at: job.course.release_at.map(Time),
        }
    }
}

impl JobRun {
    fn new(spec: &JobSpec, job: &gpool_model::Job, facts: &JobFacts) -> Self {
        let mut this = Self {
            attempt: job.attempt.0,
            paused_since: exits::paused_since(&job.phase),
            n_retries: job.course.n_retries,
            attempts: job.course.past.iter().map(Attempted::from).collect(),
            ..Self::default()
        };
        this.show(spec, job, facts);
        this
    }

    /// Sets where and when the job ran, and how it ended.
    fn show(&mut self, spec: &JobSpec, job: &gpool_model::Job, facts: &JobFacts) {
        let (started_at, allocations) = run_of(job);
        let ended = end_of(job);
        let exit = ended.and_then(|end| end.exit);
        if matches!(job.phase, Phase::Running { .. }) {
            let stalled = allocations.iter().find_map(|it| {
                let node = facts.nodes.iter().find(|node| node.name == it.node)?;
                node.stalled(it.task).map(str::to_owned)
            });
            self.stalled = stalled;
            let idle = allocations.iter().map(|it| {
                let node = facts.nodes.iter().find(|node| node.name == it.node)?;
                node.idle_since(it.task).map(Time)
            });
            self.idle_since =
                idle.collect::<Option<Vec<Time>>>().and_then(|all| all.into_iter().max());
        }
        let is_idle = self.idle_since.is_some();
        let not_released = job.course.not_released.as_deref().filter(|_| is_idle);
        self.not_released = not_released.map(str::to_owned);
        self.xids = job.course.xids.iter().map(JobXid::from).collect();
        self.freed = job.phase.is_parked();
        self.started_at = started_at.map(Time);
        self.ended_at = ended.map(|end| end.ended_at.into());
        self.exit_code = exit.map(ExitStatus::shell_code);
        self.signal = exit.and_then(signal_of);
        let steps = ended.filter(|_| !facts.private).map(|end| &**end.steps).unwrap_or_default();
        self.steps = steps.iter().map(JobStep::from).collect();
        let (cause, text) = cause(spec, job);
        (self.cause, self.cause_text) = (cause, text.filter(|_| !facts.private));
    }
}

fn end_of(job: &gpool_model::Job) -> Option<&JobEnd> {
    match &job.phase {
        Phase::Ended(end) => Some(end),
        _ => None,
    }
}

/// Returns the start of a job's current or last attempt, and its allocations.
fn run_of(job: &gpool_model::Job) -> (Option<Timestamp>, &[Allocation]) {
    match &job.phase {
        Phase::Running { started_at, allocations }
        | Phase::Paused { started_at, allocations, .. } => (Some(*started_at), allocations),
        Phase::Stopping { started_at, allocations, .. } => (*started_at, allocations),
        Phase::Starting { allocations, .. } => (None, allocations),
        Phase::Ended(end) => (end.started_at, &end.allocations),
        Phase::Held { .. }
        | Phase::Waiting { .. }
        | Phase::Pending { .. }
        | Phase::Underway { .. } => (job.array.as_ref().and_then(|it| it.started_at), &[]),
    }
}

/// Returns why a job ended or is stopping: as a code and as text.
fn cause(spec: &JobSpec, job: &gpool_model::Job) -> (Option<String>, Option<String>) {
    let words = |cause: &EndCause| (Some(cause_word(cause).to_owned()), Some(cause_words(cause)));
    match (end_of(job).and_then(|end| end.cause.as_ref()), &job.phase) {
        (Some(EndCause::DependencyFailed { job }), _) if spec.setup == Some(*job) => {
            let text = format!("its setup, job {job}, failed; gpool logs {job}");
            (Some("setup_failed".to_owned()), Some(text))
        }
        (Some(cause), _) => words(cause),
        (None, Phase::Stopping { cause: StopCause::Requeued { by, .. }, .. }) => {
            (Some("requeued".to_owned()), Some(format!("requeued by {by}")))
        }
        (None, Phase::Paused { why, .. }) => gpool_texts::pause::pause_words(why),
        (None, Phase::Stopping { cause, .. }) => words(&cause.end_cause()),
        (None, _) => (None, None),
    }
}

fn signal_of(exit: ExitStatus) -> Option<i32> {
    match exit {
        ExitStatus::Code(_) => None,
        ExitStatus::Signal(signal) => Some(signal),
    }
}
