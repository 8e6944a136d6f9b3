//! The requested and allocated resources of a job: totals over its nodes and tasks, and their text
//! as Slurm's trackable resources, `cpu=2,mem=4G,node=1,billing=2,gres/gpu=2`.
//!
//! A task of gpool holds resources; with a launcher, it runs several of Slurm's tasks.

use std::collections::BTreeSet;

use gpool_cli::render::clock::span;
use gpool_model::{GpuRequest, JobPart};
use gpool_wire::{Job, PlacedOn};

use super::arrays::ranges;

/// Resources of a job, of a step or of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    pub cpus: u64,
    /// Memory in bytes; `None` if none is reserved.
    pub memory: Option<u64>,
    pub nodes: u64,
    pub gpus: u64,
    /// The requested GPU model.
    pub model: Option<String>,
}

impl Resources {
    /// The resources that a job requests.
    #[must_use]
    pub fn requested(job: &Job) -> Self {
        let nodes = job.gang.as_ref().map_or(1, |gang| match gang.anywhere {
            true => 1,
            false => u64::from(gang.nodes),
        });
        let (gpus, model) = gpus_of_task(job);
        let n_places = n_places(job);
        Self {
            nodes: nodes.max(1),
            gpus: match job.request.parts.is_empty() {
                true => gpus.saturating_mul(n_places),
                false => job.request.parts.iter().map(|part| gpus_of_part(part)).sum(),
            },
            ..of_places(job, n_places, model)
        }
    }

    /// The resources that a job holds or held; `None` before its start.
    #[must_use]
    pub fn allocated(job: &Job) -> Option<Self> {
        Self::of_placed(job, &job.placement.iter().collect::<Vec<_>>())
    }

    /// The resources of a job on its first node, where its script runs.
    #[must_use]
    pub fn on_first_node(job: &Job) -> Option<Self> {
        let first = &job.placement.first()?.node;
        let placed = job.placement.iter().filter(|placed| placed.node == *first);
        Self::of_placed(job, &placed.collect::<Vec<_>>())
    }

    /// The resources of some tasks of a job; `None` for no task.
    #[must_use]
    pub fn of_placed(job: &Job, placed: &[&PlacedOn]) -> Option<Self> {
        let n_places = u64::try_from(placed.len()).ok().filter(|n| *n > 0)?;
        let nodes: BTreeSet<&str> = placed.iter().map(|placed| placed.node.as_str()).collect();
        let gpus: usize = placed.iter().map(|placed| placed.devices.len()).sum();
        Some(Self {
            nodes: u64::try_from(nodes.len()).unwrap_or(u64::MAX),
            gpus: u64::try_from(gpus).unwrap_or(u64::MAX),
            ..of_places(job, n_places, gpus_of_task(job).1)
        })
    }

    /// The allocated resources, or the requested ones before the start.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self::allocated(job).unwrap_or_else(|| Self::requested(job))
    }

    /// The amounts by the names of Slurm, without zeros.
    #[must_use]
    pub fn amounts(&self) -> Vec<(String, u64)> {
        let memory = self.memory.map(|memory| ("mem".to_owned(), memory));
        let mut all = vec![("cpu".to_owned(), self.cpus)];
        all.extend(memory);
        all.push(("node".to_owned(), self.nodes));
        all.push(("billing".to_owned(), self.cpus));
        if self.gpus > 0 {
            all.push(("gres/gpu".to_owned(), self.gpus));
            all.extend(self.model.as_ref().map(|model| (format!("gres/gpu:{model}"), self.gpus)));
        }
        all
    }

    #[must_use]
    pub fn text(&self) -> String {
        let one = |(name, amount): (String, u64)| match name.as_str() {
            "mem" => format!("mem={}", mebibytes(amount)),
            _ => format!("{name}={amount}"),
        };
        self.amounts().into_iter().map(one).collect::<Vec<_>>().join(",")
    }
}

