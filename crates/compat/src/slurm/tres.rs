//! The requested and allocated resources of a job as Slurm's trackable resources:
//! `cpu=2,mem=4G,node=1,billing=2,gres/gpu=2`.

use std::collections::BTreeSet;

use gpool_cli::render::clock::span;
use gpool_wire::Job;

/// The number of tasks.
pub fn n_tasks(job: &Job) -> u64 {
    job.gang.as_ref().map_or(1, |gang| u64::from(gang.nodes) * u64::from(gang.tasks_per_node))
}

/// The resources that all its tasks request.
pub fn asked(job: &Job) -> String {
    let tasks = n_tasks(job).max(1);
    let nodes = job.gang.as_ref().map_or(1, |gang| u64::from(gang.nodes));
    let (model, gpus) = gpus(job);
    written(job, tasks, nodes, model, gpus.map(|gpus| gpus * tasks))
}

/// The resources that it holds or held; empty before it starts.
pub fn allocated(job: &Job) -> String {
    if job.placement.is_empty() {
        return String::new();
    }
    let held: usize = job.placement.iter().map(|placed| placed.devices.len()).sum();
    let held = u64::try_from(held).unwrap_or(u64::MAX);
    written(job, n_tasks(job).max(1), n_nodes(job), gpus(job).0, Some(held))
}

/// The number of nodes; 1 before it starts.
pub fn n_nodes(job: &Job) -> u64 {
    let nodes: BTreeSet<&str> = job.placement.iter().map(|placed| placed.node.as_str()).collect();
    u64::try_from(nodes.len()).unwrap_or(u64::MAX).max(1)
}

/// The requested GPU model, and the GPUs of each task.
fn gpus(job: &Job) -> (Option<&str>, Option<u64>) {
    match job.gpus.rsplit_once(':') {
        Some((model, n)) => (Some(model), n.parse().ok()),
        None => (None, job.gpus.parse().ok()),
    }
}

fn written(job: &Job, tasks: u64, nodes: u64, model: Option<&str>, gpus: Option<u64>) -> String {
    let cpus = cores(job) * tasks;
    let mut parts = vec![format!("cpu={cpus}")];
    let memory = job.mem.filter(|memory| *memory > 0).map(|memory| memory.saturating_mul(tasks));
    parts.extend(memory.map(|memory| format!("mem={}", mebibytes(memory))));
    parts.push(format!("node={nodes}"));
    parts.push(format!("billing={cpus}"));
    if let Some(gpus) = gpus.filter(|gpus| *gpus > 0) {
        parts.push(format!("gres/gpu={gpus}"));
        parts.extend(model.map(|model| format!("gres/gpu:{model}={gpus}")));
    }
    parts.join(",")
}

/// The cores of a task as Slurm counts them: whole ones, at least one.
pub fn cores(job: &Job) -> u64 {
    job.cpus.map_or(1, |cpus| span(cpus).get().div_ceil(1000).max(1))
}

/// Memory in Slurm's form: `16G`, or `1500M` if it is not a whole number of gibibytes.
pub(super) fn mebibytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{}G", bytes >> 30),
        bytes => format!("{}M", bytes >> 20),
    }
}
