//! Requests to create and change projects: reads and checks amounts as users write them.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::escape::repeated;
use gpool_model::project::Members;
use gpool_model::unit::{Bytes, MilliCpu, MilliGpu};
use gpool_model::{
    ProjectChange, ProjectChangeHow, ProjectName, ProjectPatch, ProjectsAsk, QuotaPatch, Refusal,
    ResourceKind, Weight, parse,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::check::{self, invalid};
use crate::project_amount::{is_word, quota};
use crate::project_parts::{self, Parts};

/// Maximum number of users, groups or admins of one project.
const NAMES_MAX: usize = 10_000;

/// Settings of a project, to create or change it. Omitted fields keep their values. An amount is a
/// number, or text: `4`, `"0.5"`, `"20G"`, `"unlimited"`, `"none"`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"name": "vision", "gpus": 4, "limit": 8, "members": ["ana", "@lab"]}))]
pub struct ProjectSettings {
    /// Name of the project. Required to create one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Parent project; `"none"` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Guaranteed GPUs: a number, `"unlimited"`, or `"none"` to unset the guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Quantity>,
    /// Maximum GPUs: a number, or `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Quantity>,
    /// Guaranteed GPUs by model: `{"h100": 4}`; `"none"` removes an entry.
    #[serde(skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub gpus_of: Parts,
    /// Maximum GPUs by model.
    #[serde(skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub limit_of: Parts,
    /// Guaranteed GPUs by pool.
    #[serde(skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub gpus_in: Parts,
    /// Maximum GPUs by pool.
    #[serde(skip_serializing_if = "Parts::is_empty")]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    pub limit_in: Parts,
    /// Weight: share of the GPUs without a guarantee, relative to other projects; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Quantity>,
    /// Guaranteed CPU cores. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Quantity>,
    /// Maximum CPU cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_limit: Option<Quantity>,
    /// Guaranteed memory. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem: Option<Quantity>,
    /// Maximum memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_limit: Option<Quantity>,
    /// Maximum number of running jobs, counting each task: a number, or `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_limit: Option<Quantity>,
    /// Priority among sibling projects. Higher goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Minimum run time before other projects can reclaim a job: seconds, or text (`"30m"`,
    /// `"none"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_runtime: Option<Quantity>,
    /// Minimum run time before a job of the same project with a higher priority can preempt a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_runtime_own: Option<Quantity>,
    /// Maximum time that a victim gets to save its state and end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_time_max: Option<Quantity>,
    /// Users, and groups as `@group`, that may submit jobs to the project. `["all"]` allows all
    /// members of the parent project, or all users if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// Users, and groups as `@group`, that may manage its jobs and the projects below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admins: Option<Vec<String>>,
    /// Time limit of jobs that request none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_default: Option<Quantity>,
    /// Maximum time limit of jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_max: Option<Quantity>,
    /// Whether jobs are preemptible by default, and so can use more than the guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// Maximum number of waiting jobs per user: a number, or `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_pending: Option<Quantity>,
    /// Maximum number of jobs with allocations per user, in the project and all projects below it:
    /// a number, or `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_running: Option<Quantity>,
    /// Maximum GPUs per user, in the project and all projects below it: a number, or `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_gpus: Option<Quantity>,
    /// If true, returns the changes without applying them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The wanted settings of projects. The server applies all changes or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"projects": {"vision": {"gpus": 4}, "nlp": {"gpus": 4, "limit": 6}}}))]
pub struct ProjectSet {
    /// Settings by project name. Omitted settings get their defaults.
    pub projects: BTreeMap<String, ProjectSettings>,
    /// If true, deletes projects that are not listed, except `default`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prune: bool,
    /// If true, returns the changes without applying them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Versions of the projects from `seen` of a dry run. The server refuses the request if one has
    /// changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<BTreeMap<String, u64>>,
}

impl ProjectSettings {
    /// Returns the change that creates the project.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn create(&self) -> Result<ProjectChange, Refusal> {
        let name = self.name.as_deref();
        let name = name.ok_or_else(|| invalid("name", "give the project a name: vision"))?;
        let how = ProjectChangeHow::Create { patch: Box::new(self.patch()?) };
        Ok(ProjectChange { name: named("name", name)?, how })
    }

    /// Returns the change to an existing project.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn edit(&self, name: &str, version: Option<u64>) -> Result<ProjectChange, Refusal> {
        if self.name.as_deref().is_some_and(|new| new != name) {
            return Err(invalid(
                "name",
                "the name of a project can't change, because jobs are charged to it",
            ));
        }
        let how = ProjectChangeHow::Edit { version, patch: Box::new(self.patch()?) };
        Ok(ProjectChange { name: ProjectName::new(name), how })
    }

    /// Returns the settings, each checked separately.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn patch(&self) -> Result<ProjectPatch, Refusal> {
        let length = |field: &str, written: &Option<Quantity>| -> Result<_, Refusal> {
            let Some(written) = written else { return Ok(None) };
            if is_word(written, "none") {
                return Ok(Some(None));
            }
            let length = check::span(field, written)?;
            Ok(Some(Some(length).filter(|length| !length.is_zero())))
        };
        let mut quotas = Vec::new();
        let weight = self.weight.as_ref().map(weight).transpose()?;
        let gpus = quota(("gpus", &self.gpus), ("limit", &self.limit), |text| {
            parse::gpus(text).map(MilliGpu::get)
        })?;
        quotas.push((ResourceKind::Gpu, QuotaPatch { weight, ..gpus }));
        let cpus = |text: &str| parse::cpus(text).map(MilliCpu::get);
        let cpus = quota(("cpus", &self.cpus), ("cpus_limit", &self.cpus_limit), cpus)?;
        quotas.push((ResourceKind::Cpu, cpus));
        let mem = |text: &str| parse::bytes(text).map(Bytes::get);
        let mem = quota(("mem", &self.mem), ("mem_limit", &self.mem_limit), mem)?;
        quotas.push((ResourceKind::Memory, mem));
        let jobs = quota(("jobs", &None), ("jobs_limit", &self.jobs_limit), parse::count)?;
        quotas.push((ResourceKind::Tasks, jobs));
        quotas.extend(project_parts::patches([
            ("gpus_of", &self.gpus_of, false),
            ("limit_of", &self.limit_of, true),
            ("gpus_in", &self.gpus_in, false),
            ("limit_in", &self.limit_in, true),
        ])?);
        quotas.retain(|(_, patch)| *patch != QuotaPatch::default());
        let parent = match self.parent.as_deref() {
            None => None,
            Some("" | "none") => Some(None),
            Some(name) => Some(Some(named("parent", name)?)),
        };
        if self.priority.is_some_and(|priority| !(-1000..=1000).contains(&priority)) {
            return Err(invalid("priority", "a priority is from -1000 to 1000"));
        }
        let admins = self.admins.as_deref().map(|words| users_and_groups("admins", words));
        let (admins, admin_groups) = admins.transpose()?.map(|it| (it.users, it.groups)).unzip();
        Ok(ProjectPatch {
            parent,
            quotas,
            priority: self.priority,
            min_runtime: length("min_runtime", &self.min_runtime)?,
            min_runtime_own: length("min_runtime_own", &self.min_runtime_own)?,
            save_time_max: length("save_time_max", &self.save_time_max)?,
            members: self.members.as_deref().map(members).transpose()?,
            admins,
            admin_groups,
            default_time: length("time_default", &self.time_default)?,
            longest_time: length("time_max", &self.time_max)?,
            preemptible: self.preemptible,
            user_pending: count("user_pending", &self.user_pending)?,
            user_running: count("user_running", &self.user_running)?,
            user_gpus: cap("user_gpus", &self.user_gpus)?,
        })
    }
}

