//! Which jobs may share a device: by their users and projects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::ProjectName;

/// The jobs that a job accepts on its devices. Jobs share a device only if each accepts the others.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ShareWith {
    /// Jobs of the same user.
    User,
    /// Jobs of the same project.
    Project,
    /// All jobs.
    #[default]
    Anyone,
}

impl ShareWith {
    /// All values with their names, strictest first.
    pub const ALL: [(&'static str, Self); 3] =
        [("user", Self::User), ("project", Self::Project), ("anyone", Self::Anyone)];

    /// The value in the API, in settings and in `--share-with`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Anyone => "anyone",
        }
    }

    /// Whether it accepts all jobs.
    #[must_use]
    pub fn is_anyone(&self) -> bool {
        *self == Self::Anyone
    }

    /// Whether it accepts a job, which is of the same user or project or not.
    #[must_use]
    pub fn accepts(self, is_same_user: bool, is_same_project: bool) -> bool {
        match self {
            Self::User => is_same_user,
            Self::Project => is_same_project,
            Self::Anyone => true,
        }
    }
}

impl fmt::Display for ShareWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text names no jobs to share devices with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{value:?} is not one of user, project, anyone")]
pub struct NoSuchShareWith {
    /// The text.
    pub value: String,
}

impl FromStr for ShareWith {
    type Err = NoSuchShareWith;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        let none = || NoSuchShareWith { value: text.chars().take(40).collect() };
        found.map(|(_, it)| it).ok_or_else(none)
    }
}

/// A job with a share of devices, as other jobs on them see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sharer {
    /// Its own rule; `None` is the rule of the pool of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<ShareWith>,
    /// Its user.
    pub uid: u32,
    /// Its project.
    pub project: ProjectName,
    /// Its priority once it is placed: loans of a lower one are called back first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

impl Sharer {
    /// Whether its own rule excludes some jobs.
    #[must_use]
    pub fn has_share_rule(&self) -> bool {
        self.with.is_some_and(|with| !with.is_anyone())
    }

    /// Returns the rule that keeps it and another job apart on a device of a pool with that rule;
    /// `None` if each accepts the other.
    #[must_use]
    pub fn apart(&self, other: &Self, of_pool: ShareWith) -> Option<ShareWith> {
        let (user, project) = (self.uid == other.uid, self.project == other.project);
        let rules = [self.with, other.with].map(|it| it.unwrap_or(of_pool));
        rules.into_iter().filter(|rule| !rule.accepts(user, project)).min()
    }
}
