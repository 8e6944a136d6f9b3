//! The messages between server and agent. Agents are level-triggered: the server sends the wanted
//! state, the agent reports the actual state, and a lost, repeated or late message does no harm.
//!
//! The transport must guarantee two things, which one connection per run of an agent gives: an
//! order reaches only the incarnation that it is for, and the reports of an agent arrive in sending
//! order.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::allocation::{Allocation, Slot, SlotPart};
pub use crate::context::LaunchContext;
use crate::device::Device;
use crate::id::{
    DeviceUuid, Generation, Incarnation, NodeName, PoolName, RequestId, Round, TaskId, Term,
};
use crate::job::JobSpec;
use crate::job::OutputCut;
pub use crate::job::end::TaskEnd;
use crate::job_part::JobPart;
use crate::node::NodeFacts;
use crate::resource::Resources;
use crate::sharer::Sharer;
use crate::unit::{Bytes, Millis, Timestamp};
use crate::verb::SignalTo;

/// An order of the server to an agent. The agent refuses a term older than the newest that it has
/// seen and, for each task, a generation older than the newest that it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Report the node and every task that you know. A server sends it when it takes over, and
    /// again while some report may have been lost.
    Sync {
        /// The server's term.
        term: Term,
        /// The number of the question; the answer carries it.
        round: Round,
        /// The devices of the node on which no task may be that did not book them, because they
        /// are drained or reserved.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        closed: BTreeSet<DeviceUuid>,
    },
    /// Run this task.
    Run(Box<TaskOrder>),
    /// End this task.
    Stop {
        /// The server's term.
        term: Term,
        /// The task.
        task: TaskId,
        /// The generation of its allocation.
        generation: Generation,
        /// The time between TERM and KILL.
        grace: Millis,
        /// The signal to send in place of TERM, so that the task saves its state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The task has other terms. Repeated until the agent's generation matches.
    Change {
        /// The server's term.
        term: Term,
        /// The task.
        task: TaskId,
        /// The generation of its allocation, which grows with each change of the terms.
        generation: Generation,
        /// The new terms.
        terms: Terms,
    },
    /// Stop the task's processes and keep them in memory. Repeated until they are stopped.
    Pause {
        /// The server's term.
        term: Term,
        /// The task.
        task: TaskId,
        /// The generation of its allocation, which grows with each pause and each resume.
        generation: Generation,
        /// Whether its processes run on: only its devices are freed, and its GPU calls wait.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        runs_on: bool,
    },
    /// Continue a paused task.
    Resume {
        /// The server's term.
        term: Term,
        /// The task.
        task: TaskId,
        /// The generation of its allocation.
        generation: Generation,
        /// The devices that are booked for it now, by slot; empty if they are the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<DeviceUuid>,
    },
    /// Send the task's processes a signal. May be lost; never sent twice.
    Signal {
        /// The server's term.
        term: Term,
        /// The task.
        task: TaskId,
        /// The signal's number.
        signal: i32,
        /// The processes that get it.
        #[serde(default)]
        to: SignalTo,
        /// The request that asked for it: the agent acts once on an order that arrives twice.
        request: RequestId,
    },
    /// Forget the task: its end, or its refusal, is durable.
    Acknowledge {
        /// The server's term.
        term: Term,
        /// The task.
        task: TaskId,
        /// The generation that the report carried: the end of a later generation has yet to arrive.
        generation: Generation,
    },
}

impl Order {
    /// The term of the server that sent it.
    #[must_use]
    pub fn term(&self) -> Term {
        match self {
            Self::Run(order) => order.term,
            Self::Sync { term, .. }
            | Self::Stop { term, .. }
            | Self::Change { term, .. }
            | Self::Pause { term, .. }
            | Self::Resume { term, .. }
            | Self::Signal { term, .. }
            | Self::Acknowledge { term, .. } => *term,
        }
    }
}

/// What can change of a task while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// The agent ends the task after this time, counted from its start; `None` is never.
    pub limit: Option<Millis>,
    /// Its parts of devices, by slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SlotPart>,
}

