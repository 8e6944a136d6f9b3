//! Dependencies of jobs on other jobs.

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::end::Outcome;
use crate::unit::{Millis, Timestamp};

/// A dependency on the end or the start of another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// The other job.
    pub job: JobId,
    /// The required end or start.
    pub kind: DependencyKind,
    /// The time that must have passed since the other job started; only for starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Millis>,
}

impl Dependency {
    /// A dependency without a delay.
    #[must_use]
    pub fn new(job: JobId, kind: DependencyKind) -> Self {
        Self { job, kind, delay: None }
    }

    /// The earliest start of the job that has this dependency, if the other job started then.
    #[must_use]
    pub fn begin(&self, started_at: Timestamp) -> Option<Timestamp> {
        self.delay.map(|delay| started_at.after(delay))
    }
}

/// The end, or start, of a job that a dependency requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// It succeeded.
    Ok,
    /// It ended without success.
    Fail,
    /// It ended.
    End,
    /// It succeeded; for arrays, each element depends on the same element of the other array.
    Each,
    /// It started, or ended without starting. An array or an element must have ended.
    Start,
}

impl DependencyKind {
    /// Whether this outcome satisfies the dependency.
    #[must_use]
    pub fn is_met_by(self, outcome: Outcome) -> bool {
        match self {
            Self::Ok | Self::Each => outcome == Outcome::Succeeded,
            Self::Fail => outcome != Outcome::Succeeded,
            Self::End | Self::Start => true,
        }
    }
}