impl ProjectSet {
    /// Returns the changes to all projects.
    ///
    /// # Errors
    /// The first invalid field, with its project.
    pub fn ask(&self) -> Result<ProjectsAsk, Refusal> {
        let change = |(key, settings): (&String, &ProjectSettings)| {
            // Check the name first, so that the error can include it.
            let name = named("projects", key)?;
            let of = |refusal: Refusal| match refusal {
                Refusal::Invalid { field, why } => {
                    Refusal::Invalid { field: format!("projects.{name}.{field}"), why }
                }
                other => other,
            };
            if settings.dry_run || settings.name.as_ref().is_some_and(|it| it != key) {
                let why = "it is not allowed here: the name is the key, and dry_run belongs to the \
                           whole request";
                return Err(of(invalid("name", why)));
            }
            let patch = Box::new(settings.patch().map_err(of)?);
            let how = ProjectChangeHow::Declare { patch };
            Ok(ProjectChange { name, how })
        };
        let version = |(name, version): (&String, &u64)| Ok((named("seen", name)?, *version));
        let seen = self.seen.as_ref().map(|all| all.iter().map(version).collect());
        Ok(ProjectsAsk {
            changes: self.projects.iter().map(change).collect::<Result<_, _>>()?,
            prune: self.prune,
            seen: seen.transpose()?,
            dry_run: self.dry_run,
        })
    }
}