impl Terms {
    /// Gives slots their new parts.
    pub fn resize(&self, slots: &mut [Slot]) {
        for (slot, part) in slots.iter_mut().zip(&self.parts) {
            slot.part = *part;
        }
    }
}

/// A task that should run, with everything needed to start it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The server's term.
    pub term: Term,
    /// The generation of its allocation.
    pub generation: Generation,
    /// The job that the user asked for; of a job with parts, with the shape of the task's part.
    pub spec: Arc<JobSpec>,
    /// The parts of the job, in the order of their ranks, if it has parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartTasks>,
    /// The node and slots of the task.
    pub allocation: Allocation,
    /// The pool that its node is in.
    #[serde(default = "PoolName::usual")]
    pub pool: PoolName,
    /// Whether its GPU calls go through a gate, so that it survives pauses, and its devices can be
    /// released while it is idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_gate: bool,
    /// The job, as others on its devices see it, if it has shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharer: Option<Sharer>,
    /// The nodes of the tasks of its gang, by rank; empty for a job of one task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// The address of the first node of its gang, or of the gang that it joins.
    #[serde(default)]
    pub master_addr: String,
}

impl TaskOrder {
    /// The ID of the task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.allocation.task
    }

    /// Returns the part that the task belongs to, and the task's rank in it; `None` for a job
    /// without parts.
    #[must_use]
    pub fn part(&self) -> Option<(&PartTasks, u32)> {
        let mut rank = self.task().rank;
        self.parts.iter().find_map(|part| match rank.checked_sub(part.n_tasks) {
            None => Some((part, rank)),
            Some(left) => {
                rank = left;
                None
            }
        })
    }
}

/// The tasks of one part of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartTasks {
    /// The name of the part.
    pub name: Arc<str>,
    /// The number of its tasks.
    pub n_tasks: u32,
}

impl PartTasks {
    /// Returns the tasks of a part.
    #[must_use]
    pub fn of(part: &JobPart) -> Self {
        Self { name: Arc::clone(&part.name), n_tasks: part.gang.n_tasks() }
    }
}

/// A report of an agent to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The node and all its devices. Sent first, after each change that matters to scheduling, and
    /// with each answer to [`Order::Sync`].
    Inventory {
        /// The position among the agent's reports: the server ignores a late one.
        #[serde(default)]
        stamp: Stamp,
        /// CPU, memory and tasks that jobs can book on the node.
        capacity: Resources,
        /// In the driver's index order.
        devices: Vec<Device>,
        /// A name for one run of the node's kernel.
        boot_id: String,
        /// Details for people, and about its tasks.
        facts: Box<NodeFacts>,
    },
    /// Every task that the agent knows; the answer to [`Order::Sync`].
    Tasks {
        /// The run of the agent that reports.
        #[serde(default)]
        stamp: Stamp,
        /// The term of the server that asked.
        term: Term,
        /// The question that it answers.
        #[serde(default)]
        round: Round,
        /// In the order of task IDs.
        tasks: Vec<TaskReport>,
    },
    /// One task has changed.
    Task(TaskReport),
    /// A loan of device memory was called back, or a guarantee was not met in its time. Changes no
    /// record: it is kept for people.
    Loan(LoanReport),
    /// A running task was moved to other devices of its node, or could not be. Changes no record:
    /// it is kept for people.
    Move(MoveReport),
    /// Output of a task is dropped. Changes no record: it is kept for people.
    Output(OutputReport),
}

/// Output of a task that is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputReport {
    /// The task.
    pub task: TaskId,
    /// Why.
    pub cut: OutputCut,
    /// Whether the task is stopped for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
}

/// A move of a running task between devices of its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// The task.
    pub task: TaskId,
    /// The parts of devices that it had, by slot.
    pub from: Vec<Slot>,
    /// The parts that it has now, or that it could not get.
    pub to: Vec<Slot>,
    /// Why it had to move; `None` if an earlier run of the agent began the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    /// The result.
    pub is: MoveIs,
    /// Why it failed, for people; the agent fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The time between the order to leave and the result; the agent fills it in. `None` if an
    /// earlier run of the agent began the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Millis>,
}

