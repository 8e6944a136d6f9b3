//! The kind of a job, and when its GPUs count as idle.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rare::Usual;
use crate::unit::Millis;

/// The kind of work that a job does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// It computes and ends.
    #[default]
    Train,
    /// A person works in it: a notebook or a shell.
    Notebook,
    /// It answers requests until it is cancelled.
    Serve,
    /// It prepares data.
    Data,
}

impl JobKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Train, Self::Notebook, Self::Serve, Self::Data];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Notebook => "notebook",
            Self::Serve => "serve",
            Self::Data => "data",
        }
    }

    /// How long the GPUs of a job are unused before it is shown as idle, if it requests nothing
    /// else.
    pub const IDLE_AFTER: Millis = Millis::from_mins(30);

    /// How long the GPUs of such a job are unused before the policy for idle jobs applies to it, if
    /// it requests nothing else; `None` for kinds to which it does not apply.
    #[must_use]
    pub fn idle_after(self) -> Option<Millis> {
        match self {
            Self::Notebook => Some(Self::IDLE_AFTER),
            Self::Train | Self::Serve | Self::Data => None,
        }
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for JobKind {
    type Err = UnknownKind;

    /// A shell is a notebook.
    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        let word = if word == "shell" { "notebook" } else { word };
        Self::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or(UnknownKind)
    }
}

/// The text names no kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not one of train, notebook, serve and data")]
pub struct UnknownKind;

/// How a job uses its GPUs over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Habits {
    /// Its kind, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<JobKind>,
    /// How long its GPUs are unused before it counts as idle, if that was requested; zero is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<Millis>,
    /// How it frees its GPUs itself, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yields: Option<Yields>,
}

/// How a job is asked to free its GPUs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Yields {
    /// The signal beside the file; `None` for a job that reads the file from time to time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The time that it has; `None` is the job's own grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Millis>,
}

impl Usual for Habits {
    const USUAL: &'static Self = &Self { kind: None, idle_after: None, yields: None };
}

/// What happens to a job that does not use its GPUs. It is shown as idle in any case.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OnIdle {
    /// Nothing else.
    #[default]
    Report,
    /// Its owner gets a notification.
    Warn,
    /// It can be preempted from then on. Its owner gets a notification.
    Demote,
    /// It frees its GPUs, or the driver does, and it gets them back when it needs them. The owner
    /// of a job with GPUs that can't be freed gets a notification.
    Release,
    /// It is requeued; a notebook is not, and its owner gets a notification.
    Requeue,
    /// It is cancelled; a notebook is not, and its owner gets a notification.
    Cancel,
}

impl OnIdle {
    /// Every value with its name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("report", Self::Report),
        ("warn", Self::Warn),
        ("demote", Self::Demote),
        ("release", Self::Release),
        ("requeue", Self::Requeue),
        ("cancel", Self::Cancel),
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Warn => "warn",
            Self::Demote => "demote",
            Self::Release => "release",
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
        }
    }

    /// Whether it is the default.
    #[must_use]
    pub fn is_report(&self) -> bool {
        *self == Self::Report
    }
}
