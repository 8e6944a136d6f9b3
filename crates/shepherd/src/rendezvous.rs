//! The variables that let the tasks of a job find each other, for PyTorch and `torchrun`.
//!
//! `torchrun` takes each of its options from a variable as well: `PET_` and the option's name
//! (`torch.distributed.argparse_util`).

use gpool_model::agent::{PartTasks, TaskOrder};
use gpool_model::{Attempt, Gang, JobId, Joins};

/// The position of a task among the tasks of its job.
pub struct TaskPosition<'a> {
    /// Each node once, in the order of ranks.
    pub nodes: Vec<&'a str>,
    /// The number of tasks on each of these nodes.
    pub tasks_by_node: Vec<usize>,
    /// The position of the task's own node in `nodes`.
    pub node_rank: usize,
    /// The position of the task among those on its node.
    pub local_rank: usize,
    pub n_tasks: usize,
}

impl<'a> TaskPosition<'a> {
    /// The place of a task in its gang.
    pub fn of(order: &'a TaskOrder) -> Self {
        let own = order.allocation.node.as_str();
        if order.nodes.is_empty() {
            let tasks_by_node = vec![1];
            return Self {
                nodes: vec![own],
                tasks_by_node,
                node_rank: 0,
                local_rank: 0,
                n_tasks: 1,
            };
        }
        let by_rank: Vec<&str> = order.nodes.iter().map(|node| node.as_str()).collect();
        let before = &by_rank[..by_rank.len().min(order.task().rank as usize)];
        let local_rank = before.iter().filter(|node| **node == own).count();
        let n_tasks = by_rank.len();
        // Tasks of several parts of a job may be on one node, with others between them.
        let (mut nodes, mut tasks_by_node) = (Vec::<&str>::new(), Vec::new());
        for node in by_rank {
            match nodes.iter().position(|known| *known == node) {
                Some(at) => tasks_by_node[at] += 1,
                None => {
                    nodes.push(node);
                    tasks_by_node.push(1);
                }
            }
        }
        let node_rank = nodes.iter().position(|node| *node == own).unwrap_or(0);
        Self { nodes, tasks_by_node, node_rank, local_rank, n_tasks }
    }
}

/// The variables of a task of a job with parts. `GPOOL_PARTS` has the nodes of each part:
/// `head=lab1 worker=lab2,lab3`.
pub fn of_parts(order: &TaskOrder) -> Vec<(&'static str, Vec<u8>)> {
    let Some((own, rank)) = order.part() else { return Vec::new() };
    let mut rest = &order.nodes[..];
    let text = |part: &PartTasks| {
        let n_tasks = usize::try_from(part.n_tasks).unwrap_or(usize::MAX);
        let (own, others) = rest.split_at(n_tasks.min(rest.len()));
        rest = others;
        let mut nodes: Vec<&str> = own.iter().map(|node| node.as_str()).collect();
        nodes.dedup();
        format!("{}={}", part.name, nodes.join(","))
    };
    let all = order.parts.iter().map(text).collect::<Vec<_>>().join(" ");
    vec![
        ("GPOOL_PART", own.name.as_bytes().to_vec()),
        ("GPOOL_PART_RANK", rank.to_string().into()),
        ("GPOOL_PART_NUM_TASKS", own.n_tasks.to_string().into()),
        ("GPOOL_PARTS", all.into()),
    ]
}

/// The run that a task belongs to, from the start or because it joined later.
struct Run {
    job: JobId,
    attempt: Attempt,
    gang: Gang,
    /// The position of the task among all tasks.
    rank: usize,
    node_rank: usize,
    /// The number of tasks as known at the start of this one.
    n_tasks: usize,
}

impl Run {
    fn of(order: &TaskOrder, place: &TaskPosition<'_>) -> Self {
        let (task, gang) = (order.task(), order.spec.gang);
        let rank = task.rank as usize;
        match &order.spec.joins {
            None => Self {
                job: task.job,
                attempt: task.attempt,
                gang,
                rank,
                node_rank: place.node_rank,
                n_tasks: place.n_tasks,
            },
            Some(joins) => {
                let first = joins.first_rank as usize;
                Self {
                    job: joins.job,
                    attempt: joins.attempt,
                    gang: joins.gang,
                    rank: first + rank,
                    node_rank: node_rank(joins, place),
                    n_tasks: first + place.n_tasks,
                }
            }
        }
    }
}

