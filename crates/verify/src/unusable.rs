//! The reasons for which new work may not have a device.

use thiserror::Error;

/// Why a device may not be given to new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unusable {
    /// It is faulty or lost, or does not answer.
    #[error("unhealthy")]
    Unhealthy,
    /// A process that gpool did not start uses it.
    #[error("in use outside gpool")]
    Unmanaged,
    /// An admin has excluded it from new work.
    #[error("closed for new jobs")]
    NotAllowed,
    /// An admin drains it or its node.
    #[error("drained")]
    Drained,
    /// It is divided into MIG instances.
    #[error("divided into MIG instances")]
    Divided,
    /// A job that booked another device is on it, and can't move.
    #[error("in use by a job that can't move")]
    Guest,
}
