//! Projects, and results of changes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::project::Members;
use gpool_model::quota::{Amount, Quota};
use gpool_model::unit::{Bytes, MilliCpu, Millis};
use gpool_model::{ProjectName, ResourceKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::project_amount::in_thousandths;
use crate::project_parts::{Agreed, Parts};
use crate::time::Time;

/// A project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// Name of the project.
    pub name: String,
    /// Parent project.
    pub parent: Option<String>,
    /// Projects below it. Only projects without children take jobs.
    pub children: Vec<String>,
    /// Guaranteed GPUs: a number, `"unlimited"`, or `null` if not set. Not set means 0 for a
    /// project that takes jobs, and the sum of its children for a department.
    pub gpus: Option<Quantity>,
    /// Maximum GPUs. `null` for no limit.
    pub limit: Option<Quantity>,
    /// Guaranteed GPUs by model: `{"h100": 4}`.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub gpus_of: Parts,
    /// Maximum GPUs by model.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub limit_of: Parts,
    /// Guaranteed GPUs by pool.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub gpus_in: Parts,
    /// Maximum GPUs by pool.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub limit_in: Parts,
    /// Weight: share of the GPUs without a guarantee, relative to other projects.
    pub weight: f64,
    /// Guaranteed CPU cores. `null` for all.
    pub cpus: Option<Quantity>,
    /// Maximum CPU cores.
    pub cpus_limit: Option<Quantity>,
    /// Guaranteed memory in bytes. `null` for all.
    pub mem: Option<Quantity>,
    /// Maximum memory in bytes.
    pub mem_limit: Option<Quantity>,
    /// Maximum number of running jobs, counting each task. `null` for no limit.
    pub jobs_limit: Option<u64>,
    /// Priority among sibling projects. Higher goes first.
    pub priority: i32,
    /// Minimum run time before other projects can reclaim a job, in seconds. `null` inherits it
    /// from the parent project.
    pub min_runtime_s: Option<f64>,
    /// Minimum run time before a job of the same project with a higher priority can preempt a job,
    /// in seconds.
    pub min_runtime_own_s: Option<f64>,
    /// Maximum time that a victim gets to save its state and end, in seconds. `null` if only the
    /// projects above and the policy limit it.
    pub save_time_max_s: Option<f64>,
    /// Users and groups that may submit jobs to the project. `null` allows all members of the
    /// parent project, or all users if there is none.
    pub members: Option<Vec<String>>,
    /// Users and groups that may manage its jobs and the projects below it.
    pub admins: Vec<String>,
    /// Time limit of jobs that request none, in seconds.
    pub time_default_s: Option<f64>,
    /// Maximum time limit of jobs, in seconds.
    pub time_max_s: Option<f64>,
    /// Whether jobs are preemptible by default.
    pub preemptible: bool,
    /// Maximum number of waiting jobs per user.
    pub user_pending: Option<u64>,
    /// Maximum number of jobs with allocations per user, in the project and all projects below it.
    pub user_running: Option<u64>,
    /// Maximum GPUs per user, in the project and all projects below it.
    pub user_gpus: Option<f64>,
    /// Number of jobs that have not ended. An array counts as one job.
    pub n_jobs: u64,
    /// GPUs allocated to the project and all projects below it.
    pub gpus_held: f64,
    /// Time of creation. `null` for the built-in project.
    pub created_at: Option<Time>,
    /// Version of the project: grows with each change. Same as the ETag.
    pub version: u64,
    /// Warnings about the project.
    pub warnings: Vec<String>,
}

/// Facts about a project that are not in its record.
#[derive(Debug, Clone, Default)]
pub struct ProjectFacts {
    /// Projects below it.
    pub children: Vec<ProjectName>,
    /// Number of jobs that have not ended.
    pub n_jobs: u64,
    /// Allocated thousandths of GPUs.
    pub held: u64,
    /// Warnings about the project.
    pub warnings: Vec<gpool_model::ProjectWarning>,
}

