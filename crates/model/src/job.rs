//! A job: its spec, which only an edit changes, and what changes while it lives.

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
use crate::notify::NotifyRule;
use crate::rare::Rare;
use crate::unit::{Millis, Timestamp};
pub use course::{Again, Course, PastAttempt, TaskCourse, Unmet};
pub use dependency::{Dependency, DependencyKind};
pub use end::{EndCause, ExitStatus, JobEnd, Outcome, RunTotals, Usage};
pub use hold::{AdminHold, Holder};
pub use owner::Owner;
pub use phase::Phase;
pub use spec::JobSpec;
pub use state::JobState;
pub use stop::StopCause;

/// What changes of a job while it lives: small, written with each change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Which job.
    pub id: JobId,
    /// Grows with each change that a user makes.
    pub version: Version,
    /// Higher goes first, -1000…1000.
    pub priority: i32,
    /// What somebody wrote beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who is told of what becomes of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<NotifyRule>,
    /// The run that it is in, or will be in when it starts.
    pub attempt: Attempt,
    /// Of the allocation of this attempt; grows with each change of it.
    pub generation: Generation,
    /// Time spent pending before the present spell; what escalation counts.
    pub waited: Millis,
    /// What has become of the elements of an array; `None` for all else, elements included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<ArrayState>>,
    /// What came of it so far.
    #[serde(default, skip_serializing_if = "Course::is_plain")]
    pub course: Rare<Course>,
    /// Where it is in its life. For an array: where its elements are that have no record of their
    /// own.
    pub phase: Phase,
}

impl Job {
    /// A job in its first attempt, of which nothing else is known yet.
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

    /// Returns the holder that keeps the job from starting or going on, if any.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        match &self.phase {
            Phase::Held { by, .. } => Some(*by),
            Phase::Paused { held, .. } => *held,
            _ => None,
        }
    }

    /// Whether only an admin of the server may start it. A record from before holds had names is
    /// that of such an admin.
    #[must_use]
    pub fn is_held_by_server_admin(&self) -> bool {
        let hold = self.course.admin_hold.as_ref();
        self.holder() == Some(Holder::Admin) && hold.is_none_or(|it| it.project.is_none())
    }

    /// How it is held when its present attempt is over, if it is held then.
    #[must_use]
    pub fn holder_next(&self) -> Holder {
        match self.course.admin_hold {
            Some(_) => Holder::Admin,
            None => Holder::User,
        }
    }

    /// For how long its program ran in this attempt up to a moment, without the time that it was
    /// paused.
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
