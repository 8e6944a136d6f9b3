//! The state of a job, as users see it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a job, as users see it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// See [`crate::Phase::Held`].
    Held,
    /// See [`crate::Phase::Waiting`].
    Waiting,
    /// See [`crate::Phase::Pending`].
    #[default]
    Pending,
    /// See [`crate::Phase::Starting`].
    Starting,
    /// See [`crate::Phase::Running`].
    Running,
    /// Its GPU memory is free; it continues later.
    Paused,
    /// See [`crate::Phase::Stopping`].
    Stopping,
    /// See [`crate::Outcome::Succeeded`].
    Succeeded,
    /// See [`crate::Outcome::Failed`].
    Failed,
    /// See [`crate::Outcome::Cancelled`].
    Cancelled,
    /// See [`crate::Outcome::TimedOut`].
    TimedOut,
    /// See [`crate::Outcome::Lost`].
    Lost,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 12] = [
        Self::Held,
        Self::Waiting,
        Self::Pending,
        Self::Starting,
        Self::Running,
        Self::Paused,
        Self::Stopping,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Lost,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
        }
    }

    /// Whether it is a final state.
    #[must_use]
    pub fn is_end(self) -> bool {
        self >= Self::Succeeded
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
