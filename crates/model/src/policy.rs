//! How the scheduler decides. A preset sets every field, so nothing is decided by an absence.

use serde::{Deserialize, Serialize};

use crate::unit::Millis;

/// All that the scheduler and admission may vary by configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The preset it started from.
    pub preset: String,
    /// Order of jobs, compared left to right; then age and the job id decide, always.
    pub order: Vec<OrderKey>,
    /// After how long a wait a job goes before those that have not waited so long.
    pub escalate_after: Millis,
    /// Which whole devices of a node are given out first.
    pub device_strategy: DeviceStrategy,
    /// Highest priority that a user may ask for; admins may ask for any.
    pub user_priority_max: i32,
    /// How many jobs that wait for room have a time and place kept for them.
    #[serde(default = "PlannedStarts::one")]
    pub planned_starts: PlannedStarts,
}

/// How many jobs may have a planned start at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedStarts {
    /// Jobs that are escalated or the first of their priority, so many at most.
    AtMost(u32),
    /// Every job that waits for room, one after another: conservative backfill.
    All,
}

impl PlannedStarts {
    /// What a policy has that does not say.
    #[must_use]
    pub fn one() -> Self {
        Self::AtMost(1)
    }
}

impl Policy {
    /// The default: small jobs first, old ones escalated, lowest device index first.
    #[must_use]
    pub fn fair() -> Self {
        use OrderKey::{Age, Escalated, Gpus, Priority};
        Self::of("fair", vec![Priority, Escalated, Gpus, Age])
    }

    /// Small jobs first whatever their priority, those that have waited for an hour before them.
    #[must_use]
    pub fn valohai() -> Self {
        use OrderKey::{Age, Escalated, Gpus};
        let policy = Self::of("valohai", vec![Escalated, Gpus, Age]);
        Self { escalate_after: Millis::from_hours(1), ..policy }
    }

    /// First come, first served.
    #[must_use]
    pub fn fifo() -> Self {
        Self::of("fifo", vec![OrderKey::Age])
    }

    /// By priority, then first come, first served.
    #[must_use]
    pub fn priority() -> Self {
        Self::of("priority", vec![OrderKey::Priority, OrderKey::Age])
    }

    fn of(preset: &str, order: Vec<OrderKey>) -> Self {
        Self {
            preset: preset.to_owned(),
            order,
            escalate_after: Millis::from_hours(24),
            device_strategy: DeviceStrategy::Sequential,
            user_priority_max: 0,
            planned_starts: PlannedStarts::AtMost(1),
        }
    }
}

/// One key of the order of jobs.
///
/// Source: the small-first-with-escalation order was measured on the Philly trace of 2017.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKey {
    /// Higher first.
    Priority,
    /// Jobs that have waited for `escalate_after` go first; among them the oldest, whatever
    /// their size.
    Escalated,
    /// Shorter expected GPU-time first, from how long like jobs ran; without any, from the time
    /// limit; with neither, last.
    Predicted,
    /// Fewer GPUs of the whole gang first.
    Gpus,
    /// Earlier submission first.
    Age,
}

impl OrderKey {
    /// Every key with its word.
    pub const ALL: [(&'static str, Self); 5] = [
        ("priority", Self::Priority),
        ("escalated", Self::Escalated),
        ("predicted", Self::Predicted),
        ("gpus", Self::Gpus),
        ("age", Self::Age),
    ];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Escalated => "escalated",
            Self::Predicted => "predicted",
            Self::Gpus => "gpus",
            Self::Age => "age",
        }
    }
}

/// Which whole devices of a node are given out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceStrategy {
    /// Lowest index.
    Sequential,
    /// By chance, the same for the same job and attempt.
    Random,
    /// Beside devices that are in use, so that groups of linked devices stay whole.
    Pack,
    /// Far from devices that are in use, so that jobs share as few links as may be.
    Spread,
}

impl DeviceStrategy {
    /// Every strategy with its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("sequential", Self::Sequential),
        ("random", Self::Random),
        ("pack", Self::Pack),
        ("spread", Self::Spread),
    ];
}
