//! Jobs whose processes are stopped where they are, to go on later.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::{Job, Phase};
use crate::plan::TakenBack;
use crate::unit::{Millis, Timestamp};

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

impl Job {
    /// For how long its program ran in this attempt up to a moment, without the time that it was
    /// paused.
    #[must_use]
    pub fn ran(&self, now: Timestamp) -> Millis {
        let (started_at, until) = match &self.phase {
            Phase::Running { started_at, .. } => (*started_at, now),
            Phase::Paused { started_at, since, .. } => (*started_at, *since),
            _ => return Millis::ZERO,
        };
        until.since(started_at).saturating_sub(self.course.paused)
    }
}
