//! Jobs that wait for other jobs.

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::end::Outcome;

/// A job that must have ended, or have started, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Which job.
    pub job: JobId,
    /// How it must have ended.
    pub kind: DependencyKind,
}

/// How a job must have ended for another to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// Succeeded.
    Ok,
    /// Ended in any other way.
    Fail,
    /// Ended.
    End,
    /// Succeeded, each element of an array for the same element of this one.
    Each,
    /// Started, or ended without that. Of an array and its elements: ended.
    Start,
}

impl DependencyKind {
    /// Whether that end is the one that was waited for.
    #[must_use]
    pub fn is_met_by(self, outcome: Outcome) -> bool {
        match self {
            Self::Ok | Self::Each => outcome == Outcome::Succeeded,
            Self::Fail => outcome != Outcome::Succeeded,
            Self::End | Self::Start => true,
        }
    }
}
