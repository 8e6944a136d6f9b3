//! Paused jobs: their processes are stopped in memory and continue later, or run on without GPU.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::TakenBack;
use crate::id::JobId;

/// Why a job is paused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// A user paused it.
    Asked {
        /// The user.
        by: Arc<str>,
    },
    /// It did not use its devices, and they were released. Its processes run on, and their next GPU
    /// call waits until it has its devices again.
    Idle,
    /// It was evicted for another job.
    TakenBack {
        /// The reason.
        why: TakenBack,
        /// The job that got its devices.
        beneficiary: JobId,
    },
    /// It could not resume on other devices, and waits for its own.
    NotMoved {
        /// The reason, for people.
        why: Arc<str>,
    },
}
