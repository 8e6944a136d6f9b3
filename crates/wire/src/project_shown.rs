//! Projects as they are shown, and what becomes of changes to them.

use std::collections::BTreeMap;

use gpool_model::project::Members;
use gpool_model::quota::{Amount, Quota};
use gpool_model::unit::{Bytes, MilliCpu, Millis};
use gpool_model::{ProjectName, ResourceKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::project_amount::in_thousandths;
use crate::project_parts::{Agreed, Parts};
use crate::time::Time;

/// A project as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// What it is called.
    pub name: String,
    /// The project above it.
    pub parent: Option<String>,
    /// Those below it; it takes jobs only if there are none.
    pub children: Vec<String>,
    /// GPUs that it is guaranteed: a number, `"unlimited"`, or `null` where nothing is said, which
    /// is 0 for one that takes jobs, and for a department what is below it.
    pub gpus: Option<Written>,
    /// GPUs that it never exceeds; `null` for no limit.
    pub limit: Option<Written>,
    /// GPUs of one model that it is guaranteed, by model: `{"h100": 4}`.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Written>)]
    pub gpus_of: Parts,
    /// GPUs of one model that it never exceeds, by model.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Written>)]
    pub limit_of: Parts,
    /// GPUs in one pool that it is guaranteed, by pool.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Written>)]
    pub gpus_in: Parts,
    /// GPUs in one pool that it never exceeds, by pool.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Written>)]
    pub limit_in: Parts,
    /// Its part of the GPUs that nobody claims by right.
    pub weight: f64,
    /// CPU cores that it is guaranteed; `null` for as many as there are.
    pub cpus: Option<Written>,
    /// CPU cores that it never exceeds.
    pub cpus_limit: Option<Written>,
    /// Bytes of memory that it is guaranteed; `null` for as much as there is.
    pub mem: Option<Written>,
    /// Bytes of memory that it never exceeds.
    pub mem_limit: Option<Written>,
    /// How many of its jobs run at once, each task of one counted; `null` for no limit.
    pub jobs_limit: Option<u64>,
    /// Higher goes first among its siblings.
    pub priority: i32,
    /// Seconds for which what was started is not taken back; `null` asks the project above.
    pub min_runtime_s: Option<f64>,
    /// The same for jobs of its own that have a higher priority.
    pub min_runtime_own_s: Option<f64>,
    /// Seconds that its jobs have at most to save and to end when they are taken back; `null` where
    /// only the projects above and the policy limit that.
    pub save_time_max_s: Option<f64>,
    /// Who may submit to it; `null` for whoever may to the project above, or everybody.
    pub members: Option<Vec<String>>,
    /// Users that may act on its jobs and change what is below it.
    pub admins: Vec<String>,
    /// Seconds: the time limit of jobs that ask for none.
    pub time_default_s: Option<f64>,
    /// Seconds: the longest time limit.
    pub time_max_s: Option<f64>,
    /// Whether jobs that do not say may be taken back.
    pub preemptible: bool,
    /// How many jobs of one user may wait in it.
    pub user_pending: Option<u64>,
    /// How many jobs of one user may hold something at once, in it and all below it.
    pub user_running: Option<u64>,
    /// How many GPUs one user may hold at once, in it and all below it.
    pub user_gpus: Option<f64>,
    /// Jobs that have not ended, an array as one.
    pub n_jobs: u64,
    /// GPUs that it and all below it hold.
    pub gpus_held: f64,
    /// When it was made; `null` for one that was always there.
    pub created_at: Option<Time>,
    /// Grows with each change; the ETag.
    pub version: u64,
    /// What should be known of it.
    pub warnings: Vec<String>,
}

/// What is shown of a project beside itself.
#[derive(Debug, Clone, Default)]
pub struct ProjectFacts {
    /// Those below it.
    pub children: Vec<ProjectName>,
    /// Jobs that have not ended.
    pub n_jobs: u64,
    /// Thousandths of GPUs that are held.
    pub held: u64,
    /// What should be known.
    pub warnings: Vec<gpool_model::ProjectWarning>,
}

