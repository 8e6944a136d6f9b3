//! Inputs and actions of an agent.

use gpool_model::agent::{
    MoveReason, Order, Report, TaskEnd, TaskIs, TaskOrder, TaskReport, Terms,
};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::unit::{Millis, Timestamp};
use gpool_model::{Device, Sharer, SignalTo, Slot};
use serde::{Deserialize, Serialize};

/// Where a task is. The server books devices so that whole ones stay free; the node may spread
/// shares over others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seats {
    /// Its parts of devices, with the devices that it uses.
    pub slots: Vec<Slot>,
    /// The devices that the server booked, by slot.
    pub booked: Vec<DeviceUuid>,
    /// The job, as others on its devices see it, if it has shares.
    pub sharer: Option<Sharer>,
    /// Whether no driver can move it: it frees its devices itself, and so stays on them.
    pub is_pinned: bool,
}

/// How a node moves running tasks between its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    #[default]
    No,
    /// Tasks leave nothing on a device.
    Freely,
    /// The driver restores their memory on the other device. That can fail, so the memory of a
    /// task on the old device is kept for it until then.
    ByDriver,
}

impl Seats {
    #[must_use]
    pub fn booked(slots: &[Slot]) -> Self {
        let booked = slots.iter().map(|slot| slot.device.clone()).collect();
        Self { slots: slots.to_vec(), booked, ..Self::default() }
    }

    /// Notes that the task came to these devices, and those that are booked for it now; none if
    /// that did not change. Parts that exclude others are always on the devices that are booked.
    pub fn come_to(&mut self, devices: &[DeviceUuid], booked: &[DeviceUuid]) {
        for (ix, (slot, device)) in self.slots.iter_mut().zip(devices).enumerate() {
            slot.device = device.clone();
            let now = if slot.part.is_alone() { Some(device) } else { booked.get(ix) };
            if let (Some(now), Some(booked)) = (now, self.booked.get_mut(ix)) {
                booked.clone_from(now);
            }
        }
    }

    /// The action that resumes the task there.
    pub(crate) fn resume(&self, task: TaskId, generation: Generation) -> Action {
        let (devices, booked) = (self.devices(), self.booked.clone());
        Action::Resume { task, generation, devices, booked }
    }

    /// The devices that the task uses, by slot.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceUuid> {
        self.slots.iter().map(|slot| slot.device.clone()).collect()
    }
}

/// The result of an order to pause or resume a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halting {
    Paused,
    Resumed,
    /// It could not be paused, and runs.
    NotPaused {
        why: String,
    },
    /// It could not resume on other devices, and is paused.
    NotMoved {
        why: String,
        /// The devices on which it can resume, by slot.
        devices: Vec<DeviceUuid>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Order(Order),
    /// The devices of the node, and how it moves running tasks between them.
    Devices {
        /// In the driver's order.
        devices: Vec<Device>,
        moves: Moves,
    },
    /// A task should leave a device, because it keeps memory of it that was called back.
    Relocate {
        task: TaskId,
        from: DeviceUuid,
        /// Devices with room for all of its memory, the best first.
        to: Vec<DeviceUuid>,
        /// The task that needs the memory.
        beneficiary: TaskId,
    },
    /// A task that is already on this node: found when the agent started, launched by another
    /// shepherd, or connected again.
    Found {
        report: TaskReport,
        seats: Seats,
        /// Whether it left its devices, to go to others.
        is_detached: bool,
        /// Whether its shepherd has carried out all orders of earlier agents. Before that, the
        /// task may still move.
        is_settled: bool,
    },
    Started {
        task: TaskId,
        /// The process ID of its program.
        pid: u32,
        started_at: Timestamp,
    },
    /// The new terms of this generation are noted in the task's claim.
    Changed {
        task: TaskId,
        generation: Generation,
    },
    /// A task was paused or resumed by the order of this generation, or could not be paused.
    Halted {
        task: TaskId,
        generation: Generation,
        halting: Halting,
    },
    /// A task has left its devices, to go to others, or could not leave them.
    Detached {
        task: TaskId,
        /// Whether it uses no device now.
        is_done: bool,
    },
    /// A task that left its devices waits until those that it was sent to have room for it. It may
    /// take long, so it keeps nothing of the old ones.
    Parked {
        task: TaskId,
    },
    /// A task has come to the devices that it was sent to.
    Attached {
        task: TaskId,
    },
    /// A task could not come to the devices that it was sent to, and uses none.
    NotAttached {
        task: TaskId,
        /// The devices that it had before.
        left: Vec<DeviceUuid>,
    },
    /// Other processes use devices of a task, so it was not launched.
    Refused {
        task: TaskId,
        devices: Vec<DeviceUuid>,
    },
    /// A task has ended, could not be launched, or was prevented.
    Ended {
        task: TaskId,
        end: TaskEnd,
    },
}

