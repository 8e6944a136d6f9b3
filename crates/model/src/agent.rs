//! What server and agent tell each other. Agents are level-triggered: they are told what should
//! be, they say what is, and a lost, repeated or late message does no harm.
//!
//! Whoever carries messages owes two things, which a connection for each run of an agent gives: an
//! order reaches only the incarnation that it is for, and nothing that an agent said arrives after
//! something that a later one said.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
pub use crate::context::LaunchContext;
use crate::device::Device;
use crate::id::{
    DeviceUuid, Generation, Incarnation, NodeName, PoolName, RequestId, Round, TaskId, Term,
};
use crate::job::JobSpec;
pub use crate::job::end::TaskEnd;
use crate::node::NodeFacts;
use crate::resource::Resources;
use crate::unit::{Millis, Timestamp};

/// What an agent is told. It refuses a term older than it has seen and, for each task, a
/// generation older than it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Report the node and every task you know. Asked by a server that took over, and again as
    /// long as something of what was said may not have been heard.
    Sync {
        /// The server's term.
        term: Term,
        /// Which question it is; the answer names it.
        round: Round,
    },
    /// This task should run.
    Run(Box<TaskOrder>),
    /// This task should end.
    Stop {
        /// The server's term.
        term: Term,
        /// Which task.
        task: TaskId,
        /// Of its allocation.
        generation: Generation,
        /// Between TERM and KILL.
        grace: Millis,
        /// What it is sent in place of TERM, so that it saves what it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The task's time limit is another one. Said again until the agent's generation fits.
    Limit {
        /// The server's term.
        term: Term,
        /// Which task.
        task: TaskId,
        /// Of its allocation, which grows with each change of the limit.
        generation: Generation,
        /// After which time it is ended, counted from its start; `None` is never.
        limit: Option<Millis>,
    },
    /// The task's processes should be stopped where they are. Said again until they are.
    Pause {
        /// The server's term.
        term: Term,
        /// Which task.
        task: TaskId,
        /// Of its allocation, which grows with each pause and each resume.
        generation: Generation,
    },
    /// The task should go on from where it was stopped.
    Resume {
        /// The server's term.
        term: Term,
        /// Which task.
        task: TaskId,
        /// Of its allocation.
        generation: Generation,
    },
    /// Send the task's processes a signal. May be lost; never sent twice.
    Signal {
        /// The server's term.
        term: Term,
        /// Which task.
        task: TaskId,
        /// The signal's number.
        signal: i32,
        /// Whose request it was: an order that comes twice is acted on once.
        request: RequestId,
    },
    /// The task's end, or its refusal, is durable: forget it.
    Acknowledge {
        /// The server's term.
        term: Term,
        /// Which task.
        task: TaskId,
        /// As it was reported: what came of a later one has yet to be heard.
        generation: Generation,
    },
}

/// A task that should run, with all that is needed to start it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The server's term.
    pub term: Term,
    /// Of its allocation.
    pub generation: Generation,
    /// What the user asked for.
    pub spec: Arc<JobSpec>,
    /// What the task holds.
    pub allocation: Allocation,
    /// The pool that its node is in.
    #[serde(default = "PoolName::usual")]
    pub pool: PoolName,
    /// Where the tasks of its gang are, by rank; empty for a job of one task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// Where it reaches the first node of its gang, or of the one that it joins.
    #[serde(default)]
    pub master_addr: String,
}

impl TaskOrder {
    /// Which task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.allocation.task
    }
}

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The node and all its devices; sent first, whenever something of it changed that scheduling
    /// reads, and with each answer to [`Order::Sync`].
    Inventory {
        /// Which of the agent's reports: a late one is not taken for news.
        #[serde(default)]
        stamp: Stamp,
        /// What can be booked beside devices.
        capacity: Resources,
        /// In the driver's index order.
        devices: Vec<Device>,
        /// Names one run of the node's kernel.
        boot_id: String,
        /// For people.
        facts: NodeFacts,
    },
    /// Every task that the agent knows; the answer to [`Order::Sync`].
    Tasks {
        /// Which agent says it.
        #[serde(default)]
        stamp: Stamp,
        /// The term that asked.
        term: Term,
        /// The question that it answers.
        #[serde(default)]
        round: Round,
        /// In the order of task ids.
        tasks: Vec<TaskReport>,
    },
    /// One task changed.
    Task(TaskReport),
}

/// Which run of an agent says something, and when in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The run.
    pub incarnation: Incarnation,
    /// Grows with each report that carries a stamp.
    pub sequence: u64,
}

impl Default for Stamp {
    /// Of nobody: not sent yet, or journaled before there were stamps.
    fn default() -> Self {
        Self { incarnation: Incarnation::new(""), sequence: 0 }
    }
}

/// One task as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Which task.
    pub task: TaskId,
    /// The generation that the agent acted on.
    pub generation: Generation,
    /// How it is.
    pub is: TaskIs,
}

/// How a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TaskIs {
    /// It was launched and has not said yet that it runs.
    Launching,
    /// Its program was started.
    Running {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
    },
    /// Its processes are stopped where they are.
    Paused {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
    },
    /// It was told to stop where it is, and goes on since that was not possible.
    NotPaused {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
    },
    /// It has ended; kept until acknowledged.
    Ended(TaskEnd),
    /// It was not launched, because devices are in use by others; it may be given other ones.
    Refused {
        /// The devices that are not usable now.
        devices: Vec<DeviceUuid>,
    },
    /// It has ended, and a server has acknowledged its end. The answer to a server whose
    /// store was restored from an older backup.
    Over,
}
