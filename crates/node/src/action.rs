//! What an agent has to deal with, and what it has to do.

use gpool_model::agent::{Order, Report, TaskEnd, TaskOrder, TaskReport};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::unit::{Millis, Timestamp};

/// What came of an order to stop a task where it is, or to let it go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halting {
    /// It is stopped.
    Paused,
    /// It goes on.
    Resumed,
    /// It could not be stopped, and goes on.
    NotPaused,
}

/// What an agent has to deal with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// From the server.
    Order(Order),
    /// A task that is on this node already: found when the agent started, or launched by somebody
    /// who came first.
    Found(TaskReport),
    /// A task's program was started.
    Started {
        /// Which task.
        task: TaskId,
        /// The process id of its program.
        pid: u32,
        /// When.
        started_at: Timestamp,
    },
    /// A task's time limit is another one, and that is on file: of which generation.
    Limited {
        /// Which task.
        task: TaskId,
        /// Of the order.
        generation: Generation,
    },
    /// A task was stopped where it is, or goes on: as an order of that generation says, or not.
    Halted {
        /// Which task.
        task: TaskId,
        /// Of the order.
        generation: Generation,
        /// What came of it.
        halting: Halting,
    },
    /// Devices of a task are in use by others, so it was not launched.
    Refused {
        /// Which task.
        task: TaskId,
        /// The devices.
        devices: Vec<DeviceUuid>,
    },
    /// A task has ended, or could not be launched, or was kept from it.
    Ended {
        /// Which task.
        task: TaskId,
        /// How.
        end: TaskEnd,
    },
}

/// What an agent has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start a task, or refuse it for its devices.
    Launch(Box<TaskOrder>),
    /// Make sure that a task is never launched here, and then say that it ended; or say how it was
    /// found, if somebody has launched it.
    Prevent {
        /// Which task.
        task: TaskId,
        /// Of the order.
        generation: Generation,
    },
    /// End a task.
    Stop {
        /// Which task.
        task: TaskId,
        /// Between TERM and KILL.
        grace: Millis,
        /// What it is sent in place of TERM.
        signal: Option<i32>,
    },
    /// Give a task another time limit, put it on file, and then say so.
    Limit {
        /// Which task.
        task: TaskId,
        /// Of the order.
        generation: Generation,
        /// The limit, counted from its start.
        limit: Option<Millis>,
    },
    /// Stop a task's processes where they are, put that on file, and then say so.
    Pause {
        /// Which task.
        task: TaskId,
        /// Of the order.
        generation: Generation,
    },
    /// Let a task's processes go on, put that on file, and then say so.
    Resume {
        /// Which task.
        task: TaskId,
        /// Of the order.
        generation: Generation,
    },
    /// Send a task's processes a signal.
    Signal {
        /// Which task.
        task: TaskId,
        /// The signal's number.
        signal: i32,
    },
    /// Tell the server; the agent puts its stamp on what has one.
    Report(Report),
    /// Throw away what is kept of a task that has ended.
    Forget(TaskId),
}