impl Project {
    /// What is shown of a project.
    #[must_use]
    pub fn new(it: &gpool_model::Project, facts: &ProjectFacts) -> Self {
        let quota = |kind| it.quotas.get(&kind).unwrap_or_default();
        let [gpu, cpu, mem] =
            [ResourceKind::Gpu, ResourceKind::Cpu, ResourceKind::Memory].map(quota);
        let seconds = |length: Option<Millis>| length.map(crate::time::seconds);
        let milli = |amount| in_thousandths(amount);
        let bytes = |amount: Amount| match amount.finite() {
            Some(bytes) => Written::Whole(bytes),
            None => Written::from("unlimited"),
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
            weight: crate::node::cores(u64::from(gpu.weight.thousandths())),
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
            admins: it.admins.iter().map(ToString::to_string).collect(),
            time_default_s: seconds(it.jobs.default_time),
            time_max_s: seconds(it.jobs.longest_time),
            preemptible: it.jobs.preemptible,
            user_pending: it.user_caps.pending_jobs,
            user_running: it.user_caps.running_jobs,
            user_gpus: it.user_caps.gpus.map(|gpus| crate::node::cores(gpus.get())),
            n_jobs: facts.n_jobs,
            gpus_held: crate::node::cores(facts.held),
            created_at: (made != gpool_model::Timestamp::ZERO).then_some(Time(made)),
            version: it.version.0,
            warnings: facts.warnings.iter().map(crate::project_words::warning).collect(),
        }
    }
}

pub(crate) fn member_words(members: &Members) -> Vec<String> {
    let users = members.users.iter().map(ToString::to_string);
    users.chain(members.groups.iter().map(|group| format!("@{group}"))).collect()
}

/// What became of changes to projects, or would become of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectsAnswer {
    /// Projects that are otherwise, by name.
    pub changes: Vec<ProjectChanged>,
    /// What is allowed and should be known, of all projects.
    pub warnings: Vec<String>,
    /// All projects and their versions as they were before.
    pub seen: BTreeMap<String, u64>,
    /// Whether it was done.
    pub done: bool,
}

/// One project that is otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectChanged {
    /// Which.
    pub project: String,
    /// `created`, `changed` or `deleted`.
    pub what: String,
    /// The version that it has then; `null` for a deleted one.
    pub version: Option<u64>,
    /// Settings that are otherwise, as users write them.
    pub settings: Vec<SettingChanged>,
}

/// One setting that is otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChanged {
    /// Which, as in a request.
    pub setting: String,
    /// What it was; `null` where there was no project.
    pub before: Option<String>,
    /// What it is; `null` where there is none any more.
    pub after: Option<String>,
}

impl From<&gpool_model::ProjectsOutcome> for ProjectsAnswer {
    fn from(outcome: &gpool_model::ProjectsOutcome) -> Self {
        Self {
            changes: outcome.differences.iter().map(changed).collect(),
            warnings: outcome.warnings.iter().map(crate::project_words::warning).collect(),
            seen: outcome.seen.iter().map(|(name, it)| (name.to_string(), it.0)).collect(),
            done: outcome.done,
        }
    }
}

fn changed(it: &gpool_model::ProjectDifference) -> ProjectChanged {
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

/// Every setting as a user would write it.
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
        ("admins", list(it.admins.iter().map(ToString::to_string).collect())),
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

#[cfg(test)]
mod tests {
    use gpool_model::{ProjectPatch, QuotaPatch};

    use super::*;

    #[test]
    fn a_difference_names_settings_as_they_are_written() {
        let before = gpool_model::Project::open(ProjectName::new("default"));
        let gpus = QuotaPatch { guaranteed: Some(Amount::of(2000)), ..QuotaPatch::default() };
        let quotas = vec![(ResourceKind::Gpu, gpus)];
        let after = ProjectPatch { quotas, ..ProjectPatch::default() }.applied_to(&before);
        let it = changed(&gpool_model::ProjectDifference {
            name: before.name.clone(),
            before: Some(before),
            after: Some(after),
        });
        assert_eq!(it.what, "changed");
        let [change] = &it.settings[..] else { panic!("one is otherwise: {it:?}") };
        assert_eq!(change.setting, "gpus");
        assert_eq!(change.before.as_deref(), Some("unlimited"));
        assert_eq!(change.after.as_deref(), Some("2"));
    }
}
