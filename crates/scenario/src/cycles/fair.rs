//! A case of the quota scheduler as a situation of the scheduler that runs jobs, in its lines of
//! text, as far as that has what the case uses.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use gpool_sched::kai::{self, DeviceMode, GpuAsk, Settings, TaskState};

/// What a case uses that the scheduler does not have, or has otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A job of several tasks.
    Gang,
    /// A job of several kinds of tasks.
    Parts,
    /// Parts of devices that the driver cuts.
    Instances,
    /// A share of a device by its memory.
    MemoryShare,
    /// Nodes that a job names.
    NamedNodes,
    /// Tasks that are leaving, have ended or are promised a place when it begins.
    Midway,
    /// Other rules than usual.
    Switches,
    /// A quota of memory.
    MemoryQuota,
    /// Jobs that hold more than their nodes have.
    Overbooked,
    /// Amounts finer than a thousandth of a GPU, or names that can't be written.
    Unwritable,
}

impl Missing {
    /// In words, as the reason why it is not played.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Gang => "a job of several tasks",
            Self::Parts => "a job of several kinds of tasks",
            Self::Instances => "MIG instances",
            Self::MemoryShare => "a share by memory",
            Self::NamedNodes => "a job that names its nodes",
            Self::Midway => "tasks that leave, have ended or are promised a place at the beginning",
            Self::Switches => "rules that are switched off",
            Self::MemoryQuota => "a quota of memory",
            Self::Overbooked => "jobs that hold more than there is",
            Self::Unwritable => "an amount or a name that can't be written",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// The lines of a case.
///
/// # Errors
/// What it uses that there is not.
pub fn lines(situation: &kai::Situation, settings: &Settings) -> Result<String, Missing> {
    let usual = Settings::default();
    let switches = (settings.quotas, settings.job_priority, settings.elastic, settings.min_run);
    if switches != (usual.quotas, usual.job_priority, usual.elastic, usual.min_run) {
        return Err(Missing::Switches);
    }
    let mut text = String::new();
    for project in &situation.projects {
        text.push_str(&line_of_project(project)?);
    }
    for node in &situation.nodes {
        text.push_str(&line_of_node(node)?);
    }
    let mut places = Places::default();
    // Those that run come first: their devices are taken.
    let mut jobs: Vec<&kai::Job> = situation.jobs.iter().collect();
    jobs.sort_by_key(|job| (job.created, &job.name));
    for job in jobs {
        text.push_str(&line_of_job(situation, job, &mut places)?);
    }
    Ok(text)
}

fn name(name: &str) -> Result<&str, Missing> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = !name.is_empty() && name.chars().all(is_plain);
    if fits { Ok(name) } else { Err(Missing::Unwritable) }
}

/// Thousandths as they are read.
fn number(thousandths: i64) -> Result<String, Missing> {
    match u64::try_from(thousandths) {
        Ok(n) => Ok(gpool_model::MilliCpu::new(n).to_string()),
        Err(_) => Err(Missing::Unwritable),
    }
}

/// Bytes as they are read, in whole MiB.
fn memory(bytes: i64) -> Result<String, Missing> {
    let bytes = u64::try_from(bytes).map_err(|_| Missing::Unwritable)?;
    Ok(format!("{}M", bytes >> 20))
}

fn line_of_project(project: &kai::Project) -> Result<String, Missing> {
    let mut text = format!("project {}", name(&project.name)?);
    if let Some(parent) = &project.parent {
        let _ = write!(text, "  in {}", name(parent)?);
    }
    if project.memory.guaranteed.is_some() || project.memory.limit.is_some() {
        return Err(Missing::MemoryQuota);
    }
    if project.cpu.limit.is_some() {
        return Err(Missing::MemoryQuota);
    }
    let guaranteed = project.gpu.guaranteed.map_or(Ok("unlimited".to_owned()), number)?;
    let _ = write!(text, "  gpus {guaranteed}");
    if let Some(limit) = project.gpu.limit {
        let _ = write!(text, "  limit {}", number(limit)?);
    }
    let _ = write!(text, "  weight {}", number(project.gpu.weight)?);
    if let Some(cpus) = project.cpu.guaranteed {
        let _ = write!(text, "  cpus {}", number(cpus)?);
    }
    let _ = writeln!(text, "  priority {}", project.priority.clamp(-1000, 1000));
    Ok(text)
}

