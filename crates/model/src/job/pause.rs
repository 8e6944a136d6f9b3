//! Paused jobs: their processes are stopped in memory and continue later.

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
    /// It was evicted for another job.
    TakenBack {
        /// The reason.
        why: TakenBack,
        /// The job that got its devices.
        beneficiary: JobId,
    },
}