/// Cores, memory and model of some tasks of gpool.
fn of_places(job: &Job, n_places: u64, model: Option<String>) -> Resources {
    // Without reserved cores, Slurm counts one for each task.
    let cpus = match job.request.cpu_cores() {
        Some(cpus) => n_places.saturating_mul(whole(cpus)),
        None => n_places.saturating_mul(n_tasks(job).div_ceil(self::n_places(job))),
    };
    let memory = job.request.mem_bytes().filter(|memory| *memory > 0);
    let memory = memory.map(|memory| memory.saturating_mul(n_places));
    Resources { cpus: cpus.max(1), memory, model, ..Resources::default() }
}

/// The number of gpool's tasks that a job requests.
#[must_use]
pub fn n_places(job: &Job) -> u64 {
    let gang = job.gang.as_ref();
    gang.map_or(1, |gang| u64::from(gang.nodes) * u64::from(gang.tasks_per_node)).max(1)
}

/// The number of Slurm's tasks: the processes that `srun` starts by default.
#[must_use]
pub fn n_tasks(job: &Job) -> u64 {
    let launcher = job.gang.as_ref().and_then(|gang| gang.launcher).map(u64::from);
    launcher.filter(|n| *n > 0).unwrap_or_else(|| n_places(job))
}

/// The number of cores for each of Slurm's tasks.
#[must_use]
pub fn cpus_per_task(job: &Job) -> u64 {
    (Resources::requested(job).cpus / n_tasks(job)).max(1)
}

/// The number of gpool's tasks on each node.
#[must_use]
pub fn places_per_node(job: &Job) -> u64 {
    n_places(job).div_ceil(Resources::requested(job).nodes)
}

/// The nodes that a job uses or used, each once.
#[must_use]
pub fn nodes(job: &Job) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let names = job.placement.iter().map(|placed| placed.node.as_str());
    names.filter(|name| seen.insert(*name)).collect()
}

/// The GPUs of each task, and their model if the request names one.
fn gpus_of_task(job: &Job) -> (u64, Option<String>) {
    let Ok(request) = GpuRequest::parse(job.request.gpus_text()) else { return (0, None) };
    let model = match request.models.as_slice() {
        [only] => Some(gres_type(only.as_str().trim_start_matches('='))),
        _ => None,
    };
    (u64::from(request.n_devices()), model)
}

/// The GPUs of all tasks of one part.
fn gpus_of_part(part: &str) -> u64 {
    let n_devices = |it: JobPart| u64::from(it.gpus.n_devices()) * u64::from(it.gang.n_tasks());
    JobPart::parse(part).map_or(0, n_devices)
}

/// The name of a GPU model as a type of Slurm: `h100_80g`. Clients read letters, digits and `_`,
/// and `--gres` accepts it.
#[must_use]
pub fn gres_type(model: &str) -> String {
    model.to_ascii_lowercase().replace('-', "_")
}

/// The requested GPUs of each node as Slurm writes them: `gres/gpu:h100:2`. `None` without GPUs.
#[must_use]
pub fn gpus_per_node(job: &Job) -> Option<String> {
    let (gpus, model) = gpus_of_task(job);
    let gpus = gpus.saturating_mul(places_per_node(job));
    let model = model.map(|model| format!(":{model}")).unwrap_or_default();
    (gpus > 0).then(|| format!("gres/gpu{model}:{gpus}"))
}

/// Devices as Slurm writes them, with their number and indexes: `gpu:h100:2(IDX:0-1)`.
#[must_use]
pub fn gres(kind: &str, devices: &[u32]) -> String {
    let mut indexes = devices.to_vec();
    indexes.sort_unstable();
    format!("{kind}:{}(IDX:{})", devices.len(), ranges(indexes.into_iter()))
}

/// Whole cores, at least one.
fn whole(cpus: f64) -> u64 {
    span(cpus).get().div_ceil(1000).max(1)
}

/// Memory in Slurm's form: `16G`, or `1500M` if it is not a whole number of gibibytes.
#[must_use]
pub fn mebibytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{}G", bytes >> 30),
        bytes => format!("{}M", bytes >> 20),
    }
}
