//! The inputs of the agent's thread from other threads, and the name of this run of the agent.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use gpool_model::LeaseTerms;
use gpool_model::agent::{LoanReport, Order, Report, TaskEnd};
use gpool_model::attach::Opening;
use gpool_model::id::{DeviceUuid, Generation, Incarnation, TaskId};
use gpool_model::job::{BlobId, EndCause};
use gpool_model::launch::Lack;
use gpool_model::mig_layout::MigChange;
use gpool_model::unit::{Bytes, Millis};
use gpool_protocol::{QuestionId, Telemetry};
use gpool_sys::{clock, proc};

use crate::wake::Waker;
use gpool_shepherd::message::DeviceMemory;

/// An input from another thread.
pub(crate) enum ThreadInput {
    /// An order, with the beat that it carries.
    Order(Box<Order>, Option<u64>),
    /// The server gives the agent a lease.
    Lease(LeaseTerms),
    /// The server has answered a beat.
    Renewed(u64),
    /// The devices and resources of this node.
    Inventory(Box<Report>),
    /// A file of a task that is to be launched, or the server's answer why there is none.
    Blob {
        task: TaskId,
        id: BlobId,
        content: io::Result<Vec<u8>>,
    },
    /// The value of a secret of a task that is to be launched, or why there is none.
    Secret {
        task: TaskId,
        name: String,
        value: io::Result<Vec<u8>>,
    },
    /// The part that the node lacks for the container of a task, if any.
    Image {
        task: TaskId,
        lack: Option<Lack>,
    },
    /// A complete working folder for a task, or why there is none.
    Folder {
        task: TaskId,
        built: Result<PathBuf, EndCause>,
    },
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
    LeftoversEnded(TaskId),
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
    LoanAction(LoanAction),
    /// List or change MIG instances.
    Divide(Box<Division>),
    Stop,
}

/// A paused task that comes to other devices.
pub(crate) struct Move {
    pub task: TaskId,
    /// The devices that it left, by slot.
    pub from: Vec<DeviceUuid>,
    /// Its new devices, by slot.
    pub to: Vec<DeviceUuid>,
    /// The most memory on each of these.
    pub limits: Vec<(DeviceUuid, Bytes)>,
    /// What waits for the limits, with the devices that are booked for it if that changed.
    pub then: Option<(Then, Vec<DeviceUuid>)>,
}

/// How a task comes to its new devices.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// By an order of the server.
    Resume(Generation),
    /// At the end of a move.
    Attach,
}

/// An action on a borrower, or an event, for the agent's thread.
pub(crate) enum LoanAction {
    /// Tell the task how much memory it may use.
    Tell(TaskId, Vec<DeviceMemory>),
    /// Move the task from a device to the first of others that takes it.
    Move {
        task: TaskId,
        from: DeviceUuid,
        to: Vec<DeviceUuid>,
        beneficiary: TaskId,
    },
    /// Let the task leave its devices: it has given back its loans, or does not.
    Leave(TaskId),
    /// Let the task come to these devices, which have room for it.
    Attach(TaskId, Vec<DeviceUuid>),
    /// The task that left its devices waits for room on others.
    Parked(TaskId),
    Pause(TaskId),
    Return(TaskId),
    Stop(TaskId, Millis),
    Report(LoanReport),
}

pub(crate) struct StreamRequest {
    /// The question that the stream answers.
    pub question: QuestionId,
    pub task: TaskId,
    pub opening: Opening,
}

/// A request about MIG instances.
pub(crate) struct Division {
    pub question: QuestionId,
    /// The change; `None` only lists them.
    pub change: Option<MigChange>,
}

/// The sending side of the agent's inputs.
#[derive(Clone)]
pub(crate) struct InputSender {
    inputs: Sender<ThreadInput>,
    waker: Waker,
}

impl InputSender {
    pub(crate) fn new(inputs: Sender<ThreadInput>, waker: Waker) -> Self {
        Self { inputs, waker }
    }

    pub(crate) fn send(&self, input: ThreadInput) {
        // An agent that has stopped needs no more inputs.
        let _ = self.inputs.send(input);
        self.waker.wake();
    }
}

/// Returns a name that is unique among all agents of this machine, past and future.
pub(crate) fn incarnation() -> Incarnation {
    let (boot, ticks, pid) = (proc::boot_id(), clock::boot_ticks(), std::process::id());
    Incarnation::new(format!("{boot}-{ticks}-{pid}"))
}
