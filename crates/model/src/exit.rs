//! Evictions: why and how a job leaves its devices for another job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::unit::Millis;

/// The ways in which a victim may leave its devices, best first: the first loses the least work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Its processes are stopped in memory and continue later.
    Pause,
    /// It gets its own signal and time to save its state, then runs again.
    Checkpoint,
    /// It is stopped and runs again from its start.
    Requeue,
    /// It is ended and does not run again.
    Kill,
}

impl Exit {
    /// Every exit, the best first.
    pub const ALL: [Self; 4] = [Self::Pause, Self::Checkpoint, Self::Requeue, Self::Kill];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Checkpoint => "checkpoint",
            Self::Requeue => "requeue",
            Self::Kill => "kill",
        }
    }

    /// The default: the only exit of records that name none.
    #[must_use]
    pub fn usual() -> Self {
        Self::Requeue
    }

    /// Whether it is [`Exit::usual`].
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::usual()
    }

    /// Whether the job runs again from its start afterwards.
    #[must_use]
    pub fn runs_again(self) -> bool {
        matches!(self, Self::Checkpoint | Self::Requeue)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Exit {
    type Err = UnknownExit;

    fn from_str(word: &str) -> Result<Self, UnknownExit> {
        Self::ALL.into_iter().find(|exit| exit.as_str() == word).ok_or(UnknownExit)
    }
}

/// The text names no exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not one of pause, checkpoint, requeue and kill")]
pub struct UnknownExit;

/// How a job is asked to save its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The signal's number.
    pub signal: i32,
    /// The time that it has; `None` is the job's own grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Millis>,
}

impl Checkpoint {
    /// The default signal: TERM.
    pub const SIGNAL: i32 = 15;
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self { signal: Self::SIGNAL, grace: None }
    }
}

/// Why a job is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenBack {
    /// Its project is over quota, and another project is entitled to the devices.
    Reclaim,
    /// A job of the same project has a higher priority.
    Preempt,
    /// Another job fits once this one has moved.
    Consolidate,
    /// A job of the same project has less attained GPU time.
    Rotate,
    /// It extends an elastic job, and other jobs of the project go before that.
    Shrink,
}

impl TakenBack {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reclaim => "reclaim",
            Self::Preempt => "preempt",
            Self::Consolidate => "consolidate",
            Self::Rotate => "rotate",
            Self::Shrink => "shrink",
        }
    }
}
