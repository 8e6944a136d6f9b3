//! What the agent's thread is told by others of this process, and the name by which it is known.

use std::sync::mpsc::Sender;

use gpool_model::agent::{Order, Report};
use gpool_model::id::{DeviceUuid, Incarnation, TaskId};
use gpool_sys::{clock, proc};

use super::lines::Asked;
use super::wake::Waker;

/// What comes to the agent's thread from others.
pub(super) enum Input {
    Order(Box<Order>),
    /// What there is on this node.
    Inventory(Box<Report>),
    /// Which of a task's devices must not be used.
    Checked {
        task: TaskId,
        unusable: Vec<DeviceUuid>,
    },
    /// All that a dead shepherd has left of a task has ended.
    Left(TaskId),
    /// Open something towards a task.
    Open(Box<Asked>),
    Stop,
}

/// Where others put it.
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
        // An agent that has stopped needs to know nothing more.
        let _ = self.inputs.send(input);
        self.waker.wake();
    }
}

/// A name that no other agent of this machine has had or will have.
pub(super) fn incarnation() -> Incarnation {
    let (boot, ticks, pid) = (proc::boot_id(), clock::boot_ticks(), std::process::id());
    Incarnation::new(format!("{boot}-{ticks}-{pid}"))
}
