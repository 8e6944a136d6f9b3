//! Why jobs that run are stopped.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::{Exit, TakenBack};
use crate::id::JobId;
use crate::job::end::EndCause;

/// Why a job that runs is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum StopCause {
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: Arc<str>,
    },
    /// More elements of its array failed than may.
    TooManyFailed {
        /// How many may.
        most: u32,
    },
    /// Somebody put it back, to be run again.
    Requeued {
        /// Who.
        by: Arc<str>,
        /// Whether it is held then.
        hold: bool,
    },
    /// What it holds is taken back for another.
    TakenBack {
        /// Why.
        why: TakenBack,
        /// For which job.
        beneficiary: JobId,
        /// In which way: what follows.
        #[serde(default = "Exit::usual", skip_serializing_if = "Exit::is_usual")]
        exit: Exit,
    },
    /// A task of its gang ended and had not succeeded, or was its launcher: the others end with
    /// it.
    TaskFailed {
        /// Which.
        rank: u32,
    },
    /// A task of its gang was not launched, because others use its devices: all of it is run again.
    TaskRefused {
        /// Which.
        rank: u32,
    },
    /// The run of the job that it joined is over.
    GangEnded {
        /// Which job.
        job: JobId,
    },
}

impl StopCause {
    /// What stands behind the end of a job that was stopped for that.
    #[must_use]
    pub fn end_cause(&self) -> EndCause {
        match self {
            Self::Cancelled { by } | Self::Requeued { by, .. } => {
                EndCause::Cancelled { by: Arc::clone(by) }
            }
            Self::TooManyFailed { most } => EndCause::TooManyFailed { most: *most },
            Self::TakenBack { why, beneficiary, .. } => {
                EndCause::TakenBack { why: *why, beneficiary: *beneficiary }
            }
            Self::TaskFailed { rank } => EndCause::TaskFailed { rank: *rank },
            Self::TaskRefused { rank } => EndCause::TaskRefused { rank: *rank },
            Self::GangEnded { job } => EndCause::GangEnded { job: *job },
        }
    }
}