fn line_of_node(node: &kai::Node) -> Result<String, Missing> {
    let mut text = format!("node {}", name(&node.name)?);
    for devices in &node.devices {
        if devices.mode != DeviceMode::Whole {
            return Err(Missing::Instances);
        }
        let _ = write!(text, "  {} x gpu@80G", devices.count);
    }
    let _ = write!(text, "  cpus {}  mem {}", number(node.cpu)?, memory(node.memory)?);
    let _ = writeln!(text, "  tasks {}", node.slots.clamp(0, 100_000));
    Ok(text)
}

/// Which devices of each node are taken: by whom they are shared, where they are.
#[derive(Default)]
struct Places {
    taken: BTreeMap<String, Vec<Option<String>>>,
}

impl Places {
    /// Devices for a task that runs there: whole ones, or the shared one of a name.
    fn take(&mut self, node: &kai::Node, ask: &GpuAsk, shared: &[String]) -> Option<Vec<usize>> {
        let n_devices = node.devices.iter().map(|devices| devices.count).sum::<i64>();
        let n_devices = usize::try_from(n_devices).ok()?;
        let taken = self.taken.entry(node.name.clone()).or_default();
        let wanted: Vec<Option<String>> = match ask {
            GpuAsk::Whole(count) => vec![None; usize::try_from(*count).ok()?],
            GpuAsk::Share { devices, .. } => {
                let names = shared.iter().cloned().map(Some);
                let rest = (0..).map(|nth: u32| Some(format!("unnamed {nth}")));
                names.chain(rest).take(usize::try_from(*devices).ok()?).collect()
            }
            _ => Vec::new(),
        };
        let mut places = Vec::new();
        for wanted in wanted {
            let known = wanted.is_some().then(|| taken.iter().position(|it| *it == wanted));
            let place = match known.flatten() {
                Some(place) => place,
                None => {
                    taken.push(Some(wanted.unwrap_or_else(|| format!("whole {}", taken.len()))));
                    taken.len() - 1
                }
            };
            places.push(place);
        }
        (taken.len() <= n_devices).then_some(places)
    }
}

fn gpus(ask: &GpuAsk) -> Result<String, Missing> {
    match ask {
        GpuAsk::None => Ok("0".to_owned()),
        GpuAsk::Whole(count) => Ok(count.to_string()),
        GpuAsk::Share { milli, devices: 1 } => number(*milli),
        GpuAsk::Share { milli, devices } => Ok(format!("{devices}@{}", number(*milli)?)),
        GpuAsk::Memory { .. } => Err(Missing::MemoryShare),
        GpuAsk::Mig(_) | GpuAsk::Unbooked => Err(Missing::Instances),
    }
}

fn line_of_job(
    situation: &kai::Situation,
    job: &kai::Job,
    places: &mut Places,
) -> Result<String, Missing> {
    if !job.gang.groups.is_empty() || job.gang.sets.len() > 1 {
        return Err(Missing::Parts);
    }
    let [task] = &job.tasks[..] else { return Err(Missing::Gang) };
    if task.site.is_some() {
        return Err(Missing::NamedNodes);
    }
    let state = match task.state {
        TaskState::Pending => "pending".to_owned(),
        TaskState::Running | TaskState::Bound => {
            let placement = task.placement.as_ref().ok_or(Missing::Midway)?;
            let node = situation.nodes.iter().find(|node| node.name == placement.node);
            let node = node.ok_or(Missing::Overbooked)?;
            let devices = places.take(node, &task.request.gpu, &placement.shared);
            let devices = devices.ok_or(Missing::Overbooked)?;
            let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
            let on =
                if devices.is_empty() { String::new() } else { format!("[{}]", devices.join(",")) };
            format!("running {}{on} 60s", name(&node.name)?)
        }
        _ => return Err(Missing::Midway),
    };
    // As old as its place among the others says: ages of equal jobs are equal there.
    let age = situation.now.saturating_sub(job.created).max(0) / 1000;
    let mut text = format!("job {}  {}  {state}", name(&job.name)?, gpus(&task.request.gpu)?);
    if task.state == TaskState::Pending {
        let _ = write!(text, " {age}s");
    }
    let _ = write!(text, "  project {}", name(&job.project)?);
    if job.priority != 0 {
        let _ = write!(text, "  priority {}", job.priority.clamp(-1000, 1000));
    }
    if job.preemptible {
        text.push_str("  preemptible");
    }
    if task.request.cpu > 0 {
        let _ = write!(text, "  cpus {}", number(task.request.cpu)?);
    }
    if task.request.memory > 0 {
        let _ = write!(text, "  mem {}", memory(task.request.memory)?);
    }
    text.push('\n');
    Ok(text)
}
