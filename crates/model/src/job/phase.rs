//! The phase of a job: where it is in its life, with the facts that hold only there.

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::job::end::{JobEnd, RunTotals};
use crate::job::hold::Holder;
use crate::job::pause::PauseCause;
use crate::job::state::JobState;
use crate::job::stop::StopCause;
use crate::launch::Missing;
use crate::unit::Timestamp;

/// Where a job is in its life; each variant holds what is only true there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Kept from being considered until released.
    Held {
        /// Who may release it.
        by: Holder,
        /// Since when.
        since: Timestamp,
        /// What was missing when it should have started, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<Missing>,
    },
    /// Waits for other jobs, or for a moment.
    Waiting {
        /// Since when.
        since: Timestamp,
    },
    /// Could start as soon as there is room.
    Pending {
        /// Since when; escalation counts from here, plus [`crate::Job::waited`].
        since: Timestamp,
    },
    /// Every element of an array has been started, and some have not ended.
    Underway {
        /// Since when.
        since: Timestamp,
    },
    /// Its node was told to start it.
    Starting {
        /// One of each task, by rank.
        allocations: Vec<Allocation>,
        /// Since when.
        since: Timestamp,
    },
    /// It runs.
    Running {
        /// One of each task, by rank.
        allocations: Vec<Allocation>,
        /// When its first task started.
        started_at: Timestamp,
    },
    /// Its processes are stopped where they are, or were told to. It holds host memory, and goes on
    /// on the same devices.
    Paused {
        /// One of each task, by rank: pausing, paused, or claiming what it goes on on.
        allocations: Vec<Allocation>,
        /// When its first task started.
        started_at: Timestamp,
        /// Since when.
        since: Timestamp,
        /// Why.
        why: PauseCause,
        /// Who keeps it from going on, if anybody does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Holder>,
    },
    /// It was told to end and has not yet.
    Stopping {
        /// One of each task, by rank.
        allocations: Vec<Allocation>,
        /// When its first task started, if it had.
        started_at: Option<Timestamp>,
        /// Why it is being stopped.
        cause: StopCause,
        /// Since when.
        since: Timestamp,
    },
    /// It has ended; never changes again.
    Ended(Box<JobEnd>),
}

impl Phase {
    /// What its tasks hold now, by rank.
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

    /// The same, to be changed; empty where nothing is held.
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

    /// The state in one word.
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

    /// Whether all its tasks are stopped where they are: it uses nothing but host memory.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        match self {
            Self::Paused { allocations, .. } => allocations.iter().all(Allocation::is_paused),
            _ => false,
        }
    }

    /// Since when it could start, or go on, as soon as there is room; `None` if it could not.
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
    /// Totals of a run that may not have ended.
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
