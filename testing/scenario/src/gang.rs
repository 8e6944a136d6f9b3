//! Jobs of several tasks: `2 nodes 3 each 2` after a job's name requests two GPUs for each of two
//! tasks on each of three nodes, `2 tasks 6` two for each of six tasks on any nodes. `parts
//! head:1xcpu+worker:2x4` requests tasks of different shapes. The allocations are listed task by
//! task.

use std::sync::Arc;

use gpool_model::job::TaskCourse;
use gpool_model::job_part::JobPartError;
use gpool_model::{Attempt, Gang, JobId, JobPart, JobRequest, JobSpec, Joins, NodeFilter, Phase};

use crate::words::{ScenarioError, Words};

/// Reads `nodes 3 each 2`, `tasks 6`, or nothing.
pub(crate) fn gang(words: &mut Words<'_>) -> Result<Gang, ScenarioError> {
    let count = |word: &str| word.parse::<u32>();
    let tasks = match words.take("tasks") {
        true => Some(words.parse("a number of tasks", count)?),
        false => None,
    };
    let nodes = match words.take("nodes") {
        true => words.parse("a number of nodes", count)?,
        false => 1,
    };
    let each = match words.take("each") {
        true => words.parse("a number of tasks", count)?,
        false => 1,
    };
    let gang = match tasks {
        Some(n_tasks) if (nodes, each) == (1, 1) => Gang::anywhere(n_tasks),
        Some(_) => return Err(words.error("tasks are anywhere, or on nodes".to_owned())),
        None => Gang::new(nodes, each),
    };
    gang.ok_or_else(|| words.error(format!("a gang has 1 to {} tasks", Gang::TASKS_MAX)))
}

/// Reads the parts of a job in place of its GPUs: `head:1xcpu+worker:2x4`.
pub(crate) fn parts(text: &str) -> Result<Vec<JobPart>, JobPartError> {
    text.split('+').map(JobPart::parse).collect()
}

/// The request for GPUs and tasks, as a scenario writes it.
pub(crate) fn shape_text(spec: &JobSpec) -> String {
    let parts: Vec<String> = spec.parts.iter().map(ToString::to_string).collect();
    match parts.is_empty() {
        true => format!("{}{}", spec.gpus, gang_text(spec.gang)),
        false => format!("parts {}", parts.join("+")),
    }
}

/// Gives few random jobs a second part of few GPUs. Parts need no topology.
pub(crate) fn random_parts(request: &mut JobRequest, number: u32) {
    if (number >> 18) % 12 != 5 || request.gang.anywhere {
        return;
    }
    let other = ["head:1xcpu,cpus=2", "head:cpu", "other:1x1", "other:2x1", "other:1x0.5"];
    let other = other[(number >> 22) as usize % other.len()];
    let own = JobPart {
        name: Arc::from("worker"),
        gpus: request.gpus.clone(),
        cpus: request.cpus,
        memory: request.memory,
        gang: request.gang,
    };
    let other = JobPart::parse(other).expect("the parts of the list are valid");
    let nodes = request.nodes.as_deref().cloned().unwrap_or_default();
    request.nodes = NodeFilter { topology: None, ..nodes }.unless_default();
    request.set_parts(match number >> 26 & 1 {
        0 => vec![own, other],
        _ => vec![other, own],
    });
}

/// A join that adds one node to a job.
pub(crate) fn joins(job: JobId) -> Box<Joins> {
    let (attempt, gang, nodes) = (Attempt::FIRST, Gang::SINGLE, Vec::new());
    Box::new(Joins { job, attempt, gang, nodes, first_rank: 1 })
}

pub(crate) fn gang_text(gang: Gang) -> String {
    if gang.anywhere {
        return format!(" tasks {}", gang.nodes);
    }
    let nodes = if gang.nodes == 1 { String::new() } else { format!(" nodes {}", gang.nodes) };
    match gang.tasks_per_node {
        1 => nodes,
        each => format!("{nodes} each {each}"),
    }
}

/// The state of all tasks of a job in this phase, if they are equal.
pub(crate) fn courses(phase: &Phase) -> Vec<TaskCourse> {
    let started_at = match phase {
        Phase::Running { started_at, .. } => Some(*started_at),
        Phase::Stopping { started_at, .. } => *started_at,
        _ => None,
    };
    let n_tasks = phase.allocations().len();
    match started_at {
        Some(_) if n_tasks > 1 => vec![TaskCourse { started_at, ..TaskCourse::default() }; n_tasks],
        _ => Vec::new(),
    }
}
