//! Who is charged for jobs: projects, a tree of any depth of which only the leaves take jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ProjectName, Version};
use crate::policy::Caps;
use crate::quota::{Amount, Quota, Quotas};
use crate::resource::ResourceKind;
use crate::unit::{Millis, Timestamp};

/// Who is charged for jobs, and what was agreed with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its name, unique in the cluster.
    pub name: ProjectName,
    /// The department that it belongs to; `None` at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ProjectName>,
    /// What it is promised and forbidden of each kind.
    // A store from before there were quotas has projects without: they had none.
    #[serde(default = "no_quotas")]
    pub quotas: Quotas,
    /// Higher goes first among its siblings, and takes all it can of what is left over before
    /// lower sees any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// For how long work that was started is not taken back.
    #[serde(default, skip_serializing_if = "MinRuntime::is_none")]
    pub min_runtime: MinRuntime,
    /// Who may submit to it; `None` is whoever may to the project above, and everybody at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
    /// Who may act on its jobs and change what is below it, beside admins.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub admins: BTreeSet<Arc<str>>,
    /// What holds for its jobs.
    #[serde(default, skip_serializing_if = "JobTerms::is_none")]
    pub jobs: JobTerms,
    /// How much each user may have at once in it and all below it, beside what the policy says;
    /// how many jobs may wait, in it alone.
    #[serde(default, skip_serializing_if = "Caps::is_none")]
    pub user_caps: Caps,
    /// When it was made: the older goes first among equals.
    #[serde(default)]
    pub created_at: Timestamp,
    /// Grows with each change.
    #[serde(default = "first_version")]
    pub version: Version,
}

impl Project {
    /// A top project with everything unlimited: what it holds is never taken back.
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
            jobs: JobTerms::default(),
            user_caps: Caps::default(),
            created_at: Timestamp::ZERO,
            version: first_version(),
        }
    }

    /// A top project about which nothing is said: what it holds beyond nothing is on loan.
    #[must_use]
    pub fn blank(name: ProjectName) -> Self {
        Self { quotas: Quotas::default(), ..Self::open(name) }
    }

    /// What was agreed about one kind, absences filled in: of GPUs nothing is guaranteed that is
    /// not written, by model, by pool or at all; of all else as much as there is. To whom all GPUs
    /// are guaranteed, all of each kind are. Parts of the GPUs are shared by the weight of all.
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

    /// What it is guaranteed by model together, or by pool if that is more; `None` if nothing is.
    fn guaranteed_in_parts(&self) -> Option<Amount> {
        let sum = |is_of: fn(&ResourceKind) -> bool| {
            let of = self.quotas.iter().filter(|(kind, _)| is_of(kind));
            of.filter_map(|(_, quota)| quota.guaranteed).reduce(Amount::plus)
        };
        let by_model = sum(|kind| matches!(kind, ResourceKind::GpuModel(_)));
        by_model.max(sum(|kind| matches!(kind, ResourceKind::GpuPool(_))))
    }

    /// Whether nothing limits it and nothing of it can be taken back.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.quotas == no_quotas()
    }
}

/// Everything unlimited: nobody else may take back what such a project holds.
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

/// For how long work of a project is safe after it was started; `None` asks the project above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MinRuntime {
    /// From other projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Millis>,
    /// From jobs of its own that have a higher priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt: Option<Millis>,
}

impl MinRuntime {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Who may submit to a project.
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

/// What holds for the jobs of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobTerms {
    /// The time limit of jobs that ask for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Millis>,
    /// The longest time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_time: Option<Millis>,
    /// How long its jobs have at most to save and to end when they are taken back; the least of a
    /// project, those above it and the policy holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_time_max: Option<Millis>,
    /// Whether jobs that say nothing may be taken back, and so may borrow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
}

impl JobTerms {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
