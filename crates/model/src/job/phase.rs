//! The phase of a job, with the data that exists only in that phase.

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::job::end::{JobEnd, RunTotals};
use crate::job::hold::Holder;
use crate::job::pause::PauseCause;
use crate::job::state::JobState;
use crate::job::stop::StopCause;
use crate::launch::NodeLack;
use crate::unit::Timestamp;

/// The phase of a job; each variant holds the data that exists only in that phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Held: not scheduled until released.
    Held {
        /// The holder; decides who may release it.
        by: Holder,
        /// The time at which this began.
        since: Timestamp,
        /// What a node lacked when it was about to start, if it is held because no node has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<NodeLack>,
    },
    /// Waits for other jobs, or for a time.
    Waiting {
        /// The time at which this began.
        since: Timestamp,
    },
    /// Starts as soon as there is capacity.
    Pending {
        /// Since when; escalation counts from here, plus [`crate::Job::waited`].
        since: Timestamp,
    },
    /// An array that has no unstarted elements but some that have not ended.
    Underway {
        /// The time at which this began.
        since: Timestamp,
    },
    /// The server has ordered its start.
    Starting {
        /// The allocation of each task, by rank.
        allocations: Vec<Allocation>,
        /// The time at which this began.
        since: Timestamp,
    },
    /// It runs.
    Running {
        /// The allocation of each task, by rank.
        allocations: Vec<Allocation>,
        /// When its first task started.
        started_at: Timestamp,
    },
    /// Its processes are stopped in memory, or are about to be. It holds host memory and continues
    /// on the same devices.
    Paused {
        /// The allocation of each task, by rank: pausing, paused, or claiming the devices to
        /// continue on.
        allocations: Vec<Allocation>,
        /// When its first task started.
        started_at: Timestamp,
        /// The time at which this began.
        since: Timestamp,
        /// The reason.
        why: PauseCause,
        /// The holder that keeps it from resuming, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Holder>,
    },
    /// It was asked to end and has not ended yet.
    Stopping {
        /// The allocation of each task, by rank.
        allocations: Vec<Allocation>,
        /// When its first task started, if it did.
        started_at: Option<Timestamp>,
        /// The reason.
        cause: StopCause,
        /// The time at which this began.
        since: Timestamp,
    },
    /// It has ended; never changes again.
    Ended(Box<JobEnd>),
}

impl Phase {
    /// The allocations of its tasks, by rank.
    #[must_use]
    pub fn allocations(&self) -> &[Allocation] {
        match self {
            Self::Starting { allocations, .. }
            | Self::Running { allocations, .. }
            | Self::Paused { allocations, .. }
            | Self::Stopping { allocations, .. } => allocations,
            Self::Held { .. }
            | Self::Waiting { .. }
            | Self::Pending { .. }
            | Self::Underway { .. }
            | Self::Ended(_) => &[],
        }
    }

    /// The allocations, mutable; empty if it has none.
    pub fn allocations_mut(&mut self) -> &mut [Allocation] {
        match self {
            Self::Starting { allocations, .. }
            | Self::Running { allocations, .. }
            | Self::Paused { allocations, .. }
            | Self::Stopping { allocations, .. } => allocations,
            Self::Held { .. }
            | Self::Waiting { .. }
            | Self::Pending { .. }
            | Self::Underway { .. }
            | Self::Ended(_) => &mut [],
        }
    }

    /// The state that users see.
    #[must_use]
    pub fn state(&self) -> JobState {
        match self {
            Self::Held { .. } => JobState::Held,
            Self::Waiting { .. } => JobState::Waiting,
            Self::Pending { .. } => JobState::Pending,
            Self::Starting { .. } => JobState::Starting,
            Self::Running { .. } | Self::Underway { .. } => JobState::Running,
            Self::Paused { .. } => JobState::Paused,
            Self::Stopping { .. } => JobState::Stopping,
            Self::Ended(end) => end.outcome.state(),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Whether it is to be paused, and some of its tasks are not yet.
    #[must_use]
    pub fn is_pausing(&self) -> bool {
        match self {
            Self::Paused { allocations, .. } => allocations.iter().any(Allocation::is_pausing),
            _ => false,
        }
    }

    /// Whether all its tasks are paused: it uses nothing but host memory.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        match self {
            Self::Paused { allocations, .. } => allocations.iter().all(Allocation::is_paused),
            _ => false,
        }
    }

    /// Since when it could start or resume if there were capacity; `None` if something else keeps
    /// it.
    #[must_use]
    pub fn waits_for_room_since(&self) -> Option<Timestamp> {
        match self {
            Self::Pending { since } => Some(*since),
            Self::Paused { since, held: None, .. } if self.is_parked() => Some(*since),
            _ => None,
        }
    }
}

impl RunTotals {
    /// Totals of a run, which may not have ended.
    #[must_use]
    pub fn of(phase: &Phase, now: Timestamp) -> Self {
        let started_at = match phase {
            Phase::Ended(end) => return (&**end).into(),
            Phase::Running { started_at, .. } | Phase::Paused { started_at, .. } => {
                Some(*started_at)
            }
            Phase::Stopping { started_at, .. } => *started_at,
            Phase::Held { .. }
            | Phase::Waiting { .. }
            | Phase::Pending { .. }
            | Phase::Starting { .. }
            | Phase::Underway { .. } => None,
        };
        Self::new(phase.allocations(), started_at, now)
    }
}
