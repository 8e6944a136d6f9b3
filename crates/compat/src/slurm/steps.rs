//! Steps of jobs as Slurm counts them. gpool measures jobs as a whole, so a job has a step with all
//! its usage: `batch`, or `0` if `srun` submitted it. An ended job also has the steps that `srun`
//! ran in it.

use std::borrow::Cow;

use gpool_cli::render::clock::{Clock, span};
use gpool_model::job::JobState;
use gpool_wire::{Job, JobStep, Time, Usage};

use super::cells::{self, SlurmJobRow};
use super::hostlist;
use super::times::{elapsed, long_time, time};
use super::tres::{self, Resources};

pub struct Step<'r> {
    /// The job; of a numbered step, with the times, the end and the usage of the step.
    pub job: Cow<'r, Job>,
    now: Time,
    clock: &'r Clock,
    /// Its number and the rest, if `srun` ran it in the job.
    of_srun: Option<&'r JobStep>,
}

/// The content of a field of a step.
pub type Cell = fn(&Step<'_>) -> Option<String>;

/// How a field of a step follows from the field of its job.
#[derive(Clone, Copy)]
pub enum OfStep {
    /// It is the field of the job in the same row of the table.
    Same,
    /// It is this field of the job.
    OfJob(cells::Cell),
    /// It is a field of its own.
    Own(Cell),
    Text(&'static str),
    Nothing,
}

impl OfStep {
    /// The text; `same` is the field of the job in the same row.
    #[must_use]
    pub fn text(self, step: &Step<'_>, same: cells::Cell) -> Option<String> {
        match self {
            Self::Same => same(&step.row()),
            Self::OfJob(cell) => cell(&step.row()),
            Self::Own(cell) => cell(step),
            Self::Text(text) => Some(text.to_owned()),
            Self::Nothing => None,
        }
    }
}

pub const BATCH: &str = "batch";

impl<'r> Step<'r> {
    /// The step of a job as a whole; `None` before its start.
    #[must_use]
    pub fn of(row: SlurmJobRow<'r>) -> Option<Self> {
        let SlurmJobRow { job, now, clock } = row;
        let has_started = job.run.started_at.is_some() && !job.placement.is_empty();
        has_started.then_some(Self { job: Cow::Borrowed(job), now, clock, of_srun: None })
    }

    /// All known steps of a job.
    #[must_use]
    pub fn all(row: &SlurmJobRow<'r>) -> Vec<Self> {
        let SlurmJobRow { job, now, clock } = *row;
        let whole = Self::of(*row);
        // The steps are all that ran in it.
        let whole = whole.filter(|step| job.run.steps.is_empty() || !step.has_no_script());
        let numbered = job.run.steps.iter().map(|step| Self {
            job: Cow::Owned(as_job(step, job)),
            now,
            clock,
            of_srun: Some(step),
        });
        whole.into_iter().chain(numbered).collect()
    }

    #[must_use]
    pub fn row(&self) -> SlurmJobRow<'_> {
        SlurmJobRow { job: &self.job, now: self.now, clock: self.clock }
    }

    /// The resources of the job on the nodes of the step. A batch step has one node.
    #[must_use]
    pub fn resources(&self) -> Resources {
        let of = match self.of_srun {
            Some(_) => Resources::allocated(&self.job),
            None => Resources::on_first_node(&self.job),
        };
        of.unwrap_or_default()
    }

    fn used(&self) -> Option<Usage> {
        self.job.usage.total
    }

    fn core_seconds(&self) -> u64 {
        elapsed(&self.job, self.now).unwrap_or(0).saturating_mul(self.resources().cpus)
    }

    /// Number of its processes.
    #[must_use]
    pub fn n_tasks(&self) -> u32 {
        self.of_srun.map_or(1, |step| step.n_tasks.max(1))
    }

    /// Whether `srun` or `salloc` submitted the job.
    fn has_no_script(&self) -> bool {
        self.job.request.script.is_none()
            && self.job.request.compat.iter().any(|other| other == "slurm")
    }

    /// `batch`, `0`
    fn part(&self) -> String {
        match self.of_srun {
            Some(step) => step.number.to_string(),
            None if self.has_no_script() => "0".to_owned(),
            None => BATCH.to_owned(),
        }
    }
}

/// A job that is like a step of it.
fn as_job(step: &JobStep, of: &Job) -> Job {
    let mut job = of.clone();
    job.run.started_at = Some(step.started_at);
    job.run.ended_at = Some(step.ended_at);
    job.run.signal = Some(step.exit_code.saturating_sub(128)).filter(|signal| *signal > 0);
    job.run.exit_code = Some(step.exit_code);
    job.state = match (step.exit_code, of.state) {
        (0, _) => JobState::Succeeded,
        (_, JobState::Cancelled | JobState::TimedOut) => JobState::Cancelled,
        _ => JobState::Failed,
    };
    job.usage.total = Some(step.usage);
    job.placement.retain(|placed| step.nodes.contains(&placed.node));
    job
}

/// A field that gpool does not have.
pub fn nothing(_: &Step<'_>) -> Option<String> {
    None
}

/// `12.batch`, `12_3.batch`
pub fn id(step: &Step<'_>) -> Option<String> {
    Some(format!("{}.{}", cells::id(&step.row())?, step.part()))
}

pub fn id_raw(step: &Step<'_>) -> Option<String> {
    Some(format!("{}.{}", cells::id_raw(&step.row())?, step.part()))
}

pub fn job_id(step: &Step<'_>) -> Option<String> {
    cells::id_raw(&step.row())
}

pub fn name(step: &Step<'_>) -> Option<String> {
    match step.of_srun {
        Some(own) => Some(own.name.clone()),
        None if step.has_no_script() => cells::name(&step.row()),
        None => Some(BATCH.to_owned()),
    }
}

pub fn state(step: &Step<'_>) -> Option<String> {
    cells::state_long(&step.row())
}

pub fn start(step: &Step<'_>) -> Option<String> {
    cells::start(&step.row())
}

pub fn time_used(step: &Step<'_>) -> Option<String> {
    Some(time(elapsed(&step.job, step.now).unwrap_or(0)))
}

pub fn nodes(step: &Step<'_>) -> Option<String> {
    Some(hostlist::compressed(&node_names(step)))
}

/// The names of its nodes; that of a whole job is the first.
pub fn node_names<'s>(step: &'s Step<'_>) -> Vec<&'s str> {
    let nodes = tres::nodes(&step.job);
    let n_nodes = if step.of_srun.is_some() { nodes.len() } else { nodes.len().min(1) };
    nodes[..n_nodes].to_vec()
}

pub fn n_nodes(step: &Step<'_>) -> Option<String> {
    Some(step.resources().nodes.to_string())
}

pub fn n_tasks(step: &Step<'_>) -> Option<String> {
    Some(step.n_tasks().to_string())
}

pub fn cpus(step: &Step<'_>) -> Option<String> {
    Some(step.resources().cpus.to_string())
}

/// Its resources; only the job is billed.
pub fn resources(step: &Step<'_>) -> Option<String> {
    let text = step.resources().text();
    let parts: Vec<&str> = text.split(',').filter(|it| !it.starts_with("billing=")).collect();
    Some(parts.join(","))
}

pub fn cpu_time(step: &Step<'_>) -> Option<String> {
    Some(long_time(step.core_seconds()))
}

pub fn cpu_time_raw(step: &Step<'_>) -> Option<String> {
    Some(step.core_seconds().to_string())
}

/// The mean CPU time of its tasks.
pub fn average_cpu(step: &Step<'_>) -> Option<String> {
    let used = step.used()?;
    Some(long_time(
        span(used.cpu_user_s + used.cpu_system_s).get() / 1000 / u64::from(step.n_tasks()),
    ))
}

/// The largest memory of a process.
pub fn memory(step: &Step<'_>) -> Option<String> {
    Some(format!("{}K", step.used()?.memory_peak >> 10))
}

/// The same, since it counts as one task.
pub fn average_memory(step: &Step<'_>) -> Option<String> {
    memory(step)
}

pub fn read(step: &Step<'_>) -> Option<String> {
    step.used()?.read_bytes.map(megabytes)
}

pub fn written_megabytes(step: &Step<'_>) -> Option<String> {
    step.used()?.written_bytes.map(megabytes)
}

/// The node of its only task, if the use is known.
pub fn only_node(step: &Step<'_>) -> Option<String> {
    step.used().and_then(|_| nodes(step))
}

/// The rank of its only task, if the use is known.
pub fn only_task(step: &Step<'_>) -> Option<String> {
    step.used().map(|_| "0".to_owned())
}

/// Its usage as trackable resources.
pub fn usage(step: &Step<'_>) -> Option<String> {
    let used = step.used()?;
    let mut parts = vec![format!("cpu={}", average_cpu(step)?), "energy=0".to_owned()];
    parts.extend(used.read_bytes.map(|bytes| format!("fs/disk={bytes}")));
    parts.push(format!("mem={}", memory(step)?));
    Some(parts.join(","))
}

/// Bytes in mebibytes with two digits: `0.09M`.
fn megabytes(bytes: u64) -> String {
    let hundredths = (u128::from(bytes) * 100) >> 20;
    format!("{}.{:02}M", hundredths / 100, hundredths % 100)
}
