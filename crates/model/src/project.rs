//! Projects, which jobs are charged to: a tree of any depth. Only the leaves take jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ProjectName, Version};
use crate::policy::Caps;
use crate::quota::{Amount, Quota, Quotas};
use crate::resource::ResourceKind;
use crate::unit::{Millis, Timestamp};

/// A project: the unit that jobs are charged to, with its quotas and rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its name, unique in the cluster.
    pub name: ProjectName,
    /// The department that it belongs to; `None` at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ProjectName>,
    /// Its quota of each kind of resource.
    // A record from before quotas existed has none: the project was unlimited.
    #[serde(default = "no_quotas")]
    pub quotas: Quotas,
    /// Projects with a higher priority go first among their siblings, and take all they can of the
    /// capacity without a guarantee before lower ones get any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// The minimum run time of its jobs before they can be evicted.
    #[serde(default, skip_serializing_if = "MinRuntime::is_none")]
    pub min_runtime: MinRuntime,
    /// Users that may submit to it; `None` means the members of the project above, and every user
    /// at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
    /// Users that may act on its jobs and change projects below it, in addition to the server's
    /// admins.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub admins: BTreeSet<Arc<str>>,
    /// Groups with the same rights, by name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub admin_groups: BTreeSet<Arc<str>>,
    /// Rules for its jobs.
    #[serde(default, skip_serializing_if = "JobTerms::is_none")]
    pub jobs: JobTerms,
    /// Caps of each user in it and all projects below, in addition to the policy's; the cap on
    /// waiting jobs counts this project alone.
    #[serde(default, skip_serializing_if = "Caps::is_none")]
    pub user_caps: Caps,
    /// When it was created: among equals, the older project goes first.
    #[serde(default)]
    pub created_at: Timestamp,
    /// Grows with each change.
    #[serde(default = "first_version")]
    pub version: Version,
}

impl Project {
    /// A top project with unlimited guarantees: its jobs are never reclaimed.
    #[must_use]
    pub fn open(name: ProjectName) -> Self {
        Self {
            name,
            parent: None,
            quotas: no_quotas(),
            priority: 0,
            min_runtime: MinRuntime::default(),
            members: None,
            admins: BTreeSet::new(),
            admin_groups: BTreeSet::new(),
            jobs: JobTerms::default(),
            user_caps: Caps::default(),
            created_at: Timestamp::ZERO,
            version: first_version(),
        }
    }

    /// A top project without quotas: everything that it uses is on loan.
    #[must_use]
    pub fn blank(name: ProjectName) -> Self {
        Self { quotas: Quotas::default(), ..Self::open(name) }
    }

    /// The groups that it names: others decide nothing here.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.iter().flat_map(|it| &it.groups).chain(&self.admin_groups)
    }

    /// The quota of one kind, with defaults filled in. GPUs without a quota (by model, by pool or
    /// in all) have no guarantee; other resources are guaranteed without limit. A project with an
    /// unlimited guarantee of all GPUs has one of each kind. GPUs of one model or pool are shared
    /// by the weight of all GPUs.
    #[must_use]
    pub fn quota(&self, kind: &ResourceKind) -> Quota {
        let quota = self.quotas.get(kind).unwrap_or_default();
        let of_all = self.quotas.get(&ResourceKind::Gpu).unwrap_or_default();
        match kind {
            ResourceKind::Gpu => {
                Quota { guaranteed: quota.guaranteed.or(self.guaranteed_in_parts()), ..quota }
            }
            ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => {
                let all = of_all.guaranteed.filter(|it| it.is_unlimited());
                let guaranteed = quota.guaranteed.or(all);
                Quota { guaranteed, weight: of_all.weight, ..quota }
            }
            _ => Quota { guaranteed: quota.guaranteed.or(Some(Amount::UNLIMITED)), ..quota },
        }
    }

    /// The sum of its guarantees by model, or by pool if that is more; `None` if it has neither.
    fn guaranteed_in_parts(&self) -> Option<Amount> {
        let sum = |is_of: fn(&ResourceKind) -> bool| {
            let of = self.quotas.iter().filter(|(kind, _)| is_of(kind));
            of.filter_map(|(_, quota)| quota.guaranteed).reduce(Amount::plus)
        };
        let by_model = sum(|kind| matches!(kind, ResourceKind::GpuModel(_)));
        by_model.max(sum(|kind| matches!(kind, ResourceKind::GpuPool(_))))
    }

    /// Whether it has no limits and its jobs are never reclaimed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.quotas == no_quotas()
    }
}

/// Unlimited guarantees: no other project may reclaim the devices of such a project.
fn no_quotas() -> Quotas {
    let mut quotas = Quotas::default();
    let unlimited = Quota { guaranteed: Some(Amount::UNLIMITED), ..Quota::default() };
    quotas.set(ResourceKind::Gpu, unlimited);
    quotas
}

fn first_version() -> Version {
    Version(1)
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// The minimum run time of a project's jobs before an eviction; `None` takes the value of the
/// project above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MinRuntime {
    /// Before other projects reclaim their devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Millis>,
    /// Before jobs of the same project with a higher priority preempt them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt: Option<Millis>,
}

impl MinRuntime {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The members of a project; they may submit to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Members {
    /// Users by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub users: BTreeSet<Arc<str>>,
    /// Groups of the operating system by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<Arc<str>>,
}

/// Rules for the jobs of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobTerms {
    /// The time limit of jobs that request none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Millis>,
    /// The longest time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_time: Option<Millis>,
    /// The longest time that its jobs get to save and end when they are evicted; the shortest value
    /// of the project, the projects above it and the policy applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_time_max: Option<Millis>,
    /// Whether jobs are preemptible by default, and so may borrow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
}

impl JobTerms {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
