//! Jobs of several tasks: requests and answers.

use gpool_model::agent::TaskEnd;
use gpool_model::escape::repeated;
use gpool_model::job::ExitStatus;
use gpool_model::job::TaskCourse;
use gpool_model::{Allocation, Gang, JobSpec, Phase, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::cause::cause_word;
use crate::create::JobCreate;
use crate::time::Time;

/// The tasks of a job with several tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GangStatus {
    /// Number of nodes. With `anywhere`, the maximum number of nodes.
    pub nodes: u32,
    /// Maximum number of nodes after the job has grown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_most: Option<u32>,
    /// Number of tasks on each node. With `anywhere`, the minimum.
    pub tasks_per_node: u32,
    /// Whether the tasks may be placed on any number of nodes; also for a job with parts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anywhere: bool,
    /// Default number of processes that the launcher starts. Set if only the first task runs the
    /// command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<u32>,
    /// The tasks by rank. Empty before placement, and for a single task.
    pub tasks: Vec<TaskStatus>,
}

/// One task of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskStatus {
    /// Rank of the task, from 0.
    pub rank: u32,
    /// Name of the part that the task belongs to. Set for jobs with parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Node of the task.
    pub node: String,
    /// State of the task: `starting`, `running`, `succeeded`, `failed`, or `stopped` (by gpool).
    pub state: String,
    /// Time at which the task started.
    pub started_at: Option<Time>,
    /// Time at which the task ended.
    pub ended_at: Option<Time>,
    /// Exit code, or 128 + the number of the signal that ended the task.
    pub exit_code: Option<i32>,
    /// Cause of the end: a stable code.
    pub cause: Option<String>,
}

impl GangStatus {
    /// Returns the tasks of a job; `None` for a job of a single task.
    #[must_use]
    pub fn of(spec: &JobSpec, job: &gpool_model::Job) -> Option<Self> {
        // The tasks of all parts together may be on any nodes.
        let Gang { nodes, tasks_per_node, anywhere, .. } = match spec.has_parts() {
            true => Gang { nodes: spec.n_tasks(), anywhere: true, ..Gang::SINGLE },
            false => spec.gang,
        };
        let held = match &job.phase {
            Phase::Ended(end) => &end.allocations[..],
            phase => phase.allocations(),
        };
        let courses = job.course.tasks.iter().map(Some).chain(std::iter::repeat(None));
        // A single task adds nothing to the job's own fields.
        let held = if spec.n_tasks() > 1 { held } else { &[] };
        let task = |(held, course): (&Allocation, _)| {
            let part = spec.part_of(held.task.rank).map(|(at, _)| spec.parts[at].name.to_string());
            TaskStatus { part, ..TaskStatus::new(held, course) }
        };
        let tasks = held.iter().zip(courses).map(task).collect();
        let nodes_most = Some(spec.gang.nodes_most).filter(|_| spec.gang.is_elastic());
        let launcher = Some(spec.gang.launcher).filter(|launcher| *launcher > 0);
        // A launcher with one process in one task is an ordinary job.
        let is_single = spec.gang.launcher <= 1
            && Gang { launcher: 0, ..spec.gang }.is_single()
            && !spec.has_parts();
        let shown = Self { nodes, nodes_most, tasks_per_node, anywhere, launcher, tasks };
        (!is_single).then_some(shown)
    }
}

impl TaskStatus {
    fn new(held: &Allocation, course: Option<&TaskCourse>) -> Self {
        let end = course.and_then(|course| course.end.as_ref());
        let started_at = course.and_then(|course| course.started_at);
        let state = match (end, started_at) {
            (Some(TaskEnd { stopped: true, .. }), _) => "stopped",
            (Some(TaskEnd { exit: Some(ExitStatus::Code(0)), cause: None, .. }), _) => "succeeded",
            (Some(_), _) => "failed",
            (None, Some(_)) => "running",
            (None, None) => "starting",
        };
        Self {
            rank: held.task.rank,
            part: None,
            node: held.node.to_string(),
            state: state.to_owned(),
            started_at: started_at.map(Time),
            ended_at: end.map(|end| Time(end.ended_at)),
            exit_code: end.and_then(|end| end.exit).map(ExitStatus::shell_code),
            cause: end.and_then(|end| end.cause.as_ref()).map(|it| cause_word(it).to_owned()),
        }
    }
}

