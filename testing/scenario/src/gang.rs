//! Jobs of several tasks: `2 nodes 3 each 2` after a job's name requests two GPUs for each of two
//! tasks on each of three nodes, `2 tasks 6` two for each of six tasks on any nodes. The
//! allocations are listed task by task.

use gpool_model::job::TaskCourse;
use gpool_model::{Attempt, Gang, JobId, Joins, Phase};

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
