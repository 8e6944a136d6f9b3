//! From a written scenario to a case.

use std::collections::BTreeSet;

use serde_json::Number;
use thiserror::Error;

use super::case::{
    self, Case, DeviceMode, Devices, GpuAsk, Instances, MigAsk, Placement, Quota, Request, TaskSet,
    TaskState,
};
use super::file::{Config, Group, Job, Node, PodSet, Queue, Scenario, Task};

/// Now, in milliseconds: late enough for every age.
const NOW: i64 = 1_000_000_000_000;

/// How many devices a node has at most, and a task asks for.
const MOST_DEVICES: i64 = 10_000;

/// How many tasks anything has at most.
const MOST_TASKS: i64 = 1_000_000;

/// Upper limit for seconds and for megabytes of a device, far above real values.
const MOST: i64 = 1_000_000_000;

/// The largest amount of anything: 64 PiB, as everywhere.
const LARGEST: i64 = 1 << 56;

/// Why a scenario can't be played.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CaseError {
    /// A number is no number of the unit that it is in.
    #[error("{what}: {number} is not an amount")]
    Number {
        what: String,
        /// The value in the file.
        number: String,
    },
    /// A count is negative, or larger than any real one.
    #[error("{what}: {count} is not a count from 0 to {most}")]
    Count {
        what: String,
        /// The value in the file.
        count: i64,
        /// The most that is possible.
        most: i64,
    },
    /// Two things have one name.
    #[error("{what} {name:?} is given twice")]
    Twice {
        /// Their kind.
        what: &'static str,
        name: String,
    },
    /// A word is not known.
    #[error("{what}: {word:?} is unknown")]
    Word {
        what: String,
        /// The value in the file.
        word: String,
    },
}

/// Reads a scenario.
///
/// # Errors
/// What of it is not understood.
pub fn build(scenario: &Scenario) -> Result<Case, CaseError> {
    once("node", scenario.nodes.iter().map(|it| &it.name))?;
    once("queue", scenario.queues.iter().map(|it| &it.name))?;
    once("job", scenario.jobs.iter().map(|it| &it.name))?;
    let tasks = scenario.jobs.iter().flat_map(|job| &job.tasks);
    once("task", tasks.map(|it| &it.name))?;
    let is_partial = scenario.config.as_ref().is_some_and(switches_off);
    let mut case = Case { now: NOW, is_partial, ..Case::default() };
    for queue in &scenario.queues {
        case.projects.push(project(queue)?);
    }
    for it in &scenario.nodes {
        case.nodes.push(node(it)?);
    }
    for it in &scenario.jobs {
        case.jobs.push(job(it)?);
    }
    Ok(case)
}

/// Each name is there once.
fn once<'a>(what: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), CaseError> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(CaseError::Twice { what, name: name.clone() });
        }
    }
    Ok(())
}

/// Checks that a count is possible.
fn count(what: &str, count: i64, most: i64) -> Result<i64, CaseError> {
    if (0..=most).contains(&count) {
        Ok(count)
    } else {
        Err(CaseError::Count { what: what.to_owned(), count, most })
    }
}

/// Whether a configuration lacks a plugin that decides which jobs run.
fn switches_off(config: &Config) -> bool {
    const DECIDING: [&str; 4] = ["proportion", "priority", "elastic", "minruntime"];
    let Some(plugins) = &config.plugins else { return false };
    DECIDING.iter().any(|name| plugins.iter().all(|plugin| plugin.name != *name))
}