/// Returns the number and placement of a job's tasks, and its launcher.
///
/// # Errors
/// [`Refusal::Invalid`] for no tasks, too many tasks, or a launcher with a range of tasks.
pub fn gang(create: &JobCreate) -> Result<Gang, Refusal> {
    let gang = places(create)?;
    let invalid = |why: String| Refusal::Invalid { field: "launcher".to_owned(), why };
    match create.launcher {
        None => Ok(gang),
        Some(_) if gang.is_elastic() => {
            Err(invalid("a job with a launcher can't grow; give a fixed number".to_owned()))
        }
        Some(_) if create.torchrun => {
            Err(invalid("with a launcher, start torchrun through srun: srun torchrun".to_owned()))
        }
        Some(n) if (1..=Gang::TASKS_MAX).contains(&n) => Ok(Gang { launcher: n, ..gang }),
        Some(_) => Err(invalid(format!("a launcher starts 1 to {} processes", Gang::TASKS_MAX))),
    }
}

/// Returns the number and placement of a job's tasks.
fn places(create: &JobCreate) -> Result<Gang, Refusal> {
    if let Some(tasks) = &create.tasks {
        return anywhere(create, tasks);
    }
    let (nodes, most) = create.nodes.as_ref().map_or(Ok((1, 1)), n_nodes)?;
    let each = create.tasks_per_node.unwrap_or(1);
    let gang = Gang::new(nodes, each).and_then(|gang| gang.growing_to(most));
    if create.torchrun && each > 1 {
        let why = "torchrun starts one process per GPU of a node; leave it at 1".to_owned();
        return Err(Refusal::Invalid { field: "tasks_per_node".to_owned(), why });
    }
    if most > nodes && create.array.is_some() {
        let why = "the elements of an array can't grow; give a fixed number".to_owned();
        return Err(Refusal::Invalid { field: "nodes".to_owned(), why });
    }
    gang.ok_or_else(|| {
        let why = format!("a job has 1 to {} tasks in total: \"nodes\": 2", Gang::TASKS_MAX);
        let field = if each == 0 || nodes == 1 { "tasks_per_node" } else { "nodes" };
        Refusal::Invalid { field: field.to_owned(), why }
    })
}

/// Returns the gang for a number of tasks on any nodes.
fn anywhere(create: &JobCreate, tasks: &Quantity) -> Result<Gang, Refusal> {
    let invalid = |why: &str| Refusal::Invalid { field: "tasks".to_owned(), why: why.to_owned() };
    let (least, most) = n_tasks(tasks)?;
    if create.nodes.is_some() || create.tasks_per_node.is_some() {
        return Err(invalid(
            "gpool chooses the number of tasks per node; leave tasks_per_node out, or give nodes",
        ));
    }
    if create.torchrun {
        return Err(invalid("torchrun is started once per node; give \"nodes\": 2"));
    }
    if most > least && create.array.is_some() {
        return Err(invalid("the elements of an array can't grow; give a fixed number"));
    }
    let gang = Gang::anywhere(least).and_then(|gang| gang.growing_to(most));
    // One task that can grow also counts as placed on any nodes.
    let gang = gang.map(|gang| Gang { anywhere: most > 1, ..gang });
    gang.ok_or_else(|| {
        let why = format!("a job has 1 to {} tasks in total: \"tasks\": 8", Gang::TASKS_MAX);
        Refusal::Invalid { field: "tasks".to_owned(), why }
    })
}

/// Returns the requested number of tasks, and the maximum number while the job runs.
///
/// # Errors
/// [`Refusal::Invalid`] for text that is no number and no range.
pub fn n_tasks(written: &Quantity) -> Result<(u32, u32), Refusal> {
    range(written, "tasks")
}

/// Returns the requested number of nodes, and the maximum number while the job runs.
///
/// # Errors
/// [`Refusal::Invalid`] for text that is no number and no range.
pub fn n_nodes(written: &Quantity) -> Result<(u32, u32), Refusal> {
    range(written, "nodes")
}

/// The number of nodes of a gang, or of its tasks if they may be anywhere: `2`, or `2-4` if it can
/// grow.
pub(crate) fn range_words(gang: &Gang) -> Quantity {
    match gang.is_elastic() {
        true => Quantity::Text(format!("{}-{}", gang.nodes, gang.nodes_most)),
        false => Quantity::Whole(gang.nodes.into()),
    }
}

fn range(written: &Quantity, of: &str) -> Result<(u32, u32), Refusal> {
    let invalid = |why: String| Refusal::Invalid { field: of.to_owned(), why };
    let text = written.to_string();
    if let Ok(nodes) = text.parse() {
        return Ok((nodes, nodes));
    }
    if let Some((least, most)) = text.split_once('-')
        && let (Ok(least), Ok(most)) = (least.parse::<u32>(), most.parse::<u32>())
    {
        return match least <= most {
            true => Ok((least, most)),
            false => Err(invalid(format!("{text} begins after its end; write {most}-{least}"))),
        };
    }
    let shown = repeated(&text);
    Err(invalid(format!("{shown:?} is not a number of {of}; write, for example, 2, or 2-4")))
}
