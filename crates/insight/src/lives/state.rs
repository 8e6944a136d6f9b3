//! The state of a job with the data that counters and traces show.

use gpool_model::job::{Again, Holder, JobState, StopCause};
use gpool_model::{Attempt, Job, JobId, NodeName, PauseCause, Phase, TakenBack, Timestamp};
use gpool_wire::cause::{cause_word, cause_words};

/// The state of a job at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Now {
    pub state: JobState,
    pub since: Timestamp,
    pub attempt: Attempt,
    /// When its program started in this attempt, if it did.
    pub started_at: Option<Timestamp>,
    /// Whether it is an array: its elements have states of their own.
    pub is_array: bool,
    /// The node of its first task, if it has one.
    pub node: Option<NodeName>,
    /// Thousandths of GPUs that it has.
    pub milli: u64,
    pub why: Option<Why>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// A word of a closed set.
    pub code: &'static str,
    pub other: Option<JobId>,
    pub text: Option<String>,
}

impl Why {
    fn code(code: &'static str) -> Self {
        Self { code, other: None, text: None }
    }

    fn taken_back(why: TakenBack, beneficiary: JobId) -> Self {
        Self { code: why.as_str(), other: Some(beneficiary), text: None }
    }
}

impl Now {
    /// A job that was submitted: it may start in the same commit, and so was pending until then.
    pub fn submitted(at: Timestamp) -> Self {
        Self {
            state: JobState::Pending,
            since: at,
            attempt: Attempt::FIRST,
            started_at: None,
            is_array: false,
            node: None,
            milli: 0,
            why: None,
        }
    }

    /// The state of a job; `at` is the time of its last change.
    pub fn of(job: &Job, at: Timestamp) -> Self {
        let (since, why, started_at) = match &job.phase {
            Phase::Held { by, since, .. } => (*since, Some(Why::code(holder(*by))), None),
            Phase::Waiting { since } | Phase::Underway { since } => (*since, None, None),
            Phase::Pending { since } => (*since, again(job), None),
            Phase::Starting { since, .. } => (*since, None, None),
            // A resumed job runs again since now.
            Phase::Running { started_at, .. } if job.course.paused.is_zero() => {
                (*started_at, None, Some(*started_at))
            }
            Phase::Running { started_at, .. } => (at, None, Some(*started_at)),
            Phase::Paused { since, why, started_at, .. } => {
                (*since, Some(paused(why)), Some(*started_at))
            }
            Phase::Stopping { since, cause, started_at, .. } => {
                (*since, Some(stopping(cause)), *started_at)
            }
            Phase::Ended(end) => {
                let why = end.cause.as_ref().map(|cause| Why {
                    code: cause_word(cause),
                    other: None,
                    text: Some(cause_words(cause)),
                });
                (end.ended_at, why, end.started_at)
            }
        };
        let allocations = job.phase.allocations();
        let slots = allocations.iter().flat_map(|it| &it.slots);
        Self {
            state: job.phase.state(),
            since,
            attempt: job.attempt,
            started_at,
            is_array: job.array.is_some(),
            node: allocations.first().map(|it| it.node.clone()),
            milli: slots.map(|slot| slot.part.charge().get()).sum(),
            why,
        }
    }

    /// Returns the run of a starting job that starts and ends in one commit.
    pub fn running_before(&self, end: &Self) -> Option<Self> {
        let since = end.started_at.filter(|_| self.state == JobState::Starting)?;
        let state = JobState::Running;
        Some(Self { state, since, started_at: Some(since), why: None, ..self.clone() })
    }

    /// Whether a job is in another state then.
    pub fn is_other(&self, later: &Self) -> bool {
        (self.state, self.attempt) != (later.state, later.attempt)
    }
}

fn holder(by: Holder) -> &'static str {
    match by {
        Holder::User => "user",
        Holder::Admin => "admin",
        Holder::Idle => "idle",
        Holder::Scheduler => "scheduler",
        Holder::Budget => "budget",
    }
}

/// Why a job is pending again.
fn again(job: &Job) -> Option<Why> {
    let past = job.course.past.last().filter(|_| job.attempt > Attempt::FIRST)?;
    Some(match &past.again {
        Again::Retry => Why::code("retry"),
        Again::NodeFailed => Why::code("node_failed"),
        Again::Requeued { .. } => Why::code("requeued"),
        Again::TakenBack { why, beneficiary, .. } => Why::taken_back(*why, *beneficiary),
        Again::TaskRefused { .. } => Why::code("task_refused"),
    })
}

fn paused(why: &PauseCause) -> Why {
    match why {
        PauseCause::Asked { .. } => Why::code("asked"),
        PauseCause::Idle => Why::code("idle"),
        PauseCause::TakenBack { why, beneficiary } => Why::taken_back(*why, *beneficiary),
        PauseCause::NotMoved { why } => {
            Why { text: Some(why.to_string()), ..Why::code("not_moved") }
        }
    }
}

fn stopping(cause: &StopCause) -> Why {
    match cause {
        StopCause::Requeued { .. } => Why::code("requeued"),
        StopCause::TakenBack { why, beneficiary, .. } => Why::taken_back(*why, *beneficiary),
        StopCause::Cancelled { .. }
        | StopCause::TooManyFailed { .. }
        | StopCause::TaskFailed { .. }
        | StopCause::TaskRefused { .. }
        | StopCause::GangEnded { .. } => Why::code(cause_word(&cause.end_cause())),
    }
}
