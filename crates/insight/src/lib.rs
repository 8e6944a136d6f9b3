//! Past use and its cost: utilization by minute ([`usage`]), counters and traces of jobs
//! ([`lives`]), past jobs ([`history`]) and the same past with other resources ([`otherwise`]).

#![forbid(unsafe_code)]

pub mod forecaster;
pub mod history;
pub mod lives;
pub mod otherwise;
pub mod usage;

use std::sync::Arc;

/// What a server knows of the past.
pub struct Insight {
    pub usage: Arc<usage::UsageHistory>,
    pub forecaster: Arc<forecaster::Forecaster>,
    /// Counters and traces of jobs.
    pub lives: Arc<lives::Lives>,
}

fn now() -> gpool_model::Timestamp {
    gpool_model::Timestamp::new(gpool_sys::clock::unix_ms())
}

/// The refusal for a failure that is no caller's.
fn internal(error: impl std::fmt::Display) -> gpool_model::Refusal {
    gpool_model::Refusal::Internal { why: error.to_string() }
}