/// An action that an agent carries out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Launch a task, or refuse it because of its devices.
    Launch {
        /// The server's order, with the booked devices.
        order: Box<TaskOrder>,
        seats: Seats,
    },
    /// Let a running task leave its devices; its memory there is kept.
    Detach { task: TaskId, reason: MoveReason },
    /// Leave a task where it is: it can't come to any of the devices of [`Input::Relocate`].
    Stay { task: TaskId },
    /// Bring a task that left its devices to these, and note them in its claim.
    Attach {
        task: TaskId,
        /// The devices, by slot.
        devices: Vec<DeviceUuid>,
    },
    /// Make sure that a task is never launched here, then report its end; or report its state if it
    /// was already launched.
    Prevent { task: TaskId, generation: Generation },
    Stop {
        task: TaskId,
        /// Time between SIGTERM and SIGKILL.
        grace: Millis,
        /// The signal in place of SIGTERM.
        signal: Option<i32>,
    },
    /// Change a task's terms, note them in the claim, then report it.
    Change { task: TaskId, generation: Generation, terms: Terms },
    /// Pause a task's processes, note it in the claim, then report it.
    Pause {
        task: TaskId,
        generation: Generation,
        /// Whether its processes run on: only its devices are freed.
        runs_on: bool,
    },
    /// Resume a task's processes, note it in the claim, then report it.
    Resume {
        task: TaskId,
        generation: Generation,
        /// Its devices from now on, by slot.
        devices: Vec<DeviceUuid>,
        /// Those that are booked for it.
        booked: Vec<DeviceUuid>,
    },
    /// Send a task's processes a signal.
    Signal { task: TaskId, signal: i32, to: SignalTo },
    /// Send a report to the server; the agent fills in the stamp.
    Report(Report),
    /// Discard the records of a task that has ended.
    Forget(TaskId),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FoundState {
    /// Its program has not started.
    Launching,
    Running,
    Paused,
    /// It was between devices.
    Detached,
}

pub(crate) enum FollowUp {
    Act(Action),
    /// The task can't be launched: guests that can't move are on these devices.
    Refuse(TaskId, Vec<DeviceUuid>),
}

/// Whether a task is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    No,
    Pausing,
    /// It is paused.
    Done,
    /// It is paused, and was ordered to go on.
    Going,
    /// It could not be paused, for this reason.
    Failed(String),
    /// It is paused, because it could not resume on other devices than these.
    Stays(String, Vec<DeviceUuid>),
}

impl Halt {
    /// The same after an order to go on. A later order to pause is a new one, although the task may
    /// still be paused.
    pub fn ordered_to_go_on(&self) -> Self {
        match self {
            Self::Done | Self::Going | Self::Stays(..) => Self::Going,
            Self::No | Self::Pausing | Self::Failed(_) => self.clone(),
        }
    }

    /// The state of a running task, for the server.
    pub fn task_state(&self, pid: u32, started_at: Timestamp) -> TaskIs {
        match self {
            Self::No | Self::Pausing => TaskIs::Running { pid, started_at },
            Self::Done | Self::Going => TaskIs::Paused { pid, started_at },
            Self::Failed(why) => TaskIs::NotPaused { pid, started_at, why: why.clone() },
            Self::Stays(why, devices) => {
                let (why, devices) = (why.clone(), devices.clone());
                TaskIs::NotMoved { pid, started_at, why, devices }
            }
        }
    }
}
