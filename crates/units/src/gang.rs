//! The number of tasks of a job and their spread over nodes. A job of several tasks is a gang: all
//! of them start together, or none.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::id::{Attempt, JobId, NodeName};

/// The number of tasks of a job. Each of its nodes has the same number, unless the tasks may be
/// anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gang {
    /// The number of different nodes that it starts on, at least 1; an upper bound if its tasks may
    /// be anywhere.
    pub nodes: u32,
    /// The number of nodes that it may grow to, at least as many.
    pub nodes_most: u32,
    /// The number of tasks per node, at least 1; if they may be anywhere it is 1, a lower bound.
    pub tasks_per_node: u32,
    /// Whether one node may take several nodes' worth of tasks: tasks go wherever there is
    /// capacity, on as few nodes as possible.
    #[serde(default, skip_serializing_if = "crate::rare::is_false")]
    pub anywhere: bool,
    /// The number of processes that its launcher starts by default, in all tasks together. Then
    /// only the first task runs the command; the other tasks hold their slots for job steps and end
    /// when the first ends. 0 if every task runs the command.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub launcher: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Gang {
    /// A job of one task.
    pub const SINGLE: Self =
        Self { nodes: 1, nodes_most: 1, tasks_per_node: 1, anywhere: false, launcher: 0 };
    /// Below the ephemeral ports of common systems.
    pub const PORTS: RangeInclusive<u16> = 20_000..=29_999;
    /// The most tasks of a job.
    pub const TASKS_MAX: u32 = 16_384;

    /// A gang of `nodes` nodes with `tasks_per_node` tasks each; `None` for no task, or more than
    /// [`Gang::TASKS_MAX`].
    #[must_use]
    pub fn new(nodes: u32, tasks_per_node: u32) -> Option<Self> {
        let n_tasks = nodes.checked_mul(tasks_per_node)?;
        (1..=Self::TASKS_MAX).contains(&n_tasks).then_some(Self {
            nodes,
            nodes_most: nodes,
            tasks_per_node,
            anywhere: false,
            launcher: 0,
        })
    }

    /// A gang of `n_tasks` tasks on any nodes; `None` for no task, or more than
    /// [`Gang::TASKS_MAX`]. One task makes an ordinary single job.
    #[must_use]
    pub fn anywhere(n_tasks: u32) -> Option<Self> {
        Some(Self { anywhere: n_tasks > 1, ..Self::new(n_tasks, 1)? })
    }

    /// The port on which the tasks of one run of a job may find each other, within [`Gang::PORTS`].
    /// It is the same for all of them and never changes. gpool does not reserve it.
    #[must_use]
    pub fn port(job: JobId, attempt: Attempt) -> u16 {
        let (first, last) = (u64::from(*Self::PORTS.start()), u64::from(*Self::PORTS.end()));
        let element = job.element.map_or(0, |element| u64::from(element) + 1);
        let mixed = job.number.0.wrapping_mul(31).wrapping_add(element.wrapping_mul(7));
        let offset = mixed.wrapping_add(u64::from(attempt.0)) % (last - first + 1);
        u16::try_from(first + offset).unwrap_or(*Self::PORTS.start())
    }

    /// The same gang, able to grow to `nodes_most` nodes; `None` for fewer than it starts on, or
    /// too many tasks.
    #[must_use]
    pub fn growing_to(self, nodes_most: u32) -> Option<Self> {
        let largest = Self::new(nodes_most, self.tasks_per_node)?;
        (largest.nodes >= self.nodes).then_some(Self { nodes_most, ..self })
    }

    /// The most times that one node may take a node's worth of tasks.
    #[must_use]
    pub fn most_on_node(self) -> u32 {
        if self.anywhere { self.nodes } else { 1 }
    }

    /// Whether it is elastic: it may grow while it runs.
    #[must_use]
    pub fn is_elastic(self) -> bool {
        self.nodes_most > self.nodes
    }

    /// The number of tasks that start together.
    #[must_use]
    pub fn n_tasks(self) -> u32 {
        self.nodes.saturating_mul(self.tasks_per_node)
    }

    /// Whether it is a single task.
    #[must_use]
    pub fn is_single(&self) -> bool {
        *self == Self::SINGLE
    }

    /// Whether only the first task runs the command.
    #[must_use]
    pub fn has_launcher(self) -> bool {
        self.launcher > 0
    }

    /// The number of processes that the launcher starts by default in the task with this rank. They
    /// are divided evenly, and the first tasks get the remainder; 1 without a launcher.
    #[must_use]
    pub fn processes_of(self, rank: u32) -> u32 {
        let n_tasks = self.n_tasks().max(1);
        match self.launcher {
            0 => 1,
            n => n / n_tasks + u32::from(rank < n % n_tasks),
        }
    }
}

/// The elastic job that another job extends. While an elastic job runs below its largest size,
/// other jobs join it, one for each node, and leave when they are evicted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Joins {
    /// The running job.
    pub job: JobId,
    /// The attempt of the running job.
    pub attempt: Attempt,
    /// Its present and largest size.
    pub gang: Gang,
    /// The nodes of its own tasks, by rank.
    pub nodes: Vec<NodeName>,
    /// The rank, among the tasks of both jobs, of the first added task.
    pub first_rank: u32,
}

impl Default for Gang {
    fn default() -> Self {
        Self::SINGLE
    }
}
