//! Changes to projects, and their outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ProjectName, Version};
use crate::project::{Members, Project};
use crate::quota::{Amount, Quota, Weight};
use crate::resource::ResourceKind;
use crate::unit::{MilliGpu, Millis, Timestamp};

/// A change to one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectChange {
    /// The name.
    pub name: ProjectName,
    /// The kind of change.
    pub how: ProjectChangeHow,
}

/// The kind of change to a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProjectChangeHow {
    /// Create the project.
    Create {
        /// Its properties; the defaults are those of [`Project::blank`].
        patch: Box<ProjectPatch>,
    },
    /// Create the project or replace all its properties.
    Declare {
        /// Its properties; the defaults are those of [`Project::blank`].
        patch: Box<ProjectPatch>,
    },
    /// Change some properties of the project.
    Edit {
        /// The version that the caller saw, to detect concurrent changes.
        version: Option<u64>,
        /// The changes.
        patch: Box<ProjectPatch>,
    },
    /// Delete the project.
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
    /// Whether projects without a change are deleted; `default` stays.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prune: bool,
    /// All projects and their versions as the caller saw them; the request fails if any has
    /// changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Vec<(ProjectName, u64)>>,
    /// Answer with the result and change nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Changes to a project; a field with `None` stays. `Some(None)` removes an optional value.
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
    /// See [`Project::admin_groups`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_groups: Option<BTreeSet<Arc<str>>>,
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

    /// The project after the change; its version stays.
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
        set(&mut new.admin_groups, this.admin_groups);
        set(&mut new.jobs.default_time, this.default_time);
        set(&mut new.jobs.longest_time, this.longest_time);
        set(&mut new.jobs.preemptible, this.preemptible);
        set(&mut new.user_caps.pending_jobs, this.user_pending);
        set(&mut new.user_caps.running_jobs, this.user_running);
        set(&mut new.user_caps.gpus, this.user_gpus);
        new
    }

    /// A new project with only these properties.
    #[must_use]
    pub fn of_blank(&self, name: ProjectName, created_at: Timestamp) -> Project {
        self.applied_to(&Project { created_at, ..Project::blank(name) })
    }
}

/// One project before and after a change; `None` where it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectDifference {
    /// The name.
    pub name: ProjectName,
    /// The project before the change.
    pub before: Option<Project>,
    /// The project after the change, real or dry run.
    pub after: Option<Project>,
}

/// The result of changes to projects, real or dry run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectsOutcome {
    /// Changed projects, by name.
    pub differences: Vec<ProjectDifference>,
    /// Warnings about all projects after the change.
    pub warnings: Vec<ProjectWarning>,
    /// All projects and their versions as they were before.
    pub base_versions: Vec<(ProjectName, Version)>,
    /// Whether the changes were made.
    pub done: bool,
}

/// A quota that is allowed but probably a mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProjectWarning {
    /// The guarantees of a department's children exceed its own.
    AboveParent {
        /// The department.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The sum of the children's guarantees.
        promised: u64,
        /// The department's guarantee.
        guaranteed: u64,
    },
    /// The guarantees exceed the capacity.
    AboveCluster {
        /// The kind of resource.
        kind: ResourceKind,
        /// The sum of all guarantees.
        promised: u64,
        /// The capacity.
        capacity: u64,
    },
    /// The guarantee of a project exceeds its limit.
    AboveOwnLimit {
        /// The project.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The guarantee.
        guaranteed: u64,
        /// The limit.
        limit: u64,
    },
    /// The project has a quota of GPUs by model or pool, and the cluster has no such GPUs.
    NoSuchGpus {
        /// The project.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
    },
    /// The project's jobs are never reclaimed, so other projects may have to wait for their
    /// guarantees.
    NeverTakenBack {
        /// The project.
        project: ProjectName,
    },
    /// A reduced guarantee is below the project's present use; the rest is on loan.
    HoldsMore {
        /// The project.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The amount in use.
        held: u64,
        /// The guarantee.
        guaranteed: u64,
        /// The part in use by jobs that are not preemptible.
        for_good: u64,
    },
}

impl ProjectWarning {
    /// The project that it concerns; `None` if it concerns all.
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

/// Serializes an optional value of a patch as a list of at most one item.
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
