//! When a waiting job will likely start, as data. How it is worked out is the business of
//! `control`, and how it is written that of the edges.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gpu::GpuRequest;
use crate::id::{JobId, NodeName, ProjectName, ReservationName};
use crate::policy::UserCap;
use crate::unit::{Bytes, MilliCpu, Millis, Timestamp};

/// When a job will likely start: three moments of which each is at most the next. One that is
/// missing lies beyond the horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eta {
    /// Hardly earlier: everybody ends as early as such jobs do.
    pub p10: Option<Timestamp>,
    /// As likely earlier as later.
    pub p50: Option<Timestamp>,
    /// Hardly later: everybody takes as long as such jobs do, with the error that was learnt.
    pub p90: Option<Timestamp>,
    /// What the ends of other jobs were taken from.
    pub basis: Basis,
    /// As far as was looked.
    pub horizon: Timestamp,
}

/// What the ends of jobs are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Time limits alone.
    Limit,
    /// How long like jobs took, or have run so far.
    Predicted,
    /// Some from the one, some from the other.
    Mixed,
}

impl Basis {
    /// What two of them are together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }

    /// The word for it, the same as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Predicted => "predicted",
            Self::Mixed => "mixed",
        }
    }
}

/// One thing that could be otherwise, so that a waiting job might start sooner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum WhatIf {
    /// It asks for other GPUs: fewer, or of another kind.
    Gpus {
        /// Which.
        gpus: GpuRequest,
    },
    /// It has another time limit.
    TimeLimit {
        /// Which.
        limit: Millis,
    },
    /// It books fewer cores.
    Cpus {
        /// How many; 0 books none.
        cpus: MilliCpu,
    },
    /// It books less memory.
    Memory {
        /// How much; 0 books none.
        memory: Bytes,
    },
    /// Nobody holds it any more.
    Release,
    /// It is resumed, if it is paused.
    Resume,
    /// It has a higher priority.
    Priority {
        /// Which.
        priority: i32,
    },
    /// It no longer waits for another job.
    WithoutDependency {
        /// For which.
        job: JobId,
    },
    /// It may begin at once, whatever begin time it was given.
    WithoutBegin,
    /// It need not end by a deadline.
    WithoutDeadline,
    /// Its user may have more of something.
    WithoutCap {
        /// What the user is called.
        user: Arc<str>,
        /// More of what.
        cap: UserCap,
        /// Which project says so; `None` is the policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<ProjectName>,
    },
    /// A reservation, or a maintenance window, is not there.
    WithoutReservation {
        /// Which.
        reservation: ReservationName,
        /// Whether it is a maintenance window.
        maintenance: bool,
    },
    /// Another job ends now.
    Ended {
        /// Which.
        job: JobId,
    },
    /// A device that no job may have can be given out again.
    DeviceUsable {
        /// On which node.
        node: NodeName,
        /// The device's index.
        index: u32,
    },
    /// A node whose agent does not answer, or which is drained, takes work again.
    NodeBack {
        /// Which.
        node: NodeName,
    },
}

impl WhatIf {
    /// The stable word for it, the same as in JSON.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Gpus { .. } => "gpus",
            Self::TimeLimit { .. } => "time_limit",
            Self::Cpus { .. } => "cpus",
            Self::Memory { .. } => "memory",
            Self::Release => "release",
            Self::Resume => "resume",
            Self::Priority { .. } => "priority",
            Self::WithoutDependency { .. } => "without_dependency",
            Self::WithoutBegin => "without_begin",
            Self::WithoutDeadline => "without_deadline",
            Self::WithoutCap { .. } => "without_cap",
            Self::WithoutReservation { .. } => "without_reservation",
            Self::Ended { .. } => "ended",
            Self::DeviceUsable { .. } => "device_usable",
            Self::NodeBack { .. } => "node_back",
        }
    }
}
