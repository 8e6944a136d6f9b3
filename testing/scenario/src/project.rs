//! The lines with projects and quotas, read and written:
//! `project red  in lab  gpus 4  limit 8  weight 2  priority 1  cpus 64  mem-limit 512G`.

use std::fmt;
use std::str::FromStr as _;

use gpool_model::{
    Amount, Bytes, MilliGpu, PoolName, Project, ProjectName, Quota, Quotas, ResourceKind, Weight,
    parse,
};

use crate::amount::{bytes, span};
use crate::reader::{Reader, before};
use crate::situation::Situation;
use crate::words::{ScenarioError, Words};

impl Reader {
    /// Reads the words after `project`. Earlier projects are older.
    pub fn project(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let name = ProjectName::new(words.need("the name of the project")?);
        let mut gpus = Quota::default();
        let mut project = Project { quotas: Quotas::default(), ..Project::open(name) };
        while let Some(word) = words.next() {
            match word {
                "in" => project.parent = Some(ProjectName::new(words.need("a project")?)),
                "gpus" => gpus.guaranteed = Some(words.parse("a number of GPUs", amount)?),
                "limit" => gpus.limit = words.parse("a number of GPUs", amount)?,
                "gpus-of" | "gpus-in" => {
                    let kind = part(word, words)?;
                    let guaranteed = Some(words.parse("a number of GPUs", amount)?);
                    let quota = project.quotas.get(&kind).unwrap_or_default();
                    project.quotas.agree(kind, Quota { guaranteed, ..quota });
                }
                "limit-of" | "limit-in" => {
                    let kind = part(word, words)?;
                    let limit = words.parse("a number of GPUs", amount)?;
                    let quota = project.quotas.get(&kind).unwrap_or_default();
                    project.quotas.agree(kind, Quota { limit, ..quota });
                }
                "weight" => gpus.weight = words.parse("a weight", weight)?,
                "jobs" => {
                    let most = words.parse("a number of jobs", parse::count)?;
                    let limit = Amount::saturating_of(most);
                    project.quotas.set(ResourceKind::Tasks, Quota { limit, ..Quota::default() });
                }
                "cpus" | "cpus-limit" => {
                    let cores = words.parse("a number of cores", amount)?;
                    bound(&mut project.quotas, ResourceKind::Cpu, word, cores);
                }
                "mem" | "mem-limit" => {
                    let bytes = words.parse("an amount of memory", memory)?;
                    bound(&mut project.quotas, ResourceKind::Memory, word, bytes);
                }
                "priority" => project.priority = words.parse("a priority", i32::from_str)?,
                "user-running" => {
                    let most = words.parse("a number of jobs", parse::count)?;
                    project.user_caps.running_jobs = Some(most);
                }
                "user-gpus" => {
                    let most = words.parse("a number of GPUs", parse::cpus)?;
                    project.user_caps.gpus = Some(MilliGpu::new(most.get()));
                }
                "reclaim-after" => {
                    let span = words.parse("a length of time", parse::span)?;
                    project.min_runtime.reclaim = Some(span);
                }
                "preempt-after" => {
                    let span = words.parse("a length of time", parse::span)?;
                    project.min_runtime.preempt = Some(span);
                }
                word => {
                    let known = "in, gpus, limit, gpus-of, limit-of, gpus-in, limit-in, jobs, \
                         weight, cpus, cpus-limit, mem, mem-limit, priority, user-running, \
                         user-gpus, reclaim-after or preempt-after";
                    return Err(words.unknown(word, known));
                }
            }
        }
        project.quotas.set(ResourceKind::Gpu, gpus);
        let n_above = u64::try_from(self.situation.projects.len()).unwrap_or(u64::MAX);
        let age = gpool_model::Millis::from_hours(24 * 365);
        let oldest = before(self.situation.now, age);
        project.created_at = gpool_model::Timestamp::new(oldest.get().saturating_add(n_above));
        self.situation.projects.retain(|other| other.name != project.name);
        self.situation.projects.push(project);
        Ok(())
    }
}

/// Reads a resource flavor: a model, or a pool.
fn part(word: &str, words: &mut Words<'_>) -> Result<ResourceKind, ScenarioError> {
    Ok(match word.ends_with("-of") {
        true => ResourceKind::GpuModel(words.need("a model")?.to_ascii_lowercase()),
        false => ResourceKind::GpuPool(PoolName::new(words.need("a pool")?)),
    })
}

/// Parses `4`, `0.5` or `unlimited`.
fn amount(text: &str) -> Result<Amount, String> {
    match text {
        "unlimited" => Ok(Amount::UNLIMITED),
        _ => {
            let thousandths = parse::cpus(text).map_err(|error| error.to_string())?;
            Amount::of(thousandths.get()).ok_or_else(|| "it is too much".to_owned())
        }
    }
}

