//! The queue order: the policy's keys, compared left to right; then age, which orders the jobs of
//! one shape; then the job's ID, which makes the order total.

use gpool_model::attained::Level;
use gpool_model::{JobId, Millis, OrderKey, Policy, Shape, Timestamp};

/// A job's place in the queue order; smaller goes first. Among jobs of one priority, jobs that make
/// another job larger come last (scheduling.md A4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Whether the job makes another job larger. Always false where priority is the first key.
    joins: bool,
    keys: [u64; Self::KEYS_MAX],
    submitted_at: Timestamp,
    job: JobId,
}

impl Rank {
    /// A policy names each key at most once.
    const KEYS_MAX: usize = 6;
    /// Priorities are below this, so that their complement is a natural number.
    const PRIORITY_ABOVE: i64 = 1 << 32;

    /// Returns the rank of a job of this shape.
    #[must_use]
    pub fn of(
        policy: &Policy,
        shape: &Shape,
        is_escalated: bool,
        submitted_at: Timestamp,
        job: JobId,
    ) -> Self {
        let mut keys = [0; Self::KEYS_MAX];
        let mut by_age_alone = false;
        for (slot, key) in keys.iter_mut().zip(&policy.order) {
            *slot = match key {
                OrderKey::Priority => {
                    let priority = Self::PRIORITY_ABOVE - i64::from(shape.priority);
                    u64::try_from(priority * 2 + i64::from(shape.joins)).unwrap_or(0)
                }
                OrderKey::Escalated => {
                    by_age_alone = is_escalated;
                    u64::from(!is_escalated)
                }
                // Among escalated jobs the oldest goes first, regardless of its size.
                OrderKey::Gpus | OrderKey::Predicted | OrderKey::Attained if by_age_alone => 0,
                OrderKey::Attained => u64::from(level_of_waiting(shape, is_escalated)),
                OrderKey::Predicted => gpu_time(shape),
                OrderKey::Gpus => shape.gpus_together().get(),
                OrderKey::Age => submitted_at.get(),
            };
        }
        let joins = shape.joins && policy.order.first() != Some(&OrderKey::Priority);
        Self { joins, keys, submitted_at, job }
    }

    /// The job that has this rank.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.job
    }

    /// When that job was submitted.
    #[must_use]
    pub fn submitted_at(&self) -> Timestamp {
        self.submitted_at
    }
}

/// Returns the level of a pending job: the first one once the job is escalated.
#[must_use]
pub fn level_of_waiting(shape: &Shape, is_escalated: bool) -> Level {
    shape.level.filter(|_| !is_escalated).unwrap_or(0)
}

/// Estimates the GPU-time that a job takes, in thousandths of a device times milliseconds. A job
/// without GPUs counts as if it had one.
fn gpu_time(shape: &Shape) -> u64 {
    let length = shape.predicted.or(shape.takes).map_or(u64::MAX, Millis::get);
    length.saturating_mul(shape.gpus_together().get().max(1))
}
