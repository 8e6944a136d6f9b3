//! How many tasks a job has and how they are spread over nodes. A job of several tasks is a gang:
//! all of them start together, or none.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::id::{Attempt, JobId, NodeName};

/// How many tasks a job has. Each of the nodes that it runs on has as many of them, unless they may
/// be anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gang {
    /// On how many different nodes it starts, at least 1; at most, if its tasks may be anywhere.
    pub nodes: u32,
    /// On how many it may grow while it runs, at least as many.
    pub nodes_most: u32,
    /// How many tasks each node gets, at least 1; at least, if they may be anywhere: then it is 1.
    pub tasks_per_node: u32,
    /// Whether several of what a node gets may be on one node: its tasks are wherever there is
    /// room, on as few nodes as that allows.
    #[serde(default, skip_serializing_if = "crate::rare::is_false")]
    pub anywhere: bool,
    /// How many processes its launcher starts by default, in all of its tasks together. Then only
    /// the first task runs the command; the others hold their places for processes that are
    /// started in them, and end when the first does. 0 if every task runs the command.
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
    /// Below those that systems give out by themselves.
    pub const PORTS: RangeInclusive<u16> = 20_000..=29_999;
    /// No job has more tasks.
    pub const TASKS_MAX: u32 = 16_384;

    /// So many tasks on each of so many nodes; `None` for no task, or more than
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

    /// So many tasks, wherever there is room for them; `None` for no task, or more than
    /// [`Gang::TASKS_MAX`]. One task is as any other job of one.
    #[must_use]
    pub fn anywhere(n_tasks: u32) -> Option<Self> {
        Some(Self { anywhere: n_tasks > 1, ..Self::new(n_tasks, 1)? })
    }

    /// The port on which the tasks of one run of a job may find each other: the same for all of
    /// them and whenever it is asked for, within [`Gang::PORTS`]. Nobody keeps it free.
    #[must_use]
    pub fn port(job: JobId, attempt: Attempt) -> u16 {
        let (first, last) = (u64::from(*Self::PORTS.start()), u64::from(*Self::PORTS.end()));
        let element = job.element.map_or(0, |element| u64::from(element) + 1);
        let mixed = job.number.0.wrapping_mul(31).wrapping_add(element.wrapping_mul(7));
        let offset = mixed.wrapping_add(u64::from(attempt.0)) % (last - first + 1);
        u16::try_from(first + offset).unwrap_or(*Self::PORTS.start())
    }

    /// The same, which may grow to so many nodes; `None` for fewer than it starts on, or too many
    /// tasks.
    #[must_use]
    pub fn growing_to(self, nodes_most: u32) -> Option<Self> {
        let largest = Self::new(nodes_most, self.tasks_per_node)?;
        (largest.nodes >= self.nodes).then_some(Self { nodes_most, ..self })
    }

    /// How many times what a node gets one node may have at most.
    #[must_use]
    pub fn most_on_node(self) -> u32 {
        if self.anywhere { self.nodes } else { 1 }
    }

    /// Whether it may grow while it runs.
    #[must_use]
    pub fn is_elastic(self) -> bool {
        self.nodes_most > self.nodes
    }

    /// How many tasks start together.
    #[must_use]
    pub fn n_tasks(self) -> u32 {
        self.nodes.saturating_mul(self.tasks_per_node)
    }

    /// Whether it is one task by itself.
    #[must_use]
    pub fn is_single(&self) -> bool {
        *self == Self::SINGLE
    }

    /// Whether the first task alone runs the command.
    #[must_use]
    pub fn has_launcher(self) -> bool {
        self.launcher > 0
    }

    /// How many processes its launcher starts by default in the task of that rank, where all get as
    /// many and the first ones what is left; 1 without a launcher.
    #[must_use]
    pub fn processes_of(self, rank: u32) -> u32 {
        let n_tasks = self.n_tasks().max(1);
        match self.launcher {
            0 => 1,
            n => n / n_tasks + u32::from(rank < n % n_tasks),
        }
    }
}

/// Whose tasks a job adds to. While a job runs that may be on more nodes than it started on, others
/// join it, one for each node, and leave it when what they hold is taken back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Joins {
    /// The job that runs.
    pub job: JobId,
    /// In which run of it.
    pub attempt: Attempt,
    /// How large that is, and may be.
    pub gang: Gang,
    /// Where its own tasks are, by rank.
    pub nodes: Vec<NodeName>,
    /// The rank, among the tasks of both, of the first task that is added.
    pub first_rank: u32,
}

impl Default for Gang {
    fn default() -> Self {
        Self::SINGLE
    }
}