fn project(queue: &Queue) -> Result<case::Project, CaseError> {
    let nothing = Quota { guaranteed: Some(0), limit: Some(0), weight: 0 };
    let number = |it: &Option<Number>, scale| {
        it.as_ref().map(|it| scaled(&queue.name, it, scale)).transpose()
    };
    let quota = |guaranteed: &Option<Number>, limit: &Option<Number>, weight, scale| {
        Ok(Quota { guaranteed: number(guaranteed, scale)?, limit: number(limit, scale)?, weight })
    };
    let weight = number(&queue.over_quota_weight, 1000)?.unwrap_or(0);
    let (gpu, cpu, memory) = if queue.no_resources {
        (nothing, nothing, nothing)
    } else {
        (
            quota(&queue.deserved_gpus, &queue.limit_gpus, weight, 1000)?,
            quota(&queue.deserved_cpus_milli, &queue.limit_cpus_milli, 1000, 1)?,
            quota(&queue.deserved_memory_mb, &queue.limit_memory_mb, 1000, 1_000_000)?,
        )
    };
    Ok(case::Project {
        name: queue.name.clone(),
        parent: queue.parent.clone(),
        priority: queue.priority,
        gpu,
        cpu,
        memory,
    })
}

fn node(node: &Node) -> Result<case::Node, CaseError> {
    let mode = match node.mig_strategy.as_deref() {
        None => DeviceMode::Whole,
        Some("single") => DeviceMode::Single,
        Some("mixed") => {
            let instances = node.mig_instances.iter().map(|(name, &count)| {
                let (profile, charge) = profile(name)?;
                Ok(Instances { profile, count: self::count(name, count, MOST_DEVICES)?, charge })
            });
            DeviceMode::Mixed(instances.collect::<Result<_, CaseError>>()?)
        }
        Some(word) => return Err(unknown(&node.name, word)),
    };
    let memory = count(&node.name, node.gpu_memory_mb, MOST)? * 1_000_000;
    let devices = Devices {
        count: count(&node.name, node.gpus, MOST_DEVICES)?,
        memory: (!node.gpu_memory_unknown).then_some(memory),
        mode,
    };
    let none = devices.count == 0 && !matches!(devices.mode, DeviceMode::Mixed(_));
    Ok(case::Node {
        name: node.name.clone(),
        cpu: scaled(&node.name, &node.cpus, 1000)?,
        memory: scaled(&node.name, &node.memory_bytes, 1)?,
        slots: count(&node.name, node.max_pods, MOST_TASKS)?,
        devices: if none { Vec::new() } else { vec![devices] },
    })
}

fn job(job: &Job) -> Result<case::Job, CaseError> {
    let gang = match &job.sub_groups {
        Some(group) => parts(group)?,
        None => {
            let all = i64::try_from(job.tasks.len()).unwrap_or(MOST_TASKS);
            let min = count(&job.name, job.min_available.unwrap_or(all), MOST_TASKS)?;
            let sets = vec![TaskSet { name: String::new(), min }];
            case::Group { name: String::new(), sets, groups: Vec::new() }
        }
    };
    let age = job.age_minutes.as_ref().map(|age| scaled(&job.name, age, 60_000)).transpose()?;
    let mut tasks = Vec::new();
    for it in &job.tasks {
        tasks.push(task(job, it)?);
    }
    Ok(case::Job {
        name: job.name.clone(),
        project: job.queue.clone(),
        priority: job.priority,
        preemptible: job.preemptible,
        created: NOW - age.unwrap_or(0),
        gang,
        tasks,
    })
}

fn parts(group: &Group) -> Result<case::Group, CaseError> {
    let set = |set: &PodSet| {
        let min = count(&set.name, set.min, MOST_TASKS)?;
        Ok(TaskSet { name: set.name.clone(), min })
    };
    Ok(case::Group {
        name: group.name.clone(),
        sets: group.pod_sets.iter().map(set).collect::<Result<_, CaseError>>()?,
        groups: group.groups.iter().map(parts).collect::<Result<_, _>>()?,
    })
}

fn task(job: &Job, task: &Task) -> Result<case::Task, CaseError> {
    let state = state(task)?;
    let placement = match state {
        TaskState::Pending | TaskState::Gated | TaskState::Succeeded | TaskState::Failed => None,
        _ => task
            .node
            .as_ref()
            .map(|node| Placement { node: node.clone(), shared: task.gpu_groups.clone() }),
    };
    Ok(case::Task {
        name: task.name.clone(),
        set: task.pod_set.clone().filter(|_| job.sub_groups.is_some()).unwrap_or_default(),
        state,
        placement,
        request: request(job, task)?,
        names_nodes: task.allowed_nodes.is_some(),
    })
}

