//! Past use and its cost: utilization by minute ([`usage`]), counters and traces of jobs
//! ([`lives`]), past jobs ([`history`]) and the same past with other resources ([`otherwise`]).

#![forbid(unsafe_code)]

pub mod forecaster;
pub mod history;
mod insight;
pub mod lives;
pub mod otherwise;
pub mod usage;

pub use insight::Insight;

fn now() -> gpool_model::Timestamp {
    gpool_model::Timestamp::new(gpool_sys::clock::unix_ms())
}

/// The refusal for a failure that is no caller's.
fn internal(error: impl std::fmt::Display) -> gpool_model::Refusal {
    gpool_model::Refusal::Internal { why: error.to_string() }
}