/// Parses `20G`, `0` or `unlimited`.
fn memory(text: &str) -> Result<Amount, String> {
    match text {
        "unlimited" => Ok(Amount::UNLIMITED),
        "0" => Ok(Amount::NOTHING),
        _ => {
            let bytes = parse::bytes(text).map_err(|error| error.to_string())?;
            Amount::of(bytes.get()).ok_or_else(|| "it is too much".to_owned())
        }
    }
}

/// Sets the limit or the guarantee of one kind.
fn bound(quotas: &mut Quotas, kind: ResourceKind, word: &str, amount: Amount) {
    let quota = quotas.get(&kind).unwrap_or_default();
    let quota = match word.ends_with("-limit") {
        true => Quota { limit: amount, ..quota },
        false => Quota { guaranteed: Some(amount), ..quota },
    };
    quotas.agree(kind, quota);
}

fn weight(text: &str) -> Result<Weight, String> {
    let thousandths = parse::cpus(text).map_err(|error| error.to_string())?;
    let thousandths = u32::try_from(thousandths.get()).ok();
    thousandths.and_then(Weight::from_thousandths).ok_or_else(|| "it is too much".to_owned())
}

/// A number of thousandths in the form that is read.
fn number(thousandths: u64) -> String {
    gpool_model::MilliCpu::new(thousandths).to_string()
}

fn amount_text(amount: Amount) -> String {
    amount.finite().map_or_else(|| "unlimited".to_owned(), number)
}

/// Writes the line of a project; nothing for a project with default settings.
pub(crate) fn project(f: &mut fmt::Formatter<'_>, project: &Project) -> fmt::Result {
    if *project == Project::open(project.name.clone()) {
        return Ok(());
    }
    write!(f, "project {}", project.name)?;
    if let Some(parent) = &project.parent {
        write!(f, "  in {parent}")?;
    }
    let quota = project.quotas.get(&ResourceKind::Gpu).unwrap_or_default();
    if let Some(guaranteed) = quota.guaranteed {
        write!(f, "  gpus {}", amount_text(guaranteed))?;
    }
    if !quota.limit.is_unlimited() {
        write!(f, "  limit {}", amount_text(quota.limit))?;
    }
    for (kind, quota) in project.quotas.iter() {
        let (of, part) = match kind {
            ResourceKind::GpuModel(model) => ("of", model.as_str()),
            ResourceKind::GpuPool(pool) => ("in", pool.as_str()),
            _ => continue,
        };
        if let Some(guaranteed) = quota.guaranteed {
            write!(f, "  gpus-{of} {part} {}", amount_text(guaranteed))?;
        }
        if !quota.limit.is_unlimited() {
            write!(f, "  limit-{of} {part} {}", amount_text(quota.limit))?;
        }
    }
    if quota.weight != Weight::ONE {
        write!(f, "  weight {}", number(quota.weight.thousandths().into()))?;
    }
    let jobs = project.quotas.get(&ResourceKind::Tasks).and_then(|quota| quota.limit.finite());
    if let Some(most) = jobs {
        write!(f, "  jobs {most}")?;
    }
    for (kind, word) in [(ResourceKind::Cpu, "cpus"), (ResourceKind::Memory, "mem")] {
        let said = |amount| match kind {
            ResourceKind::Memory => bytes(Bytes::new(amount)),
            _ => number(amount),
        };
        let quota = project.quotas.get(&kind).unwrap_or_default();
        let said = |it: Amount| it.finite().map_or_else(|| "unlimited".to_owned(), said);
        if let Some(guaranteed) = quota.guaranteed {
            write!(f, "  {word} {}", said(guaranteed))?;
        }
        if !quota.limit.is_unlimited() {
            write!(f, "  {word}-limit {}", said(quota.limit))?;
        }
    }
    if project.priority != 0 {
        write!(f, "  priority {}", project.priority)?;
    }
    if let Some(most) = project.user_caps.running_jobs {
        write!(f, "  user-running {most}")?;
    }
    if let Some(most) = project.user_caps.gpus {
        write!(f, "  user-gpus {}", number(most.get()))?;
    }
    if let Some(length) = project.min_runtime.reclaim {
        write!(f, "  reclaim-after {}", span(length))?;
    }
    if let Some(length) = project.min_runtime.preempt {
        write!(f, "  preempt-after {}", span(length))?;
    }
    writeln!(f)
}

impl Situation {
    /// Projects by age, so that reading them keeps the order.
    pub(crate) fn projects_by_age(&self) -> Vec<&Project> {
        let mut projects: Vec<&Project> = self.projects.iter().collect();
        projects.sort_by_key(|it| (it.created_at, &it.name));
        projects
    }
}
