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
}

impl Policy {
    /// The default: small jobs first, old ones escalated, lowest device index first.
    #[must_use]
    pub fn fair() -> Self {
        Self {
            preset: "fair".to_owned(),
            order: vec![OrderKey::Priority, OrderKey::Escalated, OrderKey::Gpus, OrderKey::Age],
            escalate_after: Millis::from_hours(24),
            device_strategy: DeviceStrategy::Sequential,
            user_priority_max: 0,
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
    /// Fewer GPUs of the whole gang first.
    Gpus,
    /// Earlier submission first.
    Age,
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