impl Project {
    /// Returns a project for the API.
    #[must_use]
    pub fn new(it: &gpool_model::Project, facts: &ProjectFacts) -> Self {
        let quota = |kind| it.quotas.get(&kind).unwrap_or_default();
        let [gpu, cpu, mem] =
            [ResourceKind::Gpu, ResourceKind::Cpu, ResourceKind::Memory].map(quota);
        let seconds = |length: Option<Millis>| length.map(crate::time::seconds);
        let milli = |amount| in_thousandths(amount);
        let bytes = |amount: Amount| match amount.finite() {
            Some(bytes) => Quantity::Whole(bytes),
            None => Quantity::from("unlimited"),
        };
        let limit = |amount: Amount| (!amount.is_unlimited()).then_some(amount);
        let made = it.created_at;
        let Agreed { gpus_of, limit_of, gpus_in, limit_in } = Agreed::with(it);
        Self {
            gpus_of,
            limit_of,
            gpus_in,
            limit_in,
            name: it.name.to_string(),
            parent: it.parent.as_ref().map(ToString::to_string),
            children: facts.children.iter().map(ToString::to_string).collect(),
            gpus: gpu.guaranteed.map(milli),
            limit: limit(gpu.limit).map(milli),
            weight: gpool_texts::words::cores(u64::from(gpu.weight.thousandths())),
            cpus: cpu.guaranteed.map(milli),
            cpus_limit: limit(cpu.limit).map(milli),
            mem: mem.guaranteed.map(bytes),
            mem_limit: limit(mem.limit).map(bytes),
            jobs_limit: quota(ResourceKind::Tasks).limit.finite(),
            priority: it.priority,
            min_runtime_s: seconds(it.min_runtime.reclaim),
            min_runtime_own_s: seconds(it.min_runtime.preempt),
            save_time_max_s: seconds(it.jobs.save_time_max),
            members: it.members.as_ref().map(member_words),
            admins: words(&it.admins, &it.admin_groups),
            time_default_s: seconds(it.jobs.default_time),
            time_max_s: seconds(it.jobs.longest_time),
            preemptible: it.jobs.preemptible,
            user_pending: it.user_caps.pending_jobs,
            user_running: it.user_caps.running_jobs,
            user_gpus: it.user_caps.gpus.map(|gpus| gpool_texts::words::cores(gpus.get())),
            n_jobs: facts.n_jobs,
            gpus_held: gpool_texts::words::cores(facts.held),
            created_at: (made != gpool_model::Timestamp::ZERO).then_some(Time(made)),
            version: it.version.0,
            warnings: facts.warnings.iter().map(crate::project_words::warning).collect(),
        }
    }
}

/// The members as users write them.
#[must_use]
pub fn member_words(members: &Members) -> Vec<String> {
    words(&members.users, &members.groups)
}

fn words(users: &BTreeSet<Arc<str>>, groups: &BTreeSet<Arc<str>>) -> Vec<String> {
    let users = users.iter().map(ToString::to_string);
    users.chain(groups.iter().map(|group| format!("@{group}"))).collect()
}

/// The result of changes to projects, or of a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectsAnswer {
    /// Changed projects, by name.
    pub changes: Vec<ProjectChanged>,
    /// Warnings about all projects.
    pub warnings: Vec<String>,
    /// Versions of all projects before the change.
    pub seen: BTreeMap<String, u64>,
    /// Whether the changes were applied.
    pub done: bool,
}

/// A changed project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectChanged {
    /// Name of the project.
    pub project: String,
    /// `created`, `changed` or `deleted`.
    pub what: String,
    /// Version after the change. `null` for a deleted project.
    pub version: Option<u64>,
    /// Changed settings, as users write them.
    pub settings: Vec<SettingChanged>,
}

/// A changed setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChanged {
    /// Name of the setting, as in a request.
    pub setting: String,
    /// Value before the change. `null` if the project did not exist.
    pub before: Option<String>,
    /// Value after the change. `null` if the project no longer exists.
    pub after: Option<String>,
}