fn state(task: &Task) -> Result<TaskState, CaseError> {
    Ok(match task.state.as_str() {
        "Pending" => TaskState::Pending,
        "Gated" => TaskState::Gated,
        "Allocated" | "Binding" | "Bound" => TaskState::Bound,
        "Running" => TaskState::Running,
        "Pipelined" => TaskState::Pipelined,
        "Releasing" => TaskState::Releasing,
        "Succeeded" => TaskState::Succeeded,
        "Failed" | "Unknown" | "Deleted" => TaskState::Failed,
        word => return Err(unknown(&task.name, word)),
    })
}

fn request(job: &Job, task: &Task) -> Result<Request, CaseError> {
    if job.best_effort {
        return Ok(Request::default());
    }
    let or = |number: &Option<Number>, scale: i64, usual: i64| match number {
        Some(number) => scaled(&job.name, number, scale),
        None => Ok(usual),
    };
    Ok(Request {
        gpu: gpus(job, task)?,
        cpu: or(&job.cpus, 1000, 1000)?,
        memory: or(&job.memory_bytes, 1, 1_000_000_000)?,
    })
}

fn gpus(job: &Job, task: &Task) -> Result<GpuAsk, CaseError> {
    if task.legacy_mig {
        return Ok(GpuAsk::Unbooked);
    }
    if !task.mig.is_empty() {
        let asked = task.mig.iter().map(|(name, &count)| {
            let (profile, charge) = profile(name)?;
            Ok(MigAsk { profile, count: self::count(name, count, MOST_DEVICES)?, charge })
        });
        return Ok(GpuAsk::Mig(asked.collect::<Result<_, CaseError>>()?));
    }
    let devices = count(&job.name, job.fraction_devices.unwrap_or(1), MOST_DEVICES)?.max(1);
    if task.gpus.is_none()
        && let Some(memory) = &job.gpu_memory_mb
    {
        let bytes = scaled(&job.name, memory, 1_000_000)?;
        return Ok(GpuAsk::Memory { bytes, devices });
    }
    let milli = match task.gpus.as_ref().or(job.gpus.as_ref()) {
        Some(number) => scaled(&task.name, number, 1000)?,
        None => 0,
    };
    match milli {
        0 => Ok(GpuAsk::None),
        1..1000 => Ok(GpuAsk::Share { milli, devices }),
        _ if milli % 1000 == 0 => Ok(GpuAsk::Whole(count(&task.name, milli / 1000, MOST_DEVICES)?)),
        _ => Err(CaseError::Number { what: task.name.clone(), number: milli.to_string() }),
    }
}

/// `nvidia.com/mig-3g.40gb` is profile `3g.40gb` and counts as three GPUs.
fn profile(name: &str) -> Result<(String, i64), CaseError> {
    let profile = name.rsplit("mig-").next().unwrap_or(name);
    let slices = profile.split_once('g').and_then(|(slices, _)| slices.parse::<i64>().ok());
    match slices {
        Some(slices) => Ok((profile.to_owned(), count(name, slices, MOST_DEVICES)? * 1000)),
        None => Err(unknown("instances", name)),
    }
}

fn unknown(what: &str, word: &str) -> CaseError {
    CaseError::Word { what: what.to_owned(), word: word.to_owned() }
}

/// A decimal in so small parts, cut off where it is finer.
fn scaled(what: &str, number: &Number, scale: i64) -> Result<i64, CaseError> {
    let text = number.to_string();
    let amount = || {
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        if whole.starts_with('-') {
            return None;
        }
        let mut amount = whole.parse::<i64>().ok()?.checked_mul(scale)?;
        let mut unit = scale;
        for digit in part.chars() {
            unit /= 10;
            amount = amount.checked_add(unit.checked_mul(i64::from(digit.to_digit(10)?))?)?;
        }
        (amount <= LARGEST).then_some(amount)
    };
    amount().ok_or_else(|| CaseError::Number { what: what.to_owned(), number: text.clone() })
}
