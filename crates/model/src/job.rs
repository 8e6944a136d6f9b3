//! A job: its spec, which verbs such as `edit` change, and its state, which changes as it runs.

pub mod course;
pub mod dependency;
pub mod end;
pub mod hold;
pub mod owner;
pub mod pause;
pub mod phase;
pub mod spec;
pub mod state;
pub mod stop;

use serde::{Deserialize, Serialize};

use crate::array::ArrayState;
pub use crate::id::BlobId;
use crate::id::{Attempt, Generation, JobId, Version};
use crate::notify::{NearLimit, NotifyOn, NotifyRule};
use crate::rare::Rare;
use crate::unit::{Millis, Timestamp};
pub use course::{Again, Course, PastAttempt, TaskCourse, Unmet};
pub use dependency::{Dependency, DependencyKind};
pub use end::{
    EndCause, ExitStatus, GpuUsage, JobEnd, Outcome, OutputCut, RunTotals, StepEnd, Usage,
};
pub use hold::{AdminHold, Holder};
pub use owner::Owner;
pub use phase::Phase;
pub use spec::JobSpec;
pub use state::JobState;
pub use stop::StopCause;

/// The changing part of a job: small, and stored with each change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The ID of the job.
    pub id: JobId,
    /// Grows with each change by a user.
    pub version: Version,
    /// Higher goes first, -1000…1000.
    pub priority: i32,
    /// A note of its owner or an admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The addresses that get notifications about the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<NotifyRule>,
    /// The attempt that it is in, or will start with.
    pub attempt: Attempt,
    /// The generation of this attempt's allocation; grows with each change of it.
    pub generation: Generation,
    /// Time spent pending before the present pending period; escalation counts it.
    pub waited: Millis,
    /// The state of an array's elements; `None` for other jobs and for elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<ArrayState>>,
    /// Earlier attempts, retries and the like.
    #[serde(default, skip_serializing_if = "Course::is_plain")]
    pub course: Rare<Course>,
    /// Its phase. For an array: the phase of the elements without records of their own.
    pub phase: Phase,
}

impl Job {
    /// A job in its first attempt, with nothing else set.
    #[must_use]
    pub fn new(id: JobId, priority: i32, phase: Phase) -> Self {
        Self {
            id,
            version: Version(1),
            priority,
            note: None,
            notify: Vec::new(),
            attempt: Attempt::FIRST,
            generation: Generation(1),
            waited: Millis::ZERO,
            array: None,
            course: Rare::default(),
            phase,
        }
    }

    /// Returns the holder that keeps the job from starting or resuming, if any.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        match &self.phase {
            Phase::Held { by, .. } => Some(*by),
            Phase::Paused { held, .. } => *held,
            _ => None,
        }
    }

    /// Whether only an admin of the server may start it. An admin hold without a name, from an
    /// older record, counts as one of the server's admins.
    #[must_use]
    pub fn is_held_by_server_admin(&self) -> bool {
        let hold = self.course.admin_hold.as_ref();
        self.holder() == Some(Holder::Admin) && hold.is_none_or(|it| it.project.is_none())
    }

    /// The holder after the end of its present attempt, if it is held then.
    #[must_use]
    pub fn holder_next(&self) -> Holder {
        match self.course.admin_hold {
            Some(_) => Holder::Admin,
            None => Holder::User,
        }
    }

    /// Whether its owner is to get a message if it misses its forecast: once, and only while it is
    /// pending. An array sends messages only at its end.
    #[must_use]
    pub fn reports_late(&self) -> bool {
        let asks = self.notify.iter().any(|rule| rule.on.contains(&NotifyOn::Late));
        let is_alone = self.array.is_none() && self.id.element.is_none();
        let waits = matches!(self.phase, Phase::Pending { .. });
        asks && is_alone && waits && !self.course.late_sent
    }

    /// When its owner is warned about a time limit: `None` unless it runs, asks for this message
    /// and has not had it for this limit.
    #[must_use]
    pub fn near_limit_at(&self, limit: Millis) -> Option<Timestamp> {
        let Phase::Running { started_at, .. } = &self.phase else { return None };
        let asks = self.notify.iter().any(|rule| rule.on.contains(&NotifyOn::NearLimit));
        let is_due = asks && self.course.warned_limit != Some(limit);
        let ran = self.course.paused.saturating_add(NearLimit::warns_after(limit));
        is_due.then(|| started_at.after(ran))
    }

    /// The run time of its program in this attempt up to `now`, without pauses.
    #[must_use]
    pub fn ran(&self, now: Timestamp) -> Millis {
        let (started_at, until) = match &self.phase {
            Phase::Running { started_at, .. } => (*started_at, now),
            Phase::Paused { started_at, since, .. } => (*started_at, *since),
            _ => return Millis::ZERO,
        };
        until.since(started_at).saturating_sub(self.course.paused)
    }
}
