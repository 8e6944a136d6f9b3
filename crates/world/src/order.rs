//! The order of jobs: the policy's keys, compared left to right, then age, which is the order in
//! which the jobs of a shape are kept, then the job's id, so that it is total.

use gpool_model::attained::Level;
use gpool_model::{JobId, Millis, OrderKey, Policy, Shape, Timestamp};

/// A job's place in the order; smaller goes first. Of one priority those that make another job
/// larger come last (SCHEDULING A4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Whether it makes another job larger, where priority does not come before that.
    joins: bool,
    keys: [u64; Self::KEYS_MAX],
    submitted_at: Timestamp,
    job: JobId,
}

impl Rank {
    /// Each key stands at most once in a policy.
    const KEYS_MAX: usize = 6;
    /// Priorities are below this, so that their complement is a natural number.
    const PRIORITY_ABOVE: i64 = 1 << 32;

    /// Where a job of that shape stands.
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
                // Among escalated jobs the oldest goes first, whatever its size.
                OrderKey::Gpus | OrderKey::Predicted | OrderKey::Attained if by_age_alone => 0,
                OrderKey::Attained => u64::from(level_of_waiting(shape, is_escalated)),
                OrderKey::Predicted => gpu_time(shape),
                OrderKey::Gpus => shape.fit.gpus_together().get(),
                OrderKey::Age => submitted_at.get(),
            };
        }
        let joins = shape.joins && policy.order.first() != Some(&OrderKey::Priority);
        Self { joins, keys, submitted_at, job }
    }

    /// Whose place it is.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.job
    }

    /// When that was submitted.
    #[must_use]
    pub fn submitted_at(&self) -> Timestamp {
        self.submitted_at
    }
}

/// The level at which a job stands that waits: one that has waited for long is at the first.
#[must_use]
pub fn level_of_waiting(shape: &Shape, is_escalated: bool) -> Level {
    shape.level.filter(|_| !is_escalated).unwrap_or(0)
}

/// How much GPU-time a job is likely to take: thousandths of a device times milliseconds. Without
/// GPUs its time counts as if it had one.
fn gpu_time(shape: &Shape) -> u64 {
    let length = shape.predicted.or(shape.takes).map_or(u64::MAX, Millis::get);
    length.saturating_mul(shape.fit.gpus_together().get().max(1))
}
