//! Inputs and actions of an agent.

use gpool_model::agent::{Order, Report, TaskEnd, TaskOrder, TaskReport};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::unit::{Millis, Timestamp};

/// The result of an order to pause or resume a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halting {
    /// It is paused.
    Paused,
    /// It runs.
    Resumed,
    /// It could not be paused, and runs.
    NotPaused,
}

/// An input of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An order from the server.
    Order(Order),
    /// A task that is already on this node: found when the agent started, or launched by another
    /// shepherd.
    Found(TaskReport),
    /// A task's program was started.
    Started {
        /// The task.
        task: TaskId,
        /// The process ID of its program.
        pid: u32,
        /// The start time.
        started_at: Timestamp,
    },
    /// The new time limit of this generation is noted in the task's claim.
    Limited {
        /// The task.
        task: TaskId,
        /// The generation of the order.
        generation: Generation,
    },
    /// A task was paused or resumed by the order of this generation, or could not be paused.
    Halted {
        /// The task.
        task: TaskId,
        /// The generation of the order.
        generation: Generation,
        /// The result.
        halting: Halting,
    },
    /// Other processes use devices of a task, so it was not launched.
    Refused {
        /// The task.
        task: TaskId,
        /// The devices.
        devices: Vec<DeviceUuid>,
    },
    /// A task has ended, could not be launched, or was prevented.
    Ended {
        /// The task.
        task: TaskId,
        /// How it ended.
        end: TaskEnd,
    },
}

/// An action that an agent carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Launch a task, or refuse it because of its devices.
    Launch(Box<TaskOrder>),
    /// Make sure that a task is never launched here, then report its end; or report its state if it
    /// was already launched.
    Prevent {
        /// The task.
        task: TaskId,
        /// The generation of the order.
        generation: Generation,
    },
    /// End a task.
    Stop {
        /// The task.
        task: TaskId,
        /// Time between SIGTERM and SIGKILL.
        grace: Millis,
        /// The signal in place of SIGTERM.
        signal: Option<i32>,
    },
    /// Change a task's time limit, note it in the claim, then report it.
    Limit {
        /// The task.
        task: TaskId,
        /// The generation of the order.
        generation: Generation,
        /// The limit, counted from the task's start.
        limit: Option<Millis>,
    },
    /// Pause a task's processes, note it in the claim, then report it.
    Pause {
        /// The task.
        task: TaskId,
        /// The generation of the order.
        generation: Generation,
    },
    /// Resume a task's processes, note it in the claim, then report it.
    Resume {
        /// The task.
        task: TaskId,
        /// The generation of the order.
        generation: Generation,
    },
    /// Send a task's processes a signal.
    Signal {
        /// The task.
        task: TaskId,
        /// The signal's number.
        signal: i32,
    },
    /// Send a report to the server; the agent fills in the stamp.
    Report(Report),
    /// Discard the records of a task that has ended.
    Forget(TaskId),
}
