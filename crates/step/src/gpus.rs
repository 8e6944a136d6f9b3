//! The GPUs that each process of a step sees. A step that requests a number of GPUs waits for GPUs
//! that no other step of the job uses; a step without a request sees all.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use rustix::fs::{FlockOperation, flock};

use crate::plan::Plan;

/// Interval of checks whether other steps have ended.
const LOOK: Duration = Duration::from_millis(200);

/// The GPUs that a step requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GpuRequest {
    /// No request: each process sees all GPUs of its node.
    #[default]
    All,
    /// This number for each process, which sees only its own.
    PerProcess(usize),
    /// This number on each node, for all processes there.
    PerNode(usize),
    /// This number on all nodes together.
    Total(usize),
}

/// The GPUs of the processes, and the locks that reserve them while the step lives.
#[derive(Debug, Default)]
pub struct GpuAllocation {
    /// The GPUs of each process; `None` means all GPUs of its task.
    pub of_process: Vec<Option<Vec<String>>>,
    locks: Vec<File>,
}

/// Chooses GPUs for the processes. `folder` has the locks of the job's steps; without it, or with
/// `overlap`, steps share GPUs.
///
/// # Errors
/// A node has too few GPUs, or a lock can't be made.
pub fn give(
    plan: &Plan,
    of_hosts: &[Vec<String>],
    request: GpuRequest,
    folder: Option<&Path>,
    session: &Session,
) -> Result<GpuAllocation> {
    let nodes = plan.nodes();
    let mut allocation =
        GpuAllocation { of_process: vec![None; plan.processes.len()], locks: Vec::new() };
    let needed = nodes.iter().map(|node| needed(plan, node, nodes.len(), request));
    let needed: Vec<Option<usize>> = needed.collect();
    let mut has_said = false;
    let chosen = loop {
        let mut chosen = Vec::new();
        for (node, needed) in nodes.iter().zip(&needed) {
            let all = of_node(plan, of_hosts, node);
            let Some(needed) = *needed else {
                chosen.push(Some(all));
                continue;
            };
            if needed > all.len() {
                let what = format!("srun: the step requests {needed} GPUs on {node}");
                return Err(Failure::new(errors::USAGE, what)
                    .why(format!("the job has {} there", all.len())));
            }
            chosen.push(take(&all, needed, folder, &mut allocation.locks)?);
        }
        if let Some(chosen) = chosen.into_iter().collect::<Option<Vec<_>>>() {
            break chosen;
        }
        allocation.locks.clear();
        if !std::mem::replace(&mut has_said, true) {
            session.screen.note("srun: waiting for GPUs of other steps of the job");
        }
        std::thread::sleep(LOOK);
    };
    for (node, gpus) in nodes.iter().zip(chosen) {
        for (at, rank) in plan.on_node(node).enumerate() {
            allocation.of_process[rank] = match request {
                GpuRequest::PerProcess(n) => Some(gpus[at * n..(at + 1) * n].to_vec()),
                GpuRequest::All if gpus.is_empty() => None,
                GpuRequest::All | GpuRequest::PerNode(_) | GpuRequest::Total(_) => {
                    Some(gpus.clone())
                }
            };
        }
    }
    Ok(allocation)
}

/// The number of GPUs for a node; `None` without a request.
fn needed(plan: &Plan, node: &str, n_nodes: usize, request: GpuRequest) -> Option<usize> {
    match request {
        GpuRequest::All => None,
        GpuRequest::PerProcess(n) => Some(n * plan.on_node(node).count()),
        GpuRequest::PerNode(n) => Some(n),
        GpuRequest::Total(n) => Some(n.div_ceil(n_nodes.max(1))),
    }
}

/// The GPUs of the tasks on a node.
fn of_node(plan: &Plan, of_hosts: &[Vec<String>], node: &str) -> Vec<String> {
    let here = plan.hosts.iter().zip(of_hosts).filter(|(host, _)| host.node == node);
    here.flat_map(|(_, gpus)| gpus.clone()).collect()
}

/// Locks GPUs that no other step has; `None` if too few are free now.
fn take(
    all: &[String],
    needed: usize,
    folder: Option<&Path>,
    locks: &mut Vec<File>,
) -> Result<Option<Vec<String>>> {
    let Some(folder) = folder else { return Ok(Some(all[..needed].to_vec())) };
    let mut taken = Vec::new();
    for gpu in all {
        if taken.len() == needed {
            break;
        }
        let path: PathBuf = folder.join(format!("step-gpu-{}", gpu.replace('/', "_")));
        let open = File::options().create(true).append(true).open(&path);
        let lock = open.map_err(|error| {
            let what = format!("srun: can't open {}: {error}", path.display());
            Failure::new(errors::INTERNAL, what)
        })?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            locks.push(lock);
            taken.push(gpu.clone());
        }
    }
    Ok((taken.len() == needed).then_some(taken))
}
