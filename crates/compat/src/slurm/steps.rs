//! Steps of jobs as Slurm counts them. gpool measures jobs as a whole, so a job has one step with
//! all its usage: `batch`.

use gpool_cli::render::clock::span;
use gpool_wire::Usage;

use super::cells::{self, Row};
use super::hostlist;
use super::times::{elapsed, long_time, time};
use super::tres::{self, Resources};

/// The step of a started job.
pub struct Step<'r> {
    /// The row of the job.
    pub row: Row<'r>,
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
    /// It is this text.
    Text(&'static str),
    /// It has no value.
    Nothing,
}

impl OfStep {
    /// The text; `same` is the field of the job in the same row.
    #[must_use]
    pub fn text(self, step: &Step<'_>, same: cells::Cell) -> Option<String> {
        match self {
            Self::Same => same(&step.row),
            Self::OfJob(cell) => cell(&step.row),
            Self::Own(cell) => cell(step),
            Self::Text(text) => Some(text.to_owned()),
            Self::Nothing => None,
        }
    }
}

/// The name of the step.
pub const BATCH: &str = "batch";

impl<'r> Step<'r> {
    /// The step of a job; `None` before its start.
    #[must_use]
    pub fn of(row: Row<'r>) -> Option<Self> {
        let job = row.job;
        (job.started_at.is_some() && !job.placement.is_empty()).then_some(Self { row })
    }

    /// Its resources: those of the job on the first node.
    #[must_use]
    pub fn resources(&self) -> Resources {
        Resources::on_first_node(self.row.job).unwrap_or_default()
    }

    fn used(&self) -> Option<Usage> {
        self.row.job.usage
    }

    fn core_seconds(&self) -> u64 {
        elapsed(self.row.job, self.row.now).unwrap_or(0).saturating_mul(self.resources().cpus)
    }
}

/// A field that gpool does not have.
pub fn nothing(_: &Step<'_>) -> Option<String> {
    None
}

/// `12.batch`, `12_3.batch`
pub fn id(step: &Step<'_>) -> Option<String> {
    Some(format!("{}.{BATCH}", cells::id(&step.row)?))
}

pub fn id_raw(step: &Step<'_>) -> Option<String> {
    Some(format!("{}.{BATCH}", cells::id_raw(&step.row)?))
}

pub fn job_id(step: &Step<'_>) -> Option<String> {
    cells::id_raw(&step.row)
}

pub fn name(_: &Step<'_>) -> Option<String> {
    Some(BATCH.to_owned())
}

pub fn state(step: &Step<'_>) -> Option<String> {
    cells::state_long(&step.row)
}

pub fn start(step: &Step<'_>) -> Option<String> {
    cells::start(&step.row)
}

pub fn time_used(step: &Step<'_>) -> Option<String> {
    Some(time(elapsed(step.row.job, step.row.now).unwrap_or(0)))
}

pub fn nodes(step: &Step<'_>) -> Option<String> {
    let nodes = tres::nodes(step.row.job);
    Some(hostlist::compressed(&nodes[..nodes.len().min(1)]))
}

pub fn n_nodes(step: &Step<'_>) -> Option<String> {
    Some(step.resources().nodes.to_string())
}

pub fn n_tasks(_: &Step<'_>) -> Option<String> {
    Some("1".to_owned())
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

/// The CPU time of its only task.
pub fn average_cpu(step: &Step<'_>) -> Option<String> {
    let used = step.used()?;
    Some(long_time(span(used.cpu_user_s + used.cpu_system_s).get() / 1000))
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
