//! Changes to projects as they are asked for, and what is to be said about the outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ProjectName, Version};
use crate::project::{Members, Project};
use crate::quota::{Amount, Quota, Weight};
use crate::resource::ResourceKind;
use crate::unit::{MilliGpu, Millis, Timestamp};

/// One project that is to be otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectChange {
    /// Which.
    pub name: ProjectName,
    /// How.
    pub how: ProjectChangeHow,
}

/// How a project is to be otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ProjectChangeHow {
    /// It is not there, and is to be.
    Create {
        /// What is agreed; what is not said is as of [`Project::blank`].
        patch: Box<ProjectPatch>,
    },
    /// It is to be exactly so, whether it is there or not.
    Declare {
        /// What is agreed; what is not said is as of [`Project::blank`].
        patch: Box<ProjectPatch>,
    },
    /// It is there, and something of it is to change.
    Edit {
        /// The version that the caller saw, to notice that somebody else was faster.
        version: Option<u64>,
        /// What is to change.
        patch: Box<ProjectPatch>,
    },
    /// It is to be there no more.
    Delete {
        /// The version that the caller saw.
        version: Option<u64>,
    },
}

/// Several changes that are made together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectsAsk {
    /// In any order.
    pub changes: Vec<ProjectChange>,
    /// Whether projects that are not named are to be deleted; `default` stays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prune: bool,
    /// All projects and their versions as the caller saw them; it is refused if one is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Vec<(ProjectName, u64)>>,
    /// Answer what would change, and change nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Changes to a project; what is `None` stays. Where there may be nothing, `Some(None)` removes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectPatch {
    /// See [`Project::parent`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<ProjectName>>,
    /// See [`Project::quotas`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<(ResourceKind, QuotaPatch)>,
    /// See [`Project::priority`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// See [`crate::project::MinRuntime::reclaim`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub min_runtime: Option<Option<Millis>>,
    /// See [`crate::MinRuntime::preempt`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub min_runtime_own: Option<Option<Millis>>,
    /// See [`crate::JobTerms::save_time_max`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub save_time_max: Option<Option<Millis>>,
    /// See [`Project::members`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub members: Option<Option<Members>>,
    /// See [`Project::admins`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admins: Option<BTreeSet<Arc<str>>>,
    /// See [`crate::project::JobTerms::default_time`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Option<Millis>>,
    /// See [`crate::project::JobTerms::longest_time`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub longest_time: Option<Option<Millis>>,
    /// See [`crate::project::JobTerms::preemptible`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// See [`crate::policy::Caps::pending_jobs`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub user_pending: Option<Option<u64>>,
    /// See [`crate::policy::Caps::running_jobs`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub user_running: Option<Option<u64>>,
    /// See [`crate::policy::Caps::gpus`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub user_gpus: Option<Option<MilliGpu>>,
}

/// Changes to the quota of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaPatch {
    /// See [`Quota::guaranteed`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<Option<Amount>>,
    /// See [`Quota::limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Amount>,
    /// See [`Quota::weight`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

impl ProjectPatch {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The project as it is to be; its version stays.
    #[must_use]
    pub fn applied_to(&self, before: &Project) -> Project {
        let mut new = before.clone();
        let this = self.clone();
        set(&mut new.parent, this.parent);
        for (kind, patch) in this.quotas {
            let quota = new.quotas.get(&kind).unwrap_or_default();
            let quota = Quota {
                guaranteed: patch.guaranteed.unwrap_or(quota.guaranteed),
                limit: patch.limit.unwrap_or(quota.limit),
                weight: patch.weight.unwrap_or(quota.weight),
            };
            new.quotas.agree(kind, quota);
        }
        set(&mut new.priority, this.priority);
        set(&mut new.min_runtime.reclaim, this.min_runtime);
        set(&mut new.min_runtime.preempt, this.min_runtime_own);
        set(&mut new.jobs.save_time_max, this.save_time_max);
        set(&mut new.members, this.members);
        set(&mut new.admins, this.admins);
        set(&mut new.jobs.default_time, this.default_time);
        set(&mut new.jobs.longest_time, this.longest_time);
        set(&mut new.jobs.preemptible, this.preemptible);
        set(&mut new.user_caps.pending_jobs, this.user_pending);
        set(&mut new.user_caps.running_jobs, this.user_running);
        set(&mut new.user_caps.gpus, this.user_gpus);
        new
    }

    /// A project of which only this is said.
    #[must_use]
    pub fn of_blank(&self, name: ProjectName, created_at: Timestamp) -> Project {
        self.applied_to(&Project { created_at, ..Project::blank(name) })
    }
}

/// One project before and after a change; `None` where it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectDifference {
    /// Which.
    pub name: ProjectName,
    /// What it was.
    pub before: Option<Project>,
    /// What it is, or would be.
    pub after: Option<Project>,
}

/// What became of changes to projects, or would become of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectsOutcome {
    /// Projects that are otherwise, by name.
    pub differences: Vec<ProjectDifference>,
    /// What is allowed and should be known, of all projects there are then.
    pub warnings: Vec<ProjectWarning>,
    /// All projects and their versions as they were before.
    pub seen: Vec<(ProjectName, Version)>,
    /// Whether it was done.
    pub done: bool,
}

/// What is allowed and should be known about projects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ProjectWarning {
    /// The children of a department are promised more than it is guaranteed itself.
    AboveParent {
        /// The department.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
        /// What they are promised together.
        promised: u64,
        /// What it is guaranteed.
        guaranteed: u64,
    },
    /// More is promised than there is.
    AboveCluster {
        /// Of what.
        kind: ResourceKind,
        /// What is promised in all.
        promised: u64,
        /// What there is.
        capacity: u64,
    },
    /// It is guaranteed more than it may ever hold.
    AboveOwnLimit {
        /// Which.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
        /// What it is guaranteed.
        guaranteed: u64,
        /// What it never exceeds.
        limit: u64,
    },
    /// It has a quota of a part of the GPUs, and there are none of that.
    NoSuchGpus {
        /// Which.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
    },
    /// It may keep whatever it holds, so what others are guaranteed may be late.
    NeverTakenBack {
        /// Which.
        project: ProjectName,
    },
    /// It holds more than it is guaranteed now; that is on loan.
    HoldsMore {
        /// Which.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
        /// What it holds.
        held: u64,
        /// What it is guaranteed.
        guaranteed: u64,
        /// What of it can't be taken back.
        for_good: u64,
    },
}

impl ProjectWarning {
    /// The project that it is about; `None` for one about all.
    #[must_use]
    pub fn project(&self) -> Option<&ProjectName> {
        match self {
            Self::AboveParent { project, .. }
            | Self::AboveOwnLimit { project, .. }
            | Self::NoSuchGpus { project, .. }
            | Self::NeverTakenBack { project }
            | Self::HoldsMore { project, .. } => Some(project),
            Self::AboveCluster { .. } => None,
        }
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Writes a value that may be set to nothing as a list of at most one thing.
mod twice {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde gives it so")]
    pub fn serialize<S: Serializer, T: Serialize>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|value| value.iter().collect::<Vec<_>>()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        let value = Option::<Vec<T>>::deserialize(deserializer)?;
        Ok(value.map(|value| value.into_iter().next()))
    }
}
