//! A task that has devices, and one that waits for them.

use gpool_model::agent::{MoveIs, Report, TaskOrder};
use gpool_model::id::{Generation, TaskId};

use crate::action::{Action, FollowUp, Seats};
use crate::moving::Moving;

/// A task that has devices.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// Where it is; where it goes, if it uses no device now.
    pub seats: Seats,
    pub state: PlacementState,
    /// Whether a move has failed.
    pub is_stuck: bool,
    /// Whether it keeps nothing of the devices that it left, until it comes to others.
    pub is_parked: bool,
    /// An order to resume that came while the task was between devices.
    pub resume: Option<Generation>,
    /// The move that is not over yet.
    pub moving: Option<Moving>,
}

impl Placed {
    pub fn new(seats: Seats, state: PlacementState) -> Self {
        Self { seats, state, is_stuck: false, is_parked: false, resume: None, moving: None }
    }

    /// The report of its move, which is over.
    pub fn report(&mut self, task: TaskId, is: MoveIs) -> Option<FollowUp> {
        self.is_parked = false;
        let report = self.moving.take()?.ended(task, &self.seats.slots, is)?;
        Some(FollowUp::Act(Action::Report(Report::Move(report))))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacementState {
    /// It uses no device: it was not launched yet, or it is between devices.
    Away,
    /// It uses no device now. An earlier agent may have ordered it to any, and its shepherd has
    /// not connected since.
    Unsettled,
    /// It is being launched, or resumes on its devices. It can't be moved yet.
    Coming,
    /// It comes to its devices from others.
    Attaching,
    Running,
    /// It leaves its devices, to go to others.
    Leaving,
    /// The server paused it: it uses no device.
    Paused,
}

/// A task that waits for its devices.
#[derive(Debug, Clone)]
pub(crate) struct WaitingTask {
    pub task: TaskId,
    /// Whether its devices are chosen. Later tasks wait until they are.
    pub is_placed: bool,
    pub aim: Aim,
}

#[derive(Debug, Clone)]
pub(crate) enum Aim {
    Launch(Box<TaskOrder>),
    Resume(Generation),
    /// It is between devices.
    Attach,
}