impl MoveReport {
    /// Returns the indexes of the devices that it left, or should have left, and of those in their
    /// place.
    #[must_use]
    pub fn changed(&self) -> (Vec<u32>, Vec<u32>) {
        let pairs = self.from.iter().zip(&self.to);
        let changed = pairs.filter(|(from, to)| from.device != to.device);
        changed.map(|(from, to)| (from.index, to.index)).unzip()
    }
}

/// Why a running task has to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveReason {
    /// Another task needs room on the node.
    Room {
        /// The other task.
        beneficiary: TaskId,
    },
    /// Its device was drained or reserved.
    Closed,
    /// Another task needs memory of its request that this one was lent.
    Loan {
        /// The other task.
        beneficiary: TaskId,
    },
}

/// The result of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveIs {
    /// The task uses the other devices.
    Done,
    /// It could not leave its devices, and stays there.
    NotLeft,
    /// It could not come to the other devices, and goes back.
    NotReached,
}

/// An event about memory that a task was lent, or that it was guaranteed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanReport {
    /// The task.
    pub task: TaskId,
    /// The device.
    pub device: DeviceUuid,
    /// The event.
    pub is: LoanIs,
}

/// What happened to a loan or a guarantee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoanIs {
    /// The task has to give back memory above its request.
    Called {
        /// How much.
        bytes: Bytes,
        /// The task that needs it for its request.
        beneficiary: TaskId,
    },
    /// It kept the memory and is paused until the device has room for it.
    Paused,
    /// It could not be paused.
    NotPaused {
        /// The reason, for people.
        why: String,
    },
    /// It is back on its devices.
    Returned,
    /// It kept the memory and is stopped.
    Stopped,
    /// The task waits longer than allowed for memory within its request.
    Late {
        /// The memory that it would use.
        bytes: Bytes,
        /// For how long it has waited.
        waited: Millis,
    },
    /// The driver refused the new size of a share, and applies the last one.
    NotLimited {
        /// The reason, for people.
        why: String,
    },
}

/// The run of an agent that sent a report, and the position of the report in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The run of the agent.
    pub incarnation: Incarnation,
    /// Grows with each report that has a stamp.
    pub sequence: u64,
}

impl Default for Stamp {
    /// The stamp of a report that was not sent yet or was journaled before stamps existed.
    fn default() -> Self {
        Self { incarnation: Incarnation::new(""), sequence: 0 }
    }
}

/// One task as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The task.
    pub task: TaskId,
    /// The generation that the agent acted on.
    pub generation: Generation,
    /// The state of the task.
    pub is: TaskIs,
}

/// The state of a task on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskIs {
    /// It was launched and has not reported yet that it runs.
    Launching,
    /// Its program has started.
    Running {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
    },
    /// Its processes are stopped and stay in memory.
    Paused {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
    },
    /// It could not be paused and goes on running.
    NotPaused {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
        /// The reason, for people.
        #[serde(default)]
        why: String,
    },
    /// It is paused, and can't resume on the other devices that were booked for it.
    NotMoved {
        /// The process id of its program.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
        /// The reason, for people.
        why: String,
        /// The devices on which it can resume, by slot.
        devices: Vec<DeviceUuid>,
    },
    /// It has ended. The agent keeps this until the server acknowledges it.
    Ended(TaskEnd),
    /// It was not launched because other processes use its devices; the server may assign other
    /// devices.
    Refused {
        /// The devices that cannot be used now.
        devices: Vec<DeviceUuid>,
    },
    /// It has ended, and a server has acknowledged its end. The agent reports it to a server that
    /// was restored from an older backup.
    Over,
}

/// What a running task has used so far, from its control group. A value that the kernel does not
/// count is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveUsage {
    /// CPU time.
    pub cpu: Option<Millis>,
    /// Memory of all its processes now, with cached files.
    pub memory: Option<Bytes>,
    /// The most memory of all its processes, with cached files.
    pub memory_peak: Option<Bytes>,
    /// Bytes read from block devices.
    pub read: Option<Bytes>,
    /// Bytes written to block devices.
    pub written: Option<Bytes>,
}
