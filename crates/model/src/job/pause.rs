//! Jobs whose processes are stopped where they are, to go on later.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::TakenBack;
use crate::id::JobId;

/// Why a job is paused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PauseCause {
    /// Somebody asked for it.
    Asked {
        /// Who.
        by: Arc<str>,
    },
    /// What it held was taken back for another.
    TakenBack {
        /// Why.
        why: TakenBack,
        /// For which job.
        beneficiary: JobId,
    },
}
