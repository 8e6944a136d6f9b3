//! The forecast of a waiting job's start, as data. `control` computes it; the edges format it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gpu::GpuRequest;
use crate::id::{JobId, NodeName, ProjectName, ReservationName};
use crate::policy::UserCap;
use crate::unit::{Bytes, MilliCpu, Millis, Timestamp};

/// The likely start of a job: three times in ascending order. A missing one is beyond the horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eta {
    /// 10th percentile: running jobs end as early as similar jobs do.
    pub p10: Option<Timestamp>,
    /// Median.
    pub p50: Option<Timestamp>,
    /// 90th percentile: running jobs take as long as similar jobs do, corrected by the observed
    /// error.
    pub p90: Option<Timestamp>,
    /// How the ends of other jobs were estimated.
    pub basis: Basis,
    /// The end of the simulated time.
    pub horizon: Timestamp,
}

/// How the ends of jobs are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// From time limits alone.
    Limit,
    /// From the run times of similar jobs and the time that each has run.
    Predicted,
    /// Some from limits, some from predictions.
    Mixed,
}

impl Basis {
    /// The combination of two bases.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }

    /// Its name, the same as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Predicted => "predicted",
            Self::Mixed => "mixed",
        }
    }
}

/// A change that might let a waiting job start sooner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhatIf {
    /// It requests other GPUs: fewer, or another model.
    Gpus {
        /// The new request.
        gpus: GpuRequest,
    },
    /// Its time limit changes.
    TimeLimit {
        /// The limit.
        limit: Millis,
    },
    /// It requests fewer cores.
    Cpus {
        /// The new number; 0 books none.
        cpus: MilliCpu,
    },
    /// It requests less memory.
    Memory {
        /// The new amount; 0 books none.
        memory: Bytes,
    },
    /// It is released from its hold.
    Release,
    /// It is resumed if it is paused.
    Resume,
    /// It has a higher priority.
    Priority {
        /// The priority.
        priority: i32,
    },
    /// A dependency on another job is removed.
    WithoutDependency {
        /// The job.
        job: JobId,
    },
    /// Its begin time is removed.
    WithoutBegin,
    /// Its deadline is removed.
    WithoutDeadline,
    /// A cap of its user is removed.
    WithoutCap {
        /// The user.
        user: Arc<str>,
        /// The cap.
        cap: UserCap,
        /// The project that sets the cap; `None` is the policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<ProjectName>,
    },
    /// A reservation or maintenance window is removed.
    WithoutReservation {
        /// The reservation.
        reservation: ReservationName,
        /// Whether it is a maintenance window.
        maintenance: bool,
    },
    /// Another job ends now.
    Ended {
        /// The job.
        job: JobId,
    },
    /// An unusable device becomes usable.
    DeviceUsable {
        /// The node.
        node: NodeName,
        /// The device's index.
        index: u32,
    },
    /// A node takes jobs again: its drain ends, or its agent answers.
    NodeBack {
        /// The node.
        node: NodeName,
    },
}

impl WhatIf {
    /// Its stable code, the same as in JSON.
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
