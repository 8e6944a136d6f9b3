//! A task of an agent: its orders, and its state by the last answer.

use gpool_model::SlotPart;
use gpool_model::agent::{TaskEnd, TaskIs, TaskReport, Terms};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};

use crate::action::{Action, Halt};

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub generation: Generation,
    /// The generation of the last order to pause or resume it. Terms that change later do not make
    /// the answer to that order an old one.
    pub halt_generation: Generation,
    pub state: TaskState,
    /// Terms that wait for room on its devices.
    pub growth: Option<Box<Growth>>,
}

/// Terms with which shares of a running task grow.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    pub generation: Generation,
    pub terms: Terms,
    /// Its parts of devices until then, by slot.
    pub before: Vec<SlotPart>,
}

impl Growth {
    /// Whether a share gets more memory.
    pub fn is_more(&self) -> bool {
        let memory = |part: &SlotPart| part.memory_of(Bytes::ZERO);
        self.before.iter().zip(&self.terms.parts).any(|(old, new)| memory(old) < memory(new))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// Passed to the launcher. `stop` is the last stop order, if there was one.
    Launching {
        stop: Option<Ending>,
    },
    /// Stopped before it was launched here; the launcher makes sure that it never will be.
    Preventing {
        ending: Ending,
    },
    Running {
        pid: u32,
        started_at: Timestamp,
        stop: Option<Ending>,
        halt: Halt,
    },
    /// It has ended, and the server has not acknowledged it.
    Ended(TaskEnd),
    /// It was not launched; an order of a later generation may name other devices.
    Refused {
        devices: Vec<DeviceUuid>,
    },
}

/// The stop order of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub grace: Millis,
    /// In place of SIGTERM.
    pub signal: Option<i32>,
}

impl Ending {
    /// Whether `other` adds nothing to this order: it ends the task no sooner, and it is no plain
    /// stop after an order to save.
    pub fn covers(self, other: Self) -> bool {
        self.grace <= other.grace && (self.signal.is_none() || other.signal.is_some())
    }

    pub fn action(self, task: TaskId) -> Action {
        Action::Stop { task, grace: self.grace, signal: self.signal }
    }
}

impl Task {
    pub fn new(generation: Generation, state: TaskState) -> Self {
        Self { generation, halt_generation: Generation::default(), state, growth: None }
    }

    /// Whether it is under way and has no stop order.
    pub fn goes_on(&self) -> bool {
        matches!(
            self.state,
            TaskState::Launching { stop: None } | TaskState::Running { stop: None, .. }
        )
    }

    pub fn report(&self, task: TaskId) -> TaskReport {
        let is = match &self.state {
            TaskState::Launching { .. } | TaskState::Preventing { .. } => TaskIs::Launching,
            TaskState::Running { pid, started_at, halt, .. } => {
                let (pid, started_at) = (*pid, *started_at);
                halt.task_state(pid, started_at)
            }
            TaskState::Ended(end) => TaskIs::Ended(end.clone()),
            TaskState::Refused { devices } => TaskIs::Refused { devices: devices.clone() },
        };
        TaskReport { task, generation: self.generation, is }
    }
}
