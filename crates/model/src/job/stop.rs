//! Why running jobs are stopped.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::{Exit, TakenBack};
use crate::id::JobId;
use crate::job::end::EndCause;

/// Why a running job is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A user cancelled it.
    Cancelled {
        /// The user.
        by: Arc<str>,
    },
    /// More elements of its array failed than allowed.
    TooManyFailed {
        /// The limit.
        most: u32,
    },
    /// A user requeued it.
    Requeued {
        /// The user.
        by: Arc<str>,
        /// Whether it is held afterwards.
        hold: bool,
    },
    /// It is evicted for another job.
    TakenBack {
        /// The reason.
        why: TakenBack,
        /// The job that gets its devices.
        beneficiary: JobId,
        /// The exit; decides how the job continues afterwards.
        #[serde(default = "Exit::usual", skip_serializing_if = "Exit::is_usual")]
        exit: Exit,
    },
    /// A task of its gang failed, or its launcher ended: the other tasks end too.
    TaskFailed {
        /// The rank of the task.
        rank: u32,
    },
    /// A task of its gang was not launched because other processes use its devices: the whole gang
    /// runs again.
    TaskRefused {
        /// The rank of the task.
        rank: u32,
    },
    /// The run of the job that it joined has ended.
    GangEnded {
        /// The job that it joined.
        job: JobId,
    },
}

impl StopCause {
    /// The end cause of a job that was stopped for this reason.
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
