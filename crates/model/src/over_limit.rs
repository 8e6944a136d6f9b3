//! The policy for jobs that use more GPU memory than their limit, where nothing caps them.

use serde::{Deserialize, Serialize};

use crate::unit::Bytes;

/// The action on a job above its limit. It is shown in any case.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OverLimit {
    /// None.
    #[default]
    Report,
    /// Its owner gets a notification.
    Warn,
    /// It is requeued. The owner of a notebook, or of a job that must not be requeued, gets a
    /// notification instead.
    Requeue,
    /// It is cancelled.
    Cancel,
}

impl OverLimit {
    /// Every value with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("report", Self::Report),
        ("warn", Self::Warn),
        ("requeue", Self::Requeue),
        ("cancel", Self::Cancel),
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Warn => "warn",
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
        }
    }

    /// Whether it is the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(crate) fn is_report(&self) -> bool {
        *self == Self::Report
    }
}

/// The memory of one device that a job uses above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverMemory {
    /// The index of the device.
    pub device: u32,
    /// The most that it may use.
    pub limit: Bytes,
    /// The memory that it used.
    pub used: Bytes,
}