/// The position of the node of a task that joins a run. A node that the run did not start on comes
/// after the run's first nodes, by the number of tasks that have joined before.
fn node_rank(joins: &Joins, place: &TaskPosition<'_>) -> usize {
    let first = joins.first_rank as usize;
    if !joins.gang.anywhere {
        return first / (joins.gang.tasks_per_node.max(1) as usize);
    }
    let mut nodes: Vec<&str> = joins.nodes.iter().map(|node| node.as_str()).collect();
    nodes.dedup();
    let known = nodes.iter().position(|node| place.nodes.first() == Some(node));
    known.unwrap_or_else(|| nodes.len() + first.saturating_sub(joins.nodes.len()))
}

/// The variables that give Open MPI its remote shell: up to version 4, and since version 5.
const REMOTE_SHELL: [&str; 2] = ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"];

/// Open MPI's variables for the remote shell of this program. It divides the command at blanks, so
/// there are none if the program's path has some.
pub fn remote_shell(program: &str) -> Vec<(&'static str, Vec<u8>)> {
    let line = (!program.contains(char::is_whitespace)).then(|| format!("{program} rsh"));
    let variable = |line: String| REMOTE_SHELL.map(|name| (name, line.clone().into_bytes()));
    line.into_iter().flat_map(variable).collect()
}

/// The nodes of a job with a launcher, as Open MPI's `mpirun` and MPICH's `mpiexec` read them: a
/// line for each node, with the number of processes that the launcher starts there by default.
#[must_use]
pub fn host_file(order: &TaskOrder, place: &TaskPosition<'_>) -> String {
    let mut first = 0;
    let lines = place.nodes.iter().zip(&place.tasks_by_node).map(|(node, n_tasks)| {
        let ranks = first..first + u32::try_from(*n_tasks).unwrap_or(u32::MAX);
        first = ranks.end;
        let slots: u32 = ranks.map(|rank| order.spec.gang.processes_of(rank)).sum();
        format!("{node} slots={slots}\n")
    });
    lines.collect()
}

/// The variables for a task of a gang, or for one that asks for them; none for other tasks.
pub fn variables(order: &TaskOrder, place: &TaskPosition<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let spec = &order.spec;
    let grows = spec.gang.is_elastic() || spec.joins.is_some();
    let has_launcher = spec.gang.has_launcher();
    if place.n_tasks == 1 && !grows && !spec.torchrun && !has_launcher {
        return Vec::new();
    }
    let run = Run::of(order, place);
    let addr = if order.master_addr.is_empty() { "127.0.0.1" } else { &order.master_addr };
    let port = Gang::port(run.job, run.attempt).to_string();
    let text = |number: usize| number.to_string().into_bytes();
    let meeting = [("MASTER_ADDR", addr.into()), ("MASTER_PORT", port.clone().into())];
    if has_launcher {
        // The launcher sets the ranks for the processes that it starts.
        return meeting.into();
    }
    let mut all = Vec::from(meeting);
    all.extend([
        ("WORLD_SIZE", text(run.n_tasks)),
        ("RANK", text(run.rank)),
        ("LOCAL_RANK", text(place.local_rank)),
        ("NODE_RANK", text(run.node_rank)),
    ]);
    if let Some(joins) = &spec.joins {
        all.push(("GPOOL_JOINS", joins.job.to_string().into()));
    }
    if !spec.torchrun {
        return all;
    }
    all.push(("PET_NPROC_PER_NODE", text(order.allocation.slots.len().max(1))));
    match grows {
        false => all.extend([
            ("PET_NNODES", text(place.nodes.len())),
            ("PET_NODE_RANK", text(run.node_rank)),
            ("PET_MASTER_ADDR", addr.into()),
            ("PET_MASTER_PORT", port.into()),
        ]),
        true => all.extend([
            ("PET_NNODES", format!("{}:{}", run.gang.nodes, run.gang.nodes_most).into()),
            ("PET_RDZV_BACKEND", b"c10d".to_vec()),
            ("PET_RDZV_ENDPOINT", format!("{addr}:{port}").into()),
            ("PET_RDZV_ID", format!("{}.{}", run.job, run.attempt).into()),
        ]),
    }
    all
}
