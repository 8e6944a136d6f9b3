//! The inputs of the agent's thread from other threads, and the name of this run of the agent.

use std::sync::mpsc::Sender;

use gpool_model::agent::{Order, Report, TaskEnd};
use gpool_model::id::{DeviceUuid, Generation, Incarnation, TaskId};
use gpool_protocol::Telemetry;
use gpool_sys::{clock, proc};

use super::devices::Move;
use super::division::Division;
use super::lend::Lent;
use super::streams::StreamRequest;
use super::wake::Waker;

/// An input from another thread.
pub(super) enum Input {
    Order(Box<Order>),
    /// The devices and resources of this node.
    Inventory(Box<Report>),
    /// The devices of a task that must not be used.
    Checked {
        task: TaskId,
        unusable: Vec<DeviceUuid>,
        /// Why the driver refused to limit its memory.
        refused: Option<String>,
    },
    /// Whether the memory of a paused task is limited on its new devices, or why not.
    Limited(Box<Move>, Option<String>),
    /// All processes that a dead shepherd left have ended.
    Left(TaskId),
    /// Whether a task's devices are free of it: `user` is a process that is on one, for people.
    Vacated {
        task: TaskId,
        generation: Generation,
        user: Option<String>,
    },
    /// The end of a failed task, after the report of the errors of its devices.
    Ended {
        task: TaskId,
        end: Box<TaskEnd>,
    },
    /// Values for the server. They go through the agent's thread, so that they also show that it
    /// runs.
    Telemetry(Telemetry),
    /// Open a stream to a task.
    Open(Box<StreamRequest>),
    /// Act on a task with a loan of device memory.
    Lent(Lent),
    /// List or change MIG instances.
    Divide(Box<Division>),
    Stop,
}

/// The sending side of the agent's inputs.
#[derive(Clone)]
pub(super) struct InputSender {
    inputs: Sender<Input>,
    waker: Waker,
}

impl InputSender {
    pub(super) fn new(inputs: Sender<Input>, waker: Waker) -> Self {
        Self { inputs, waker }
    }

    pub(super) fn send(&self, input: Input) {
        // An agent that has stopped needs no more inputs.
        let _ = self.inputs.send(input);
        self.waker.wake();
    }
}

/// Returns a name that is unique among all agents of this machine, past and future.
pub(super) fn incarnation() -> Incarnation {
    let (boot, ticks, pid) = (proc::boot_id(), clock::boot_ticks(), std::process::id());
    Incarnation::new(format!("{boot}-{ticks}-{pid}"))
}