fn named(field: &str, name: &str) -> Result<ProjectName, Refusal> {
    check::project(Some(name)).map_err(|refusal| match refusal {
        Refusal::Invalid { why, .. } => invalid(field, &why),
        other => other,
    })
}

fn weight(written: &Quantity) -> Result<gpool_model::Weight, Refusal> {
    let weight = Weight::parse(written.to_string().trim());
    weight.map_err(|error| invalid("weight", &error.to_string()))
}

fn count(field: &str, written: &Option<Quantity>) -> Result<Option<Option<u64>>, Refusal> {
    let Some(written) = written else { return Ok(None) };
    if is_word(written, "none") {
        return Ok(Some(None));
    }
    let read = written.to_string().trim().parse();
    let why = || format!("{:?} is not a number of jobs; write 100, or none", written.to_string());
    read.map(|n| Some(Some(n))).map_err(|_| invalid(field, &why()))
}

fn cap(field: &str, written: &Option<Quantity>) -> Result<Option<Option<MilliGpu>>, Refusal> {
    let Some(written) = written else { return Ok(None) };
    if is_word(written, "none") {
        return Ok(Some(None));
    }
    let gpus = parse::gpus(written.to_string().trim());
    gpus.map(|gpus| Some(Some(gpus))).map_err(|error| invalid(field, &format!("{error}, or none")))
}

fn members(words: &[String]) -> Result<Option<Members>, Refusal> {
    if matches!(words, [word] if word == "all") {
        return Ok(None);
    }
    users_and_groups("members", words).map(Some)
}

fn users_and_groups(field: &str, words: &[String]) -> Result<Members, Refusal> {
    if words.len() > NAMES_MAX {
        return Err(invalid(field, &format!("it has more than the maximum of {NAMES_MAX} names")));
    }
    for word in words {
        let name = word.strip_prefix('@').unwrap_or(word);
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == ',' || c == '@';
        if name.is_empty() || name.len() > 255 || name.contains(is_odd) {
            let why = format!("{:?} is not a user name; write ana, or @group", repeated(word));
            return Err(invalid(field, &why));
        }
    }
    let (groups, users) = words.iter().partition::<Vec<_>, _>(|word| word.starts_with('@'));
    let groups = groups.into_iter().map(|word| Arc::from(word.trim_start_matches('@')));
    let users = users.into_iter().map(|word| Arc::from(word.as_str()));
    Ok(Members { users: users.collect(), groups: groups.collect() })
}