impl From<&gpool_model::ProjectsOutcome> for ProjectsAnswer {
    fn from(outcome: &gpool_model::ProjectsOutcome) -> Self {
        Self {
            changes: outcome.differences.iter().map(changed).collect(),
            warnings: outcome.warnings.iter().map(crate::project_words::warning).collect(),
            seen: outcome.base_versions.iter().map(|(name, it)| (name.to_string(), it.0)).collect(),
            done: outcome.done,
        }
    }
}

/// A changed project as the API shows it.
#[must_use]
pub fn changed(it: &gpool_model::ProjectDifference) -> ProjectChanged {
    let blank = gpool_model::Project::blank(it.name.clone());
    let before = settings(it.before.as_ref().unwrap_or(&blank));
    let after = settings(it.after.as_ref().unwrap_or(&blank));
    let both = before.into_iter().zip(after).filter(|(before, after)| before != after);
    let what = match (&it.before, &it.after) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "changed",
    };
    ProjectChanged {
        project: it.name.to_string(),
        what: what.to_owned(),
        version: it.after.as_ref().map(|it| it.version.0),
        settings: both
            .map(|((setting, before), (_, after))| SettingChanged {
                setting: setting.to_owned(),
                before: it.before.as_ref().map(|_| before),
                after: it.after.as_ref().map(|_| after),
            })
            .collect(),
    }
}

/// Formats every setting as a user would write it.
fn settings(it: &gpool_model::Project) -> Vec<(&'static str, String)> {
    let quota = |kind| it.quotas.get(&kind).unwrap_or_default();
    let [gpu, cpu, mem]: [Quota; 3] =
        [ResourceKind::Gpu, ResourceKind::Cpu, ResourceKind::Memory].map(quota);
    let none = || "none".to_owned();
    let milli = |amount: Amount| in_thousandths(amount).to_string();
    let bytes = |amount: Amount| match amount.finite() {
        Some(bytes) => Bytes::new(bytes).to_string(),
        None => "unlimited".to_owned(),
    };
    let limit = |amount: Amount, words: String| if amount.is_unlimited() { none() } else { words };
    let length = |length: Option<Millis>| length.map_or_else(none, |it| it.to_string());
    let list = |names: Vec<String>| names.join(", ");
    let mut settings = vec![
        ("parent", it.parent.as_ref().map_or_else(none, ToString::to_string)),
        ("gpus", gpu.guaranteed.map_or_else(none, milli)),
        ("limit", limit(gpu.limit, milli(gpu.limit))),
        ("weight", MilliCpu::new(u64::from(gpu.weight.thousandths())).to_string()),
        ("cpus", cpu.guaranteed.map_or_else(none, milli)),
        ("cpus_limit", limit(cpu.limit, milli(cpu.limit))),
        ("mem", mem.guaranteed.map_or_else(none, bytes)),
        ("mem_limit", limit(mem.limit, bytes(mem.limit))),
        (
            "jobs_limit",
            quota(ResourceKind::Tasks).limit.finite().map_or_else(none, |most| most.to_string()),
        ),
        ("priority", it.priority.to_string()),
        ("min_runtime", length(it.min_runtime.reclaim)),
        ("min_runtime_own", length(it.min_runtime.preempt)),
        ("save_time_max", length(it.jobs.save_time_max)),
        (
            "members",
            it.members.as_ref().map_or_else(|| "all".to_owned(), |it| list(member_words(it))),
        ),
        ("admins", list(words(&it.admins, &it.admin_groups))),
        ("time_default", length(it.jobs.default_time)),
        ("time_max", length(it.jobs.longest_time)),
        ("preemptible", it.jobs.preemptible.to_string()),
        ("user_pending", it.user_caps.pending_jobs.map_or_else(none, |n| n.to_string())),
        ("user_running", it.user_caps.running_jobs.map_or_else(none, |n| n.to_string())),
        (
            "user_gpus",
            it.user_caps.gpus.map_or_else(none, |gpus| MilliCpu::new(gpus.get()).to_string()),
        ),
    ];
    settings.splice(3..3, Agreed::with(it).settings());
    settings
}
