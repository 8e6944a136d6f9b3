//! Evictions: why a job has to leave its devices for another one, and in which way.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::unit::Millis;

/// A way in which a job may be taken off its devices, the best first: the one that loses least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Its processes are stopped where they are, and go on later.
    Pause,
    /// It is sent its own signal and given time to save; then it is run again.
    Checkpoint,
    /// It is ended and run again from its start.
    Requeue,
    /// It is ended for good.
    Kill,
}

impl Exit {
    /// Every exit, the best first.
    pub const ALL: [Self; 4] = [Self::Pause, Self::Checkpoint, Self::Requeue, Self::Kill];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Checkpoint => "checkpoint",
            Self::Requeue => "requeue",
            Self::Kill => "kill",
        }
    }

    /// What stood for it before there were others.
    #[must_use]
    pub fn usual() -> Self {
        Self::Requeue
    }

    /// Whether it is [`Exit::usual`].
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::usual()
    }

    /// Whether the job is run again from its start after it.
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

/// A word that is no exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is none of pause, checkpoint, requeue and kill")]
pub struct UnknownExit;

/// How a job is told to save what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The signal's number.
    pub signal: i32,
    /// How long it has for it; `None` is the job's own grace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Millis>,
}

impl Checkpoint {
    /// The signal where none is named: TERM.
    pub const SIGNAL: i32 = 15;
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self { signal: Self::SIGNAL, grace: None }
    }
}

/// Why what a job holds is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenBack {
    /// Its project has it on loan, and another is entitled to it.
    Reclaim,
    /// A job of its own project has a higher priority.
    Preempt,
    /// Another fits once it is elsewhere.
    Consolidate,
    /// A job of its own project has had less GPU-time.
    Rotate,
    /// It makes a job larger, and others of its project go before that.
    Shrink,
}

impl TakenBack {
    /// The word for it.
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
